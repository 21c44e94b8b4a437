"""Earlier builds: written after each build that did some work."""
