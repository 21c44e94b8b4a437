"""Questions about a workspace, in Bazel's query language. One file a question."""
