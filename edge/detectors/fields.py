"""Fields of a YAML description: each is checked when it is taken; fields not taken are refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge.core import checks
from edge.core.errors import InvalidValue
from edge.core.model_files import model_path


@dataclass(frozen=True)
class Context:
    """Where a description lies: its folder, the environment, and the files that named it (outermost first)."""

    folder: Path
    environment: Mapping[str, str]
    above: tuple[Path, ...]


class Fields:
    """A mapping from YAML with its path: each `take` checks one field, `end` refuses what was not taken."""

    def __init__(self, value: Any, path: str) -> None:
        if not isinstance(value, Mapping):
            raise InvalidValue(path, value, "a mapping of fields")
        for key in value:
            if not isinstance(key, str):
                raise InvalidValue(f"{path}.{key}", key, "a field name")
            checks.plain_text(path, key)
        self._value, self.path, self._taken = value, path, set[str]()

    def has(self, key: str) -> bool:
        self._taken.add(key)
        return self._value.get(key) is not None

    def raw(self, key: str) -> Any:
        if not self.has(key):
            raise InvalidValue(self.at(key), None, "a value (the field is required)")
        return self._value[key]

    def at(self, key: str) -> str:
        return f"{self.path}.{key}"

    def text(self, key: str, default: str | None = None, allowed: Sequence[str] = ()) -> str:
        if default is not None and not self.has(key):
            return default
        value = self.raw(key)
        if not isinstance(value, str) or not value:
            raise InvalidValue(self.at(key), value, "a text")
        checks.plain_text(self.at(key), value)
        if allowed:
            checks.one_of(self.at(key), value, allowed)
        return value

    def flag(self, key: str, default: bool) -> bool:
        if not self.has(key):
            return default
        value = self.raw(key)
        if not isinstance(value, bool):
            raise InvalidValue(self.at(key), value, "true or false")
        return value

    def number(self, key: str, default: float | None, low: float, high: float) -> float:
        if default is not None and not self.has(key):
            return default
        value = self.raw(key)
        checks.in_range(self.at(key), value, low, high)
        return float(value)

    def whole(self, key: str, default: int | None, low: int, high: int) -> int:
        if default is not None and not self.has(key):
            return default
        value = self.raw(key)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise InvalidValue(self.at(key), value, f"a whole number from {low} to {high}")
        return value

    def texts(self, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
        if not self.has(key):
            return default
        value = self.raw(key)
        if not isinstance(value, list) or not value or not all(isinstance(v, str) and v for v in value):
            raise InvalidValue(self.at(key), value, "a list of at least one text")
        checks.plain_text(self.at(key), value)
        checks.unique(self.at(key), value)
        return tuple(value)

    def groups(self, key: str) -> Mapping[str, tuple[str, ...]]:
        if not self.has(key):
            return {}
        inner = Fields(self.raw(key), self.at(key))
        return {name: inner.texts(name, ()) for name in inner._value}

    def inside(self, key: str) -> Fields:
        return Fields(self.raw(key), self.at(key))

    def end(self) -> None:
        checks.known_keys(self.path, list(self._value), self._taken)


def path_of(f: Fields, key: str, context: Context) -> Path:
    """A file named in a description: relative to it, in the models folder, or under a variable of the environment."""
    return model_path(f.at(key), f.text(key), context.folder, context.environment)
