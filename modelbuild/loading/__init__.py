"""Loading: MODELBUILD.toml, BUILD.toml, patterns and source files to targets, with a location for every error."""
