"""Nets on spectrograms of sound, [batch, time, frequencies]."""

import torch
from torch import Tensor, nn


class Keyword(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.recurrent = nn.GRU(40, 32, batch_first=True)
        self.words = nn.Linear(32, 12)

    def forward(self, sound: Tensor) -> Tensor:
        return self.words(self.recurrent(sound)[0][:, -1]).log_softmax(-1)


class Event(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(40, 4, 64, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.events = nn.Linear(40, 5)

    def forward(self, sound: Tensor) -> Tensor:
        return self.events(self.layers(sound).mean(1)).sigmoid()


class Denoiser(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.filters = nn.Sequential(nn.Conv1d(40, 64, 5, padding=2), nn.PReLU(), nn.Conv1d(64, 40, 5, padding=2))

    def forward(self, sound: Tensor) -> Tensor:
        return sound * torch.sigmoid(self.filters(sound.transpose(1, 2))).transpose(1, 2)
