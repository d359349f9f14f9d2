"""Known files and files that are here, joined: for `magpie models list` and `check`, and for the page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from edge.core.errors import NotFound
from edge.core.licences import covers, refusal
from edge.models.catalogue import Catalogue, CatalogueEntry
from edge.models.descriptions import Kind, named_files, shipped
from edge.models.folder import ModelsFolder, State, file_sha256

#: The results of `check`: as State, and an unknown file, or one whose notice alone is left.
Verdict = Literal["here", "missing", "partial", "changed", "unknown"]


@dataclass(frozen=True)
class KnownModel:
    """One model of the catalogue, or one that was added. `bytes` is the size here, or the one expected. `refused`:
    the licence is one that has to be accepted and was not."""

    name: str
    file: str
    what: str
    licence: str
    attribution: str
    bytes: int
    state: State
    refused: bool
    added: bool
    teachers: tuple[str, ...]
    students: tuple[str, ...]


@dataclass(frozen=True)
class KnownDescription:
    """One shipped teacher or student. `models`: names in the catalogue; `here`: every file is; `licences` of them,
    each once; `path` of the description, as a site names it. `answer_ms`: CPU milliseconds of an answer on one core of
    this box, where it was measured."""

    kind: Kind
    name: str
    path: str
    models: tuple[str, ...]
    licences: tuple[str, ...]
    bytes: int
    here: bool
    answer_ms: float | None = None


@dataclass(frozen=True)
class Checked:
    """One file that was read. `expected` and `found` are SHA-256 (hex, `expected` perhaps its beginning only)."""

    name: str
    file: str
    verdict: Verdict
    expected: str = ""
    found: str = ""


def known_models(catalogue: Catalogue, folder: ModelsFolder) -> tuple[KnownModel, ...]:
    """By name and size, without reading the files; the catalogue's first, then what was added. Raises StoreError."""
    accepted = folder.accepted()

    def needs(name: str, licence: str) -> bool:
        agreed = any(a.model == name and covers(a.licence, licence) for a in accepted)
        return refusal(licence) is not None and not agreed

    rows = [
        KnownModel(
            e.name, e.file, e.what, e.licence, e.attribution, _size(folder, e), folder.look(e),
            needs(e.name, e.licence), False, e.teachers, e.students,
        )
        for e in catalogue.entries
    ]  # fmt: skip
    for n in folder.notices():
        if n.origin == "added" and catalogue.of_file(n.file) is None:
            there = folder.file(n.file)
            size = there.stat().st_size if there.is_file() else None
            state: State = "missing" if size is None else "here" if size == n.bytes else "changed"
            rows.append(
                KnownModel(
                    n.name, n.file, "added by hand", n.licence, n.attribution, n.bytes, state,
                    needs(n.name, n.licence), True, (), (),
                )
            )  # fmt: skip
    return tuple(rows)


def _size(folder: ModelsFolder, entry: CatalogueEntry) -> int:
    file = folder.file(entry.file)
    return file.stat().st_size if file.is_file() else entry.bytes


def known_descriptions(
    catalogue: Catalogue, models: Sequence[KnownModel], environment: Mapping[str, str]
) -> tuple[KnownDescription, ...]:
    """The shipped teachers and students, with what they need. Raises InvalidValue."""
    states = {m.name: m for m in models}
    rows = []
    for d in shipped():
        needed = [states[e.name] for e in entries_of(d.path, catalogue, environment)]
        licences = tuple(dict.fromkeys(m.licence for m in needed))
        names, size = tuple(m.name for m in needed), sum(m.bytes for m in needed)
        here = all(m.state == "here" for m in needed)
        rows.append(KnownDescription(d.kind, d.name, str(d.path), names, licences, size, here))
    return tuple(rows)


def entries_of(description: Path, catalogue: Catalogue, environment: Mapping[str, str]) -> tuple[CatalogueEntry, ...]:
    """The entries of the catalogue that a description needs. Raises InvalidValue."""
    found: list[CatalogueEntry | None] = []
    for named in named_files(description, environment):
        if named.torchvision:
            found.append(catalogue.of_torchvision(named.torchvision))
        else:
            found.append(next((e for e in catalogue.entries if e.sha256 and e.sha256 == named.sha256), None))
    return tuple(dict.fromkeys(e for e in found if e is not None))


