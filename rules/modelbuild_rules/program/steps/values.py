"""The places of values in a program that was lowered without the values of its weights, and the values.

A file `NAME.source` in a folder of tensors names a tensor; recipes.json has the calls that make tensors of weights, and
the places of tensors in the residual program.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from modelbuild_rules.backend_api.steps.named_data import NamedBytes, read_named, write_named
from modelbuild_rules.model.steps.exported.recipes import Recipes
from modelbuild_rules.model.steps.exported.sources import Sources
from modelbuild_rules.model.steps.exported.tensors import SOURCE, files_of, write_tensor
from modelbuild_rules.program.steps.linking.link import read_file
from modelbuild_rules.program.steps.linking.shared_constants import constants

if TYPE_CHECKING:
    from modelbuild_rules.program.documents import Place, RecipeFile

RECIPES = "recipes.json"


def write_places(structure: Path, residual: str, sources: Sources) -> None:
    """Write recipes.json of a structure, which has the residual program in the folder `residual`. Raises ValuesNeeded
    if the place of a small tensor may be that of a constant."""
    places = list(_places(structure, structure / residual, sources))
    names = {each["name"] for each in places} | {path.read_text() for path in structure.rglob(f"*{SOURCE}")}
    made: RecipeFile = {"calls": sources.calls(names), "places": places}
    (structure / RECIPES).write_text(json.dumps(made, indent=1) + "\n")


def _places(structure: Path, residual: Path, sources: Sources) -> Iterator[Place]:
    program = residual / "program.pte"
    for blob in constants(*read_file(program)):
        if (name := sources.marked(blob.read())) is not None:
            file = str(program.relative_to(structure))
            yield {"file": file, "offset": blob.offset, "size": blob.size, "name": name}
    for path in sorted((residual / "constants").glob("*.bin")):
        name = sources.marked(path.read_bytes())
        if name is not None:
            file = str(path.relative_to(structure))
            yield {"file": file, "offset": 0, "size": path.stat().st_size, "name": name}


class Values:
    """The values for the places in a structure, of a program and its weights."""

    def __init__(self, structure: Path, program: Path, weights: Path) -> None:
        self._weights = weights
        found: RecipeFile = json.loads((structure / RECIPES).read_text())
        self._places = found["places"]
        self._recipes = Recipes(found["calls"], files_of(program, weights))

    def fill_tensors(self, folder: Path) -> None:
        """Write the values of the tensors that are named in a folder, and remove the names."""
        for path in sorted(folder.rglob(f"*{SOURCE}")):
            name = path.read_text()
            if self._recipes.is_weight(name):
                shutil.copyfile(self._weights / name, path.with_suffix(""))
            else:
                write_tensor(self._recipes.tensor(name), path.with_suffix(""))
            path.unlink()

    def fill_residual(self, folder: Path, residual: str) -> None:
        """Write the values in a copy of the structure's residual program."""
        for place in self._places:
            with (folder / Path(place["file"]).relative_to(residual)).open("r+b") as file:
                file.seek(place["offset"])
                file.write(self._recipes.data(place["name"], place["size"]))
        named = folder / "constants"
        entries = [NamedBytes(e.key, e.path.read_bytes(), e.alignment, e.external, e.layout) for e in read_named(named)]
        for path in named.iterdir():
            path.unlink()
        write_named(named, entries)
