"""Which model files a description of a teacher or student names, and which descriptions are shipped.

Descriptions are read loosely here: their own reader reports their errors when they are opened. Only
what this room needs to know must be readable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import yaml

import configs
from edge.core.errors import InvalidValue
from edge.core.model_files import model_path, models_folder

Kind = Literal["teacher", "student"]
_FOLDERS: Final[dict[Kind, str]] = {"teacher": "teachers", "student": "students"}
_PUBLISHED: Final = "published"
_DEEPEST: Final = 16


@dataclass(frozen=True)
class ShippedDescription:
    """A description that comes with Magpie."""

    kind: Kind
    name: str
    path: Path


@dataclass(frozen=True)
class NamedFile:
    """A model file that a description names, itself or by a member. `model` is the (member's) name; `sha256` and
    `licence` are "" where it says nothing; `torchvision` names the model whose published weights are meant."""

    model: str
    path: Path
    sha256: str = ""
    licence: str = ""
    torchvision: str = ""


def shipped() -> tuple[ShippedDescription, ...]:
    """The shipped teachers and students, by kind and name."""
    root = Path(configs.__file__).parent
    return tuple(
        ShippedDescription(kind, path.stem, path.resolve())
        for kind, folder in _FOLDERS.items()
        for path in sorted((root / folder).glob("*.yaml"))
    )


def described(text: str, kind: Kind) -> Path:
    """The file that a setting means: the name of a shipped description (`yolox_nano`), or a path."""
    known = {d.name: d.path for d in shipped() if d.kind == kind}
    return known.get(text, Path(text))


def named_files(description: Path, environment: Mapping[str, str]) -> tuple[NamedFile, ...]:
    """The files of a description and of the descriptions that it names, each file once. Published weights are named
    by the models folder alone; the demo's own weights come with Magpie and are left out.

    Raises:
        InvalidValue: a description cannot be read, or contains itself.
    """
    return tuple(dict.fromkeys(_of_file(description.resolve(), environment, ())))


def _of_file(path: Path, environment: Mapping[str, str], above: tuple[Path, ...]) -> Iterator[NamedFile]:
    if path in above or len(above) >= _DEEPEST:
        raise InvalidValue("description", str(path), "a file that does not contain itself")
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidValue("description", str(path), "a file that exists") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValue("description", str(path), f"a readable YAML file ({error})") from error
    except yaml.YAMLError as error:
        raise InvalidValue("description", str(path), f"valid YAML ({' '.join(str(error).split())})") from error
    yield from _of_value(value, path, environment, (*above, path), path.stem)


def _of_value(
    value: Any, path: Path, environment: Mapping[str, str], above: tuple[Path, ...], name: str
) -> Iterator[NamedFile]:
    if isinstance(value, str):  # the name of another description
        yield from _of_file(model_path("teacher", value, path.parent, environment).resolve(), environment, above)
        return
    if not isinstance(value, Mapping) or len(above) >= _DEEPEST:
        return
    given = value.get("name")
    name = given if isinstance(given, str) and given else name
    inner: list[tuple[Any, str]] = []
    match value.get("kind"):
        case "onnx":
            yield from _file(value, "file", path, environment, name)
        case "torchvision" if value.get("weights", _PUBLISHED) == _PUBLISHED:
            model = str(value.get("model", ""))
            yield NamedFile(name, models_folder(environment), _text(value, "sha256"), _text(value, "licence"), model)
        case "torchvision":
            yield from _file(value, "weights", path, environment, name)
        case "ensemble":
            members = value.get("members")
            if isinstance(members, list):
                inner = [(m.get("teacher"), f"{name}.{n}") for n, m in enumerate(members) if isinstance(m, Mapping)]
        case "combined":
            inner = [(value.get("detector"), f"{name}.detector"), (value.get("classifier"), f"{name}.classifier")]
    for one, its_name in inner:
        yield from _of_value(one, path, environment, (*above, Path(f"{len(above)}")), its_name)


def _file(
    value: Mapping[str, Any], key: str, path: Path, environment: Mapping[str, str], name: str
) -> Iterator[NamedFile]:
    text = value.get(key)
    if isinstance(text, str) and text:
        file = model_path(f"{name}.{key}", text, path.parent, environment)
        yield NamedFile(name, file, _text(value, "sha256"), _text(value, "licence"))


def _text(value: Mapping[str, Any], key: str) -> str:
    text = value.get(key)
    if not isinstance(text, str):
        return ""
    return text.lower() if key == "sha256" and re.fullmatch(r"[0-9a-fA-F]{64}", text) else text
