"""Run tests: targets that have an action whose report says whether they passed."""
