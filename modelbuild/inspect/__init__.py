"""What a .pte holds, told to people and machines."""
