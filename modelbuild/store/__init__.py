"""Where results are kept: blobs by content, action results by key, behind the one interface `Store`."""
