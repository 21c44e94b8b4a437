"""Queries of targets and actions, in Bazel's query language."""
