"""Code that reads checkpoints in a process of its own."""
