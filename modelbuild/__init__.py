"""modelbuild: a build system for ML models. Importing this package imports nothing else."""

__version__ = "0.1.0"
