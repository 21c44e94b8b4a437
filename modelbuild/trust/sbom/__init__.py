"""Bills of materials, as CycloneDX and SPDX."""
