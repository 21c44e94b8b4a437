"""Which actions run, and when."""
