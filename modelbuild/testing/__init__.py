"""Run tests: targets with an action whose report contains the result."""
