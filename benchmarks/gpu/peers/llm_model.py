"""The language model of benchmarks/llm.py in plain PyTorch, for benchmarks/gpu/cuda_llm.py.

A Llama with the widths of SmolLM-135M. Its cache of keys and values is in buffers, which `decode` changes in place.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention, silu

LENGTH = 128  # positions in the cache
WIDTH, INNER, HEADS, KEY_HEADS = 576, 1536, 9, 3
SIZE = WIDTH // HEADS


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.RMSNorm(WIDTH, eps=1e-6) for _ in range(2))
        self.q = nn.Linear(WIDTH, HEADS * SIZE, bias=False)
        self.k, self.v = (nn.Linear(WIDTH, KEY_HEADS * SIZE, bias=False) for _ in range(2))
        self.out = nn.Linear(HEADS * SIZE, WIDTH, bias=False)
        self.gate, self.up = (nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
        self.down = nn.Linear(INNER, WIDTH, bias=False)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, KEY_HEADS, LENGTH, SIZE), persistent=False)

    def forward(self, x: Tensor, position: Tensor, turn: tuple[Tensor, Tensor], mask: Tensor) -> Tensor:
        given = self.norms[0](x)
        q, k, v = (each(given).unflatten(2, (-1, SIZE)).transpose(1, 2) for each in (self.q, self.k, self.v))
        self.keys.index_copy_(2, position, turned(k, *turn))
        self.values.index_copy_(2, position, v)
        keys, values = (each.repeat_interleave(HEADS // KEY_HEADS, 1) for each in (self.keys, self.values))
        seen = scaled_dot_product_attention(turned(q, *turn), keys, values, mask)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        given = self.norms[1](x)
        result: Tensor = x + self.down(silu(self.gate(given)) * self.up(given))
        return result


def turned(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Return keys or queries with rotary positions."""
    first, second = x.chunk(2, -1)
    return x * cosines + torch.cat((-second, first), -1) * sines


class Llm(nn.Module):
    """`forward` reads tokens at positions; its result is the logits after the last one. `prefill` reads a prompt,
    `decode` one token."""

    def __init__(self, layers: int, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, WIDTH)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.norm = nn.RMSNorm(WIDTH, eps=1e-6)
        self.head = nn.Linear(WIDTH, vocabulary, bias=False)
        self.head.weight = self.embedding.weight
        angles = torch.outer(torch.arange(LENGTH), 10000.0 ** (-torch.arange(0, SIZE, 2) / SIZE)).repeat(1, 2)
        self.register_buffer("cosines", angles.cos(), persistent=False)
        self.register_buffer("sines", angles.sin(), persistent=False)

    def forward(self, token: Tensor, position: Tensor) -> Tensor:
        x = self.embedding(token)
        turn = self.cosines[position], self.sines[position]
        mask = torch.arange(LENGTH, device=token.device)[None, :] <= position[:, None]
        for layer in self.layers:
            x = layer(x, position, turn, mask)
        result: Tensor = self.head(self.norm(x)[:, -1]).float()
        return result

    def prefill(self, tokens: Tensor) -> Tensor:
        result: Tensor = self(tokens, torch.arange(tokens.shape[1], device=tokens.device))
        return result

    def decode(self, token: Tensor, position: Tensor) -> Tensor:
        result: Tensor = self(token, position)
        return result


def make(layers: int, vocabulary: int, precision: str, constant: bool) -> nn.Module:
    """Return the model in "fp32" or "fp16". Each of its parameters is a constant of its own, since equal ones would be
    in memory once; or they are random and rounded to multiples of about their deviation, so that they compress."""
    torch.manual_seed(0)
    module = Llm(layers, vocabulary).eval()
    with torch.no_grad():
        for number, each in enumerate(module.parameters()):
            if constant:
                each.fill_((1 + number / 1024) / math.sqrt(each.numel()))
            elif each.dim() > 1:
                step = 2.0 ** round(math.log2(float(each.std())))
                each.copy_((each / step).round() * step)
    return module.half() if precision == "fp16" else module
