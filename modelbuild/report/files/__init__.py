"""Files about a build, for CI and other programs."""
