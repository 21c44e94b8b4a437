"""The inputs of a step that reads the samples of a dataset."""

from __future__ import annotations

from collections.abc import Mapping

from modelbuild.api import Artifact
from modelbuild_rules.providers import Dataset


def sample_inputs(dataset: Dataset) -> Mapping[str, tuple[Artifact, ...]]:
    """Return the inputs from which steps/samples.py reads."""
    found = {f"sample.{name}": files for name, files in dataset.files.items()}
    if dataset.archives:
        found["samples.archives"] = dataset.archives
    if dataset.generated is not None:
        found["samples.generated"] = (dataset.generated,)
    return found
