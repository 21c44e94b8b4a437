"""Earlier builds: written after a build that did some work, never by a null build."""