def chosen(names: Iterable[str], catalogue: Catalogue, environment: Mapping[str, str]) -> tuple[CatalogueEntry, ...]:
    """The entries that names mean: of a model, of a shipped teacher or student (all its files), or a description's
    YAML file. Raises NotFound, listing what there is, and InvalidValue (a description cannot be read)."""
    descriptions = shipped()
    found: list[CatalogueEntry] = []
    for name in names:
        if name.endswith((".yaml", ".yml")):
            mine = list(entries_of(Path(name), catalogue, environment))
            if not mine:
                raise NotFound(f"{name} names no file that is known", "put its files where it says they are")
            found += mine
            continue
        mine = [e for e in catalogue.entries if e.name == name]
        described = [d for d in descriptions if d.name == name]
        for d in described:
            mine += entries_of(d.path, catalogue, environment)
        if not mine and not described:
            models = ", ".join(e.name for e in catalogue.entries)
            others = ", ".join(sorted({d.name for d in descriptions} - {e.name for e in catalogue.entries}))
            raise NotFound(f"{name!r} is neither a model nor a teacher or student", f"models: {models}; also: {others}")
        found += mine
    return tuple(dict.fromkeys(found))


def check(catalogue: Catalogue, folder: ModelsFolder, names: Sequence[str] = ()) -> tuple[Checked, ...]:
    """Read files and compare their hashes. Without names: every file that is here, half here, or has a notice.

    Raises:
        NotFound: a name is neither in the catalogue nor added.
        StoreError: a file or the folder cannot be read.
    """
    rows = [_checked_entry(folder, e) for e in catalogue.entries if not names or e.name in names]
    files = {e.file for e in catalogue.entries}
    for n in folder.notices():
        if n.file not in files and (not names or n.name in names):
            files.add(n.file)
            rows.append(_checked(folder, n.name, n.file, n.sha256))
    if names:
        for name in names:
            if not any(row.name == name for row in rows):
                raise NotFound(f"no model {name!r} is known", "`magpie models list` names them")
        return tuple(rows)
    rows = [row for row in rows if row.verdict != "missing" or folder.notice(row.file) is not None]
    return (*rows, *_strangers(folder, files))


def _checked_entry(folder: ModelsFolder, entry: CatalogueEntry) -> Checked:
    state, expected = folder.verified(entry), entry.sha256 or entry.sha256_prefix
    file = folder.file(entry.file)
    found = file_sha256(file) if state == "changed" else ""
    notice = folder.notice(entry.file)
    if found and notice is not None and entry.fits(found):
        expected = notice.sha256  # the hash's published beginning fits, but it is not the file that came first
    return Checked(entry.name, entry.file, state, expected, found)


def _checked(folder: ModelsFolder, name: str, file: str, expected: str) -> Checked:
    path = folder.file(file)
    if not path.is_file():
        return Checked(name, file, "missing", expected)
    found = file_sha256(path)
    return Checked(name, file, "here" if found == expected else "changed", expected, found)


def _strangers(folder: ModelsFolder, known: set[str]) -> Iterable[Checked]:
    """Unknown files and halves in the folder."""
    if not folder.path.is_dir():
        return
    for path in sorted(folder.path.iterdir()):
        whole = path.name.removesuffix(".part")
        if re.fullmatch(r"[0-9a-f]{64}\.safetensors", path.name):
            continue  # a camera's own model: `magpie db check` reads those
        if path.suffix == ".onnx" and path.with_suffix(".pth").name in known:
            continue  # the graph that was made from these weights (edge.detectors.ssdlite)
        if path.suffix in (".onnx", ".pth", ".safetensors") and path.name not in known:
            yield Checked(path.stem, path.name, "unknown", "", file_sha256(path))
        elif path.suffix == ".part" and whole not in known:
            yield Checked(whole, path.name, "partial")
