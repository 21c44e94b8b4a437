"""Loading: turn MODELBUILD.toml, BUILD.toml, patterns and source files into targets, with a location for every
error."""
