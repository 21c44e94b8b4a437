"""Past one machine: a remote cache behind the local store, and remote execution, over open protocols."""
