"""The service of published model files: those known, those here, and their users."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from edge.appliance.model_costs import ModelCosts
from edge.core.model_files import models_folder
from edge.models.catalogue import read_catalogue
from edge.models.folder import ModelsFolder
from edge.models.shelf import KnownDescription, KnownModel, known_descriptions, known_models


@dataclass(frozen=True)
class KnownFiles:
    """The models folder, the models that are known or were added, and the shipped teachers and students."""

    folder: str
    models: tuple[KnownModel, ...]
    descriptions: tuple[KnownDescription, ...]


class ModelFilesService(Protocol):
    """Part of `edge.appliance.service.ApplianceService`. Blocking: transports call it in a thread."""

    def known(self) -> KnownFiles:
        """By name and size; `magpie models check` reads the files. Raises StoreError (the folder cannot be read)."""


class ModelFiles:
    """Implements `ModelFilesService` on the shipped catalogue and the models folder of this process."""

    def __init__(self, environment: Mapping[str, str] | None = None, costs: ModelCosts | None = None) -> None:
        self._costs = costs or ModelCosts()
        self._environment = os.environ if environment is None else environment
        self._catalogue = read_catalogue()

    def known(self) -> KnownFiles:
        """Looks at the folder anew each time: `magpie models pull` may run beside the appliance."""
        folder = ModelsFolder(models_folder(self._environment))
        models = known_models(self._catalogue, folder)
        found = known_descriptions(self._catalogue, models, self._environment)
        with_costs = tuple(replace(d, answer_ms=ms) for d, ms in zip(found, self._costs.of(found), strict=True))
        return KnownFiles(str(folder.path), models, with_costs)
