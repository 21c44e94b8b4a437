"""A small language model of characters with random weights, and methods that share a cache: prefill and decode."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

ALPHABET = Path(__file__).with_name("alphabet.txt").read_text().rstrip("\n")
LENGTH, LAYERS, HEADS, SIZE = 32, 2, 2, 32  # positions in the cache, layers, heads, numbers of each head


class Layer(nn.Module):
    """Attention to all positions up to a token's own, and a perceptron."""

    def __init__(self) -> None:
        super().__init__()
        width = HEADS * SIZE
        self.norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, LENGTH, HEADS, SIZE), persistent=False)

    def forward(self, x: Tensor, positions: Tensor, hidden: Tensor) -> Tensor:
        normed = self.norm(x)
        query, key, value = (each(normed).view(1, -1, HEADS, SIZE) for each in (self.query, self.key, self.value))
        self.keys.index_copy_(1, positions, key)
        self.values.index_copy_(1, positions, value)
        scores = query.transpose(1, 2) @ self.keys.permute(0, 2, 3, 1) / SIZE**0.5
        found = (scores + hidden).softmax(-1) @ self.values.transpose(1, 2)
        x = x + self.out(found.transpose(1, 2).reshape(1, -1, HEADS * SIZE))
        return x + self.down(self.up(self.second_norm(x)).relu())


class LanguageModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(len(ALPHABET), HEADS * SIZE), nn.Embedding(LENGTH, HEADS * SIZE)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.head = nn.Linear(HEADS * SIZE, len(ALPHABET))

    def call(self, tokens: Tensor, positions: Tensor) -> Tensor:
        later = torch.arange(LENGTH)[None, :] > positions[:, None]
        hidden = torch.where(later, -1e9, 0.0)
        x = self.tokens(tokens) + self.places(positions)
        for layer in self.layers:
            x = layer(x, positions, hidden)
        return self.head(x[:, -1])

    def prefill(self, tokens: Tensor) -> Tensor:
        """Read a prompt, and return the logits of the token after it."""
        return self.call(tokens, torch.arange(tokens.shape[1]))

    def decode(self, token: Tensor, position: Tensor) -> Tensor:
        """Read one token more."""
        return self.call(token, position)
