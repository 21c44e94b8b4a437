"""Commands that build and test."""
