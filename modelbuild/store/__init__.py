"""Where results are kept: blobs by content, action results by key. `Store` is the one interface; `LocalStore` the local one."""
