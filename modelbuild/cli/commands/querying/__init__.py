"""Commands that answer questions about targets, actions and programs."""
