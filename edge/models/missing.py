"""Files that a site's teacher and students still need, by description, and the one command for them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from edge.core.errors import LicenceRefused, WeightsError
from edge.core.licences import check_licence
from edge.core.model_files import models_folder
from edge.models.catalogue import Catalogue, CatalogueEntry, read_catalogue
from edge.models.descriptions import NamedFile, named_files, shipped
from edge.models.folder import ModelsFolder, State, file_sha256

#: A state in words.
_WORDS: Final[dict[State, str]] = {
    "missing": "not there",
    "partial": "half downloaded",
    "changed": "another content than the description's sha256 says",
    "here": "there",
}


@dataclass(frozen=True)
class MissingFile:
    """A file that a description needs and that is not there, or not the one meant. `entry`: the file that `magpie
    models pull` would bring to exactly this place; None: the operator has to.
    """

    description: Path
    model: str
    file: Path
    state: State
    entry: CatalogueEntry | None


@dataclass(frozen=True)
class RefusedFile:
    """A file whose licence is refused and was not accepted."""

    description: Path
    model: str
    file: Path
    refused: LicenceRefused


@dataclass(frozen=True)
class Missing:
    """The obstacles to using descriptions; false where there are none. `undeclared`: files whose licence neither
    their description nor the catalogue nor a notice says; they are used, and named where the site is checked."""

    files: tuple[MissingFile, ...] = ()
    refused: tuple[RefusedFile, ...] = ()
    undeclared: tuple[NamedFile, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.files or self.refused)

    @property
    def command(self) -> str:
        """The one command that brings all that can be brought; "" where nothing can be."""
        known = {d.path: d.name for d in shipped()}
        names = [known.get(f.description.resolve(), f.entry.name) for f in self.files if f.entry is not None]
        return " ".join(["magpie models pull", *dict.fromkeys(names)]) if names else ""

    def check(self) -> None:
        """Raises WeightsError (files are missing) or LicenceRefused, if anything is in the way."""
        if self.files:
            raise WeightsError(self._words(), self._hint())
        if self.refused:
            one = self.refused[0]
            raise LicenceRefused(one.model, one.refused.licence, one.refused.why, _accept_hint(one))

    def _words(self) -> str:
        by_description: dict[Path, list[str]] = {}
        for f in self.files:
            by_description.setdefault(f.description, []).append(f"{f.file} ({_WORDS[f.state]})")
        return "; ".join(
            f"{path.stem} needs {len(files)} model file{'s' * (len(files) > 1)}: {', '.join(files)}"
            for path, files in by_description.items()
        )

    def _hint(self) -> str:
        own = [str(f.file) for f in self.files if f.entry is None]
        parts = [f"bring them with: {self.command}"] if self.command else []
        if own:
            parts.append(f"put the right file there yourself: {', '.join(own)}")
        return "; ".join(parts)


def missing_models(descriptions: Sequence[Path], environment: Mapping[str, str] | None = None) -> Missing:
    """The files that a site's descriptions (YAML, teachers and students) still need. Files whose hash is
    stated are read.

    Raises:
        InvalidValue: a description or the catalogue cannot be read.
        StoreError: a file cannot be read.
    """
    environment = os.environ if environment is None else environment
    look = _Look(read_catalogue(), environment)
    for description in dict.fromkeys(descriptions):
        for named in named_files(description, environment):
            look.at(description, named)
    return Missing(tuple(look.files), tuple(look.refused), tuple(look.undeclared))


class _Look:
    def __init__(self, catalogue: Catalogue, environment: Mapping[str, str]) -> None:
        self._catalogue, self._environment = catalogue, environment
        self._folder = ModelsFolder(models_folder(environment))
        self.files: list[MissingFile] = []
        self.refused: list[RefusedFile] = []
        self.undeclared: list[NamedFile] = []

    def at(self, description: Path, named: NamedFile) -> None:
        entry = self._entry(named)
        if named.torchvision and entry is None:
            return  # published weights that the catalogue does not know: their reader fetches them
        file = self._folder.file(entry.file) if named.torchvision and entry is not None else named.path
        state = self._state(named, file) if entry is None else self._state_of_entry(entry, named, file)
        if state in ("missing", "partial") and any(hub.is_file() for hub in self._hub(named, file)):
            state = "here"
        if state != "here":
            brought = entry is not None and self._folder.file(entry.file) == file
            self.files.append(MissingFile(description, named.model, file, state, entry if brought else None))
            return
        self._licence(description, named, file, entry)

    def _entry(self, named: NamedFile) -> CatalogueEntry | None:
        if named.torchvision:
            return self._catalogue.of_torchvision(named.torchvision)
        if named.sha256:
            return next((e for e in self._catalogue.entries if e.sha256 == named.sha256), None)
        if named.path.is_file():
            return self._catalogue.of_content(file_sha256(named.path))
        return self._catalogue.of_file(named.path.name)

    def _state(self, named: NamedFile, file: Path) -> State:
        if file.is_file():
            return "changed" if named.sha256 and file_sha256(file) != named.sha256 else "here"
        return "partial" if file.with_name(f"{file.name}.part").is_file() else "missing"

    def _state_of_entry(self, entry: CatalogueEntry, named: NamedFile, file: Path) -> State:
        """Of published weights in the models folder their catalogue knows more than the description."""
        if named.torchvision and not named.sha256 and file.is_file():
            return self._folder.verified(entry)
        return self._state(named, file)

    def _hub(self, named: NamedFile, file: Path) -> Iterable[Path]:
        """Where torch itself keeps published weights."""
        if named.torchvision:
            cache = self._environment.get("XDG_CACHE_HOME") or "~/.cache"
            home = self._environment.get("TORCH_HOME") or f"{cache}/torch"
            yield Path(home).expanduser() / "hub" / "checkpoints" / file.name

    def _licence(self, description: Path, named: NamedFile, file: Path, entry: CatalogueEntry | None) -> None:
        notice = self._folder.notice(file.name) if file.parent == self._folder.path else None
        known = (named.licence, "" if entry is None else entry.licence, "" if notice is None else notice.licence)
        licence = next((one for one in known if one), "")
        if not licence:
            self.undeclared.append(named)
            return
        names = {_name(file), *([entry.name] if entry else []), *([notice.name] if notice else [])}
        accepted = [one for name in sorted(names) for one in self._folder.accepted_for(name)]
        try:
            check_licence(named.model, licence, accepted)
        except LicenceRefused as error:
            self.refused.append(RefusedFile(description, named.model, file, error))


def _name(file: Path) -> str:
    """The name under which `magpie models add` would keep a file."""
    return re.sub(r"[^a-z0-9_.-]+", "_", file.stem.lower()).lstrip("_.-") or "model"


def _accept_hint(one: RefusedFile) -> str:
    licence = one.refused.licence
    words = f"--name {_name(one.file)} --licence {licence} --accept-licence {licence}"
    return f"magpie models add {one.file} {words} takes it all the same"


def require_models(descriptions: Sequence[Path], environment: Mapping[str, str] | None = None) -> Missing:
    """`missing_models`, for a site that is about to start. Raises WeightsError or LicenceRefused if anything is
    missing, and as `missing_models`."""
    found = missing_models(descriptions, environment)
    found.check()
    return found
