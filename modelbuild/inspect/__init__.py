"""Contents of a .pte, for people and machines."""
