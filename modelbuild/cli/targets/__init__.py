"""The targets and programs that arguments of commands name."""
