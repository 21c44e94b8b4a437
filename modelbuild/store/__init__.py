"""Storage of results: blobs by content and action results by key, behind the interface `Store`."""
