"""Explain why an action ran or was cached, by comparing its key with the previous one."""
