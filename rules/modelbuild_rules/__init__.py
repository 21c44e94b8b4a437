"""The rules that come with modelbuild: files, PyTorch models, and programs made of the models."""
