"""The model files that Magpie knows (configs/models.yaml), read with strict keys."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

import configs
from edge.core import checks
from edge.core.errors import InvalidValue, NotFound
from edge.core.licences import checked_licence

#: The catalogue that is shipped.
SHIPPED: Final = Path(configs.__file__).parent / "models.yaml"
#: No model file is larger than this.
MAX_BYTES: Final = 8 << 30
_FIELDS: Final = (
    "name", "file", "addresses", "sha256", "sha256_prefix", "bytes", "about_bytes", "licence", "attribution", "what",
    "torchvision", "teachers", "students",
)  # fmt: skip
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")
_FILE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,126}\.(onnx|pth|safetensors)")


@dataclass(frozen=True)
class CatalogueEntry:
    """One known model file. Of `sha256` (64 hex digits) and `sha256_prefix` one is given, the other is "". `bytes` is
    its size; `exact` False: within 2 %. `torchvision` names the model whose published weights it holds, or is ""."""

    name: str
    file: str
    addresses: tuple[str, ...]
    sha256: str
    sha256_prefix: str
    bytes: int
    exact: bool
    licence: str
    attribution: str
    what: str
    torchvision: str = ""
    teachers: tuple[str, ...] = ()
    students: tuple[str, ...] = ()

    @property
    def least_bytes(self) -> int:
        """A whole file has at least so many bytes."""
        return self.bytes if self.exact else self.bytes - self.bytes // 50

    @property
    def most_bytes(self) -> int:
        """A whole file has at most so many bytes."""
        return self.bytes if self.exact else self.bytes + self.bytes // 50

    def fits(self, sha256: str) -> bool:
        """Whether a content with this hash (64 small hex digits) is the file."""
        return sha256 == self.sha256 if self.sha256 else sha256.startswith(self.sha256_prefix)


@dataclass(frozen=True)
class Catalogue:
    """All known model files; each name and each file once."""

    entries: tuple[CatalogueEntry, ...]

    def entry(self, name: str) -> CatalogueEntry:
        """Raises NotFound, listing the known names."""
        found = next((e for e in self.entries if e.name == name), None)
        if found is None:
            raise NotFound(f"no model {name!r} is known", "known: " + ", ".join(e.name for e in self.entries))
        return found

    def of_file(self, file: str) -> CatalogueEntry | None:
        """The entry with this file name."""
        return next((e for e in self.entries if e.file == file), None)

    def of_content(self, sha256: str) -> CatalogueEntry | None:
        """The entry that a content with this hash is."""
        return next((e for e in self.entries if e.fits(sha256)), None)

    def of_torchvision(self, model: str) -> CatalogueEntry | None:
        """The entry of a torchvision model's published weights."""
        return next((e for e in self.entries if e.torchvision == model), None)


def read_catalogue(path: Path = SHIPPED) -> Catalogue:
    """Raises InvalidValue: the file cannot be read, or a field is unknown, missing or wrong (path, value, allowed)."""
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValue("catalogue", str(path), f"a readable YAML file ({error})") from error
    except yaml.YAMLError as error:
        raise InvalidValue("catalogue", str(path), f"valid YAML ({' '.join(str(error).split())})") from error
    if not isinstance(value, Mapping):
        raise InvalidValue("catalogue", value, "a mapping with the field models")
    checks.known_keys("", [str(key) for key in value], ("models",))
    rows = value.get("models")
    if not isinstance(rows, list) or not rows:
        raise InvalidValue("models", rows, "a list of at least one model")
    entries = tuple(_entry(row, f"models[{number}]") for number, row in enumerate(rows))
    checks.unique("models[].name", [e.name for e in entries])
    checks.unique("models[].file", [e.file for e in entries])
    return Catalogue(entries)


