"""The language server: BUILD files in editors. Needs `pip install modelbuild[lsp]`."""
