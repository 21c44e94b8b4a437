"""Text that messages of several rooms use."""


def count(number: int, noun: str) -> str:
    """Return `1 node` or `2 nodes`."""
    return f"{number} {noun}" + "s" * (number != 1)
