"""The report of a build or a program: one HTML page with its data as JSON."""
