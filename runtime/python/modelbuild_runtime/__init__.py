"""The Python face of what runs a .pte."""
