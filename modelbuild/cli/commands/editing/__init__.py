"""Commands for authors of BUILD files: new workspaces and targets, formatting, help."""
