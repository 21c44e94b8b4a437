"""Statements about built targets: provenance, SBOMs and signatures, and their verification."""
