"""From targets and a configuration to a graph of actions."""
