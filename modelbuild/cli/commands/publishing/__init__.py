"""Commands that publish built targets."""
