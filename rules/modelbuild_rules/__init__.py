"""The rules that come with modelbuild: files, PyTorch models, and the programs made of them."""
