"""The arguments of the program `label`, checked when a job is submitted and again where it runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from edge.core import checks
from edge.core.errors import InvalidValue
from edge.core.fields import mapping, required, sequence
from edge.core.fleet import check_name

_KEYS: Final = ("folder", "pictures", "out", "teacher", "classes", "class_map", "threads")
#: The name of a shipped description; none by path, which could name any file of the box.
_SHIPPED: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LONGEST_PATH: Final = 500
_MOST_THREADS: Final = 256


@dataclass(frozen=True)
class LabelWork:
    """Label the `pictures` (JPEG and PNG below this path of the folder) by a shipped teacher, and write `out`, a COCO
    file in the folder. `classes`: those to look for (empty: all that the teacher knows); `class_map`: such a class ->
    the teacher's classes."""

    folder: str
    out: str
    teacher: str
    pictures: str = ""
    classes: tuple[str, ...] = ()
    class_map: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    threads: int = 1


def label_work(arguments: Mapping[str, Any]) -> LabelWork:
    """The work of JSON arguments. Raises InvalidValue with paths below `arguments`."""
    checks.known_keys("arguments", arguments, _KEYS)
    check_name("arguments.folder", required(arguments, "folder", "arguments"))
    classes = _texts("classes", arguments.get("classes", ()))
    checks.unique("arguments.classes", classes)
    mapped = mapping(arguments.get("class_map", {}), "arguments.class_map")
    work = LabelWork(
        arguments["folder"],
        _path("out", required(arguments, "out", "arguments"), ending=(".json",)),
        required(arguments, "teacher", "arguments"),
        _path("pictures", arguments.get("pictures", "")),
        classes,
        {name: _texts(f"class_map.{name}", value) for name, value in mapped.items()},
        arguments.get("threads", 1),
    )
    checks.in_range("arguments.threads", work.threads, 1, _MOST_THREADS)
    if not isinstance(work.threads, int):
        raise InvalidValue("arguments.threads", work.threads, "a whole number")
    if not isinstance(work.teacher, str) or not _SHIPPED.fullmatch(work.teacher):
        raise InvalidValue("arguments.teacher", work.teacher, "the name of a shipped teacher, such as picodet_s")
    if work.class_map and not classes:
        raise InvalidValue("arguments.class_map", sorted(work.class_map), "nothing, but with classes")
    return work


def check_label(arguments: Mapping[str, Any]) -> None:
    """Raises InvalidValue for arguments that `label` cannot take."""
    label_work(arguments)


def _texts(name: str, value: Any) -> tuple[str, ...]:
    rows = sequence(value, f"arguments.{name}")
    for number, row in enumerate(rows):
        if not isinstance(row, str) or not row:
            raise InvalidValue(f"arguments.{name}[{number}]", row, "the name of a class")
    return tuple(rows)


def _path(name: str, value: Any, ending: tuple[str, ...] = ("",)) -> str:
    """A relative path; whether it leaves the folder is seen where it runs."""
    words = "a relative path" + (f" that ends in {' or '.join(ending)}" if any(ending) else "")
    good = isinstance(value, str) and len(value) <= _LONGEST_PATH and not value.startswith("/")
    if not good or not value.endswith(ending) or ".." in value.split("/"):
        raise InvalidValue(f"arguments.{name}", value, words)
    return str(value)
