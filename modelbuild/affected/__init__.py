"""Which targets a change touches: loading and analysis at both revisions, compared without building either."""
