"""Bills of materials, as CycloneDX."""
