"""Analysis: targets and a configuration to a graph of actions."""
