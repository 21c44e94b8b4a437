"""Commands that state and verify what built targets are made of."""
