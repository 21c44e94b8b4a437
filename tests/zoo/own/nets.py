"""Forms that packages of image models lack: recurrent nets, audio, streams, point clouds, super-resolution."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class Recurrent(nn.Module):
    def __init__(self, cell: str) -> None:
        super().__init__()
        self.net = getattr(nn, cell)(16, 32, num_layers=2, batch_first=True)
        self.head = nn.Linear(32, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.net(x)[0][:, -1])


class Temporal(nn.Module):
    """A temporal convolutional network: dilated causal convolutions (Bai et al. 2018)."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(16, 16, 3, dilation=2**n) for n in range(4))

    def forward(self, x: Tensor) -> Tensor:
        for n, layer in enumerate(self.layers):
            x = x + torch.relu(layer(functional.pad(x, (2 * 2**n, 0))))
        return x


class PointNet(nn.Module):
    """A classifier of point clouds (Qi et al. 2017), without the transforms."""

    def __init__(self) -> None:
        super().__init__()
        self.points = nn.Sequential(
            nn.Conv1d(3, 64, 1), nn.BatchNorm1d(64), nn.ReLU(), nn.Conv1d(64, 256, 1), nn.BatchNorm1d(256), nn.ReLU()
        )
        self.head = nn.Linear(256, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.points(x).amax(2))


class UNet(nn.Module):
    """An encoder and a decoder with a skip connection and a transposed convolution (Ronneberger et al. 2015)."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.SiLU())
        self.middle = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.SiLU())
        self.up = nn.ConvTranspose2d(32, 16, 2, stride=2)
        self.out = nn.Conv2d(32, 2, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        skip = self.down(x)
        return self.out(torch.cat([skip, self.up(self.middle(skip))], 1))


class SuperResolution(nn.Module):
    """EDSR's form: residual blocks and a pixel shuffle (Lim et al. 2017)."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Conv2d(3, 32, 3, padding=1)
        self.body = nn.ModuleList(
            nn.Sequential(nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1)) for _ in range(4)
        )
        self.tail = nn.Sequential(nn.Conv2d(32, 48, 3, padding=1), nn.PixelShuffle(4))

    def forward(self, x: Tensor) -> Tensor:
        x = self.head(x)
        for block in self.body:
            x = x + block(x)
        return self.tail(x)


class Mel(nn.Module):
    """A log mel spectrogram and a small classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(256))
        self.register_buffer("filters", torch.rand(40, 129))
        self.head = nn.Conv1d(40, 8, 3)

    def forward(self, wave: Tensor) -> Tensor:
        spectrum = torch.stft(wave, 256, 128, window=self.window, return_complex=True).abs().square()
        return self.head(torch.log(self.filters @ spectrum + 1e-5)).mean(2)


class Cache(nn.Module):
    """A step of attention whose keys and values are kept in buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(32, 96)
        self.register_buffer("keys", torch.zeros(1, 4, 16, 8))
        self.register_buffer("values", torch.zeros(1, 4, 16, 8))

    def forward(self, x: Tensor, position: Tensor) -> Tensor:
        q, k, v = self.qkv(x).view(1, 1, 3, 4, 8).permute(2, 0, 3, 1, 4)
        self.keys[:, :, position] = k
        self.values[:, :, position] = v
        mask = (torch.arange(16) <= position)[None]
        return functional.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask)


class Stream(nn.Module):
    """A convolution over a stream: the last samples of each block are kept for the next."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Conv1d(4, 4, 5)
        self.register_buffer("past", torch.zeros(1, 4, 4))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([self.past, x], 2)
        self.past.copy_(x[:, :, -4:])
        return self.net(x)


class Video(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Conv3d(3, 8, 3, padding=1), nn.BatchNorm3d(8), nn.ReLU(), nn.AdaptiveAvgPool3d(1))
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.net(x).flatten(1))


class Camera(nn.Module):
    """A net that takes a picture as a camera gives it: uint8, rows x columns x channels."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())

    def forward(self, image: Tensor) -> Tensor:
        return self.net(image.permute(2, 0, 1)[None].float() / 255)