def _entry(row: Any, path: str) -> CatalogueEntry:
    if not isinstance(row, Mapping):
        raise InvalidValue(path, row, "a mapping of fields")
    checks.known_keys(path, [str(key) for key in row], _FIELDS)
    sha256, prefix = _digits(row, "sha256", path, 64, 64), _digits(row, "sha256_prefix", path, 8, 64)
    if bool(sha256) == bool(prefix):
        raise InvalidValue(f"{path}.sha256", row.get("sha256"), "either sha256 or sha256_prefix")
    exact, about = _whole(row, "bytes", path), _whole(row, "about_bytes", path)
    if (exact is None) == (about is None):
        raise InvalidValue(f"{path}.bytes", row.get("bytes"), "either bytes or about_bytes")
    return CatalogueEntry(
        name=_text(row, "name", path, _NAME, "small letters, digits, _ . and -, at most 63"),
        file=_text(row, "file", path, _FILE, "a file name ending in .onnx, .pth or .safetensors, without folders"),
        addresses=_addresses(row, path),
        sha256=sha256,
        sha256_prefix=prefix,
        bytes=exact or about or 0,
        exact=exact is not None,
        licence=checked_licence(f"{path}.licence", row.get("licence")),
        attribution=_text(row, "attribution", path),
        what=_text(row, "what", path),
        torchvision=_text(row, "torchvision", path) if "torchvision" in row else "",
        teachers=_names(row, "teachers", path),
        students=_names(row, "students", path),
    )


def check_address(path: str, address: object) -> str:
    """An address that a file may come from: https, http or file, without a password. Raises InvalidValue."""
    allowed = "https://HOST/..., http://HOST/... or file:///..., without user and password"
    if not isinstance(address, str) or re.search(r"[\x00-\x20#]", address):
        raise InvalidValue(path, address, allowed)
    try:
        parts = urlsplit(address)
        good = parts.scheme == "file" and not parts.netloc and parts.path.startswith("/")
        good = good or (parts.scheme in ("http", "https") and bool(parts.hostname))
        _ = parts.port  # raises for one that is not a number
    except ValueError:
        good = False
    if good and "@" in parts.netloc:
        raise InvalidValue(path, re.sub(r"//[^@]*@", "//***@", address), allowed)
    if not good:
        raise InvalidValue(path, address, allowed)
    return address


def _addresses(row: Mapping[str, Any], path: str) -> tuple[str, ...]:
    given = row.get("addresses")
    if not isinstance(given, list) or not given:
        raise InvalidValue(f"{path}.addresses", given, "a list of at least one address")
    checks.unique(f"{path}.addresses", given)
    return tuple(check_address(f"{path}.addresses[{n}]", address) for n, address in enumerate(given))


def _text(
    row: Mapping[str, Any], key: str, path: str, pattern: re.Pattern[str] | None = None, allowed: str = ""
) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value.strip() or len(value) > 500:
        raise InvalidValue(f"{path}.{key}", value, allowed or "a text of at most 500 characters")
    if pattern is not None and not pattern.fullmatch(value):
        raise InvalidValue(f"{path}.{key}", value, allowed)
    checks.plain_text(f"{path}.{key}", value)
    return value


def _digits(row: Mapping[str, Any], key: str, path: str, least: int, most: int) -> str:
    if key not in row:
        return ""
    value = row[key]
    if not isinstance(value, str) or not re.fullmatch(rf"[0-9a-f]{{{least},{most}}}", value):
        many = str(least) if least == most else f"{least} to {most}"
        raise InvalidValue(f"{path}.{key}", value, f"{many} hexadecimal digits in small letters, in quotes if all 0-9")
    return value


def _whole(row: Mapping[str, Any], key: str, path: str) -> int | None:
    if key not in row:
        return None
    value = row[key]
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_BYTES:
        raise InvalidValue(f"{path}.{key}", value, f"a whole number from 1 to {MAX_BYTES}")
    return value


def _names(row: Mapping[str, Any], key: str, path: str) -> tuple[str, ...]:
    value: Sequence[Any] = row.get(key, [])
    if not isinstance(value, list) or not all(isinstance(v, str) and v for v in value):
        raise InvalidValue(f"{path}.{key}", value, "a list of names of shipped descriptions")
    checks.plain_text(f"{path}.{key}", value)
    checks.unique(f"{path}.{key}", value)
    return tuple(value)
