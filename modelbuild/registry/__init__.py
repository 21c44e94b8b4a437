"""A client of OCI registries, without third-party packages, because steps also use it."""
