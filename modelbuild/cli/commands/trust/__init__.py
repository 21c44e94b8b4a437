"""Commands that document and verify the contents of built targets."""
