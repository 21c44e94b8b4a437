"""The scheduler: decides which actions run, and when."""
