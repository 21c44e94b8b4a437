"""From a workspace's files to targets: MODELBUILD.toml, BUILD.toml, patterns, sources, with a place for every error."""
