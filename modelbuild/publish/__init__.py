"""Publishing built targets: to registries, object stores and folders. Imported only by `publish` and `release`."""
