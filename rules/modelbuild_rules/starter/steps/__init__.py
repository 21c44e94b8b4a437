"""Code that reads checkpoints in a separate process."""
