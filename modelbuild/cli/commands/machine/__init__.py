"""Commands about this machine: the cache, the output tree, settings and checks."""
