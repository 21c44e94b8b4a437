"""What shows a build: events, and those that listen to them."""
