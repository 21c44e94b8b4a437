"""modelbuild: a build system for models. Importing it imports nothing else."""

__version__ = "0.1.0"
