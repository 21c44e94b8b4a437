"""`modelbuild check`: check that programs can be lowered, and list every reason if they cannot."""

from modelbuild.api import Command

# The output group of the checks of a program's methods.
GROUP = "check"

check = Command(
    "check",
    help="Check that programs can be lowered, without building them.",
    about="Models are exported, and each of their operators is offered to the backends of the stack. Nothing is"
    " compiled. Every reason why a program can't be lowered is printed.",
    group=lambda options: GROUP,
)
