"""Commands for those who write BUILD files: new workspaces and targets, formatting, help."""
