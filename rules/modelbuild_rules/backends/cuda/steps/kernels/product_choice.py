"""Choose the cheapest kernel of a matrix product or convolution, given what its compiled candidates use."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from modelbuild_rules.backends.cuda.steps.kernels.compiler import Usage
from modelbuild_rules.backends.cuda.steps.kernels.cost import Product, Tile, cost
from modelbuild_rules.backends.cuda.steps.kernels.device import Gpu
from modelbuild_rules.backends.cuda.steps.kernels.request import Request

TRIED = 6

Usages = dict[str, Usage | None]
"""The resources of kernels, by the keys of their requests; None for a kernel that does not compile."""


def cheapest(
    product: Product,
    split: int,
    tiles: Sequence[Tile],
    gpu: Gpu,
    usages: Callable[[Sequence[int]], Iterable[tuple[int, Usage | None]]],
) -> tuple[int, Sequence[int]]:
    """Return the index of the cheapest tile, and all in the order of their costs.

    That is the cheapest whose kernel compiles for the GPU, fits its shared memory and spills no registers, given the
    registers that it takes. If the few cheapest tiles all spill, it is the cheapest tile.

    split   the number of parts of the product's depth
    usages  yields some tiles' indices and what their kernels use, compiled when it is asked for; None for a kernel that
            does not compile
    """
    costs = [cost(tile, product, gpu, split) for tile in tiles]
    ranked = sorted(range(len(tiles)), key=lambda index: (costs[index], index))
    best = (True, math.inf, ranked[0])
    for number, (index, usage) in enumerate(usages(ranked[:TRIED]), 1):
        if usage is None:
            continue
        actual = cost(tiles[index], product, gpu, split, usage.registers)
        best = min(best, (usage.spilled > 0, actual, index))
        # Registers rarely lower the costs of other candidates.
        if not best[0] and all(best[1] <= costs[other] for other in ranked[number:TRIED]):
            break
    return best[2], ranked


@dataclass(frozen=True)
class Choice:
    """A choice to make on any machine: a product, and the tiles and requests of its candidates.

    operator  its name, for messages
    """

    operator: str
    product: Product
    split: int
    tiles: Sequence[Tile]
    requests: Sequence[Request]

    def text(self) -> str:
        """Return the choice as JSON."""
        return json.dumps(asdict(self), indent=1)

    @property
    def key(self) -> str:
        """The digest of the choice."""
        return hashlib.sha256(self.text().encode()).hexdigest()


def read_choice(text: str) -> Choice:
    """Return a choice from its JSON."""
    given: dict[str, Any] = json.loads(text)
    tiles = [Tile(**each) for each in given["tiles"]]
    requests = [Request(**each) for each in given["requests"]]
    return Choice(given["operator"], Product(**given["product"]), given["split"], tiles, requests)


def write_usages(usages: Mapping[str, Usage | None]) -> str:
    """Return usages as JSON."""
    return json.dumps({key: asdict(each) if each else None for key, each in sorted(usages.items())}, indent=1) + "\n"


def read_usages(text: str) -> Usages:
    """Return usages from their JSON."""
    return {key: Usage(**each) if each else None for key, each in json.loads(text).items()}
