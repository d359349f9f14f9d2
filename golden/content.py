"""The content of a golden model as one hash: two boxes with the same content make the same labels."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Final

from edge.core.errors import WeightsError
from golden.spec import DemoSpec, TeacherSpec, TorchvisionSpec

#: Fields that say nothing about labels: names, and what is said about a file whose content is hashed.
_ASIDE: Final = frozenset({"name", "sha256", "licence"})


def teacher_content(spec: TeacherSpec) -> str:
    """The SHA-256 (hex) of a description in which the content of each file stands for its place. Reads all files.
    Raises WeightsError where one cannot be read."""
    return hashlib.sha256(json.dumps(_plain(spec), sort_keys=True).encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return _content(value)
    if is_dataclass(value) and not isinstance(value, type):
        found = {f.name: _plain(getattr(value, f.name)) for f in fields(value) if f.name not in _ASIDE}
        return found | _more(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (tuple, list)) else value


def _more(value: Any) -> dict[str, str]:
    """The files of a description that it does not name."""
    if isinstance(value, DemoSpec):
        return {"sidecar": _content(value.weights.with_suffix(".json"))}
    if isinstance(value, TorchvisionSpec) and not isinstance(value.weights, Path):
        from golden.torchvision_teacher import published_file

        url, file = published_file(value)
        return {"weights": _content(file) if file.is_file() else url}
    return {}


def _content(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise WeightsError(f"{path}: the model file cannot be read ({error.strerror})") from error
