"""`python -m modelbuild`."""

from modelbuild.cli import main

main()
