"""Analysis: turn targets and a configuration into a graph of actions."""
