"""A client of OCI registries, without packages from outside: steps use it too."""
