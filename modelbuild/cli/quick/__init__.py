"""Answers without the rest of modelbuild: completion, help, and a build with nothing to do."""
