"""Why an action ran, or did not: what its key was made of, now and the last time."""
