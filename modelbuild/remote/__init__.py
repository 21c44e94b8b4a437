"""A remote cache behind the local store, and remote execution, over open protocols."""
