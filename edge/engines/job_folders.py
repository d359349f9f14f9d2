"""Folders of a box in which programs of jobs read and write, by name. A job can name no other place, since
people who may submit jobs need not have the right to read every file of the box.

The process of the engine passes them to the programs by its environment, so that workers of Ray and pods know them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from edge.core.engine import EngineWork
from edge.core.errors import InvalidValue

VARIABLE: Final = "MAGPIE_JOB_FOLDERS"
#: Of this folder pods take their model files, as boxes do of the variable MAGPIE_MODELS.
MODELS: Final = "models"


def folders_text(folders: Mapping[str, str]) -> str:
    """The folders that the environment names."""
    return json.dumps(dict(folders), sort_keys=True)


def folder_of(name: str, environment: Mapping[str, str] = os.environ) -> Path:
    """The folder of this name here. Raises InvalidValue."""
    known: Mapping[str, str] = json.loads(environment.get(VARIABLE) or "{}")
    if name not in known:
        words = f"a folder of fleet.engine.folders on the box that runs it: {', '.join(sorted(known)) or 'it has none'}"
        raise InvalidValue("arguments.folder", name, words)
    return Path(known[name])


def inside(folder: Path, field: str, given: str) -> Path:
    """A path below a folder, whatever links lie there. Raises InvalidValue, which names `field`, for one that leads out
    of it."""
    root = folder.resolve()
    found = (root / given).resolve()
    if not found.is_relative_to(root):
        raise InvalidValue(f"arguments.{field}", given, "a path that stays in the folder")
    return found


def folders_for(work: EngineWork, folders: Mapping[str, str]) -> dict[str, str]:
    """Of these folders those that a work needs: the one that it names, and model files."""
    named = work.arguments.get("folder")
    return {name: path for name, path in folders.items() if named is not None and name in (named, MODELS)}
