"""A model with a scale, for tests of programs on devices: a program of scale 2 is right for that model, and wrong for
any other."""

NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        return torch.tanh(x) * self.scale
"""
MODEL = """
[[torch_model]]
name = "model_{scale}"
entry = "net.py:Net"
kwargs = {{ scale = {scale} }}
inputs = [{{ name = "x", shape = {shape}, dtype = "float32", range = [-1, 1] }}]
outputs = ["y"]
"""
