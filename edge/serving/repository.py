"""The model repository: `NAME/model.yaml` and `NAME/VERSION/` with the version's files (docs/serving-models.md).

It only reads what is there, and never follows a name out of its folder. Files that come with a client's load request
are staged beside it, and becomes a version by a rename once it has been tried (`stage`, then `commit` or `discard`).
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import errno
import hashlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from edge.core.applications import Application
from edge.core.errors import Conflict, DiskFull, InvalidValue, MagpieError, NotFound, StoreError, Unavailable
from edge.core.front_messages import ServedVersion
from edge.serving.model_files import (
    FILE_NAME,
    MODEL_NAME,
    VERSION_NAME,
    ModelFile,
    from_protocol,
    parse_model,
    parse_override,
    parse_yaml,
)
from edge.serving.pipeline_files import parse_application

SETTINGS_FILE = "model.yaml"

_STAGING = ".staging-"
_FILE_KEY = re.compile(r"^file:([^/]*)/([^/]*)$")
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Staged:
    """A load request that has been read: try `versions`, then call exactly one of `commit` and `discard`.

    `commit` makes it permanent and returns the versions under their final folders; `application` is given instead
    where the name is that of an application, which has no files.
    """

    model: str
    versions: tuple[ServedVersion, ...]
    commit: Callable[[], tuple[ServedVersion, ...]]
    discard: Callable[[], None]
    application: Application | None = None


@dataclass(frozen=True)
class StoredVersion:
    """A version in the repository; `fault` is why it cannot be read (empty: it can). `version` is empty where that of
    its model is not known."""

    name: str
    version: str
    fault: str = ""


class Repository:
    """The models below `folder`. `max_upload_bytes` bounds the files of one load request; 0: they are refused."""

    def __init__(self, folder: Path, max_upload_bytes: int = 0) -> None:
        self.folder = Path(folder)
        self._max_upload = max_upload_bytes
        self._overrides: dict[str, Mapping[str, Any]] = {}
        self._digests: dict[Path, tuple[tuple[Any, ...], str]] = {}
        self._sweep()

    # -- reading

    def names(self) -> tuple[str, ...]:
        """Every model and application, sorted. Raises NotFound if the folder is not there."""
        try:
            entries = sorted(self._root().iterdir())
        except OSError as error:
            raise NotFound(f"the model repository {self.folder} cannot be read: {error.strerror}") from error
        return tuple(e.name for e in entries if re.fullmatch(MODEL_NAME, e.name) and (e / SETTINGS_FILE).is_file())

    def models(self) -> tuple[str, ...]:
        """Models that have versions, sorted: no applications. One whose model.yaml cannot be read is named, too."""
        return tuple(name for name in self.names() if not self.is_application(name))

    def is_application(self, model: str) -> bool:
        """True for an application (`platform: pipeline`). Raises NotFound."""
        try:
            content = self._content(model)
        except InvalidValue:
            return False
        return isinstance(content, Mapping) and content.get("platform") == "pipeline"

    def index(self) -> tuple[StoredVersion, ...]:
        """Each version in force."""
        found: list[StoredVersion] = []
        for name in self.names():
            try:
                versions = ("1",) if self.is_application(name) else self.versions(name)
                if self.is_application(name):
                    self.application(name)
            except MagpieError as error:
                found.append(StoredVersion(name, "", str(error)))
                continue
            for version in versions:
                reason = ""
                try:
                    if not self.is_application(name):
                        self._checked_files(name, version, self.settings(name))
                except MagpieError as error:
                    reason = str(error)
                found.append(StoredVersion(name, version, reason))
        return tuple(found)

    def settings(self, model: str) -> ModelFile:
        """`model.yaml`, with what the last load request changed in it. Raises NotFound, InvalidValue(s)."""
        content = self._content(model)
        if model in self._overrides and isinstance(content, Mapping):
            content = {**content, **self._overrides[model]}
        return parse_model(content, f"{model}/{SETTINGS_FILE}")

    def versions(self, model: str) -> tuple[str, ...]:
        """The versions that are to be served by the model's policy, the oldest first. Raises NotFound, InvalidValue."""
        return self._chosen(model, self.settings(model), self._present(model))

    def resolve(self, model: str, version: str | None = None) -> ServedVersion:
        """A version as a value, its files checked and hashed; None: the newest that is to be served.

        Raises NotFound, InvalidValue(s) (model.yaml, a name, a link that leads out of the repository).
        """
        settings = self.settings(model)
        versions = self._chosen(model, settings, self._present(model))
        if version is None:
            version = versions[-1]
        elif not isinstance(version, str) or not re.fullmatch(VERSION_NAME, version):
            raise InvalidValue("version", version, "a number without leading zeros")
        elif version not in versions:
            raise NotFound(f"model {model} has no version {version} to be served", f"it has {', '.join(versions)}")
        return self._version(model, version, settings)

    def application(self, name: str) -> Application:
        """An application. Raises NotFound, InvalidValue(s)."""
        text = self._text(name)
        digest = hashlib.sha256(text.encode()).hexdigest()
        content = self._merged(name, parse_yaml(text, f"{name}/{SETTINGS_FILE}"))
        return parse_application(name, content, "1", digest)

    # -- loading on request

    def stage(self, model: str, parameters: Mapping[str, Any]) -> Staged:
        """Read a load request: the files on disk, with `config` (JSON text: fields that replace those of model.yaml
        until the next load) and `file:VERSION/NAME` (bytes, or base64 text) if uploads are allowed.

        Raises NotFound, InvalidValue(s), Conflict (a version that exists is never changed), Unavailable (uploads are
        switched off), DiskFull, StoreError.
        """
        self._named(model)
        override: Mapping[str, Any] = {}
        files: dict[tuple[str, str], bytes] = {}
        for key, value in parameters.items():
            if key == "config":
                override = from_protocol(model, parse_override(value))
            elif key.startswith("file:"):
                version, name = self._upload_name(key)
                files[version, name] = self._upload(key, value, sum(map(len, files.values())))
            else:
                raise InvalidValue(f"parameters.{key}", value, "config or file:VERSION/NAME")
        if files:
            return self._stage_files(model, override, files)
        content = {**self._plain(model), **override}
        if content.get("platform") == "pipeline":
            application = parse_application(model, content, "1", _text_digest(content))

            def switch() -> tuple[ServedVersion, ...]:
                self._override(model, override)
                return ()

            return Staged(model, (), switch, _nothing, application)
        settings = parse_model(content, "parameters.config" if override else f"{model}/{SETTINGS_FILE}")
        chosen = self._chosen(model, settings, self._present(model))
        versions = tuple(self._version(model, v, settings) for v in chosen)

        def commit() -> tuple[ServedVersion, ...]:
            self._override(model, override)
            return versions

        return Staged(model, versions, commit, _nothing)

    # -- inside: names and paths

    def _root(self) -> Path:
        return self.folder.resolve()

    def _named(self, model: str) -> None:
        if not isinstance(model, str) or not re.fullmatch(MODEL_NAME, model):
            raise InvalidValue("model", model, "letters, digits, _, - and . (not first), at most 128")

    def _inside(self, path: Path) -> Path:
        """`path` if it leads nowhere out of the repository. Raises NotFound, InvalidValue."""
        try:
            real = path.resolve(strict=True)
        except (OSError, RuntimeError) as error:
            raise NotFound(f"{path.relative_to(self.folder)} is not there") from error
        if not real.is_relative_to(self._root()):
            raise InvalidValue(str(path.relative_to(self.folder)), str(real), "a file inside the model repository")
        return path

    def _text(self, model: str) -> str:
        self._named(model)
        path = self.folder / model / SETTINGS_FILE
        if not path.exists():
            raise NotFound(f"no model {model} is in the repository")
        self._inside(path)
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidValue(f"{model}/{SETTINGS_FILE}", str(error), "a readable UTF-8 text") from error

    def _content(self, model: str) -> Any:
        return parse_yaml(self._text(model), f"{model}/{SETTINGS_FILE}")

    def _plain(self, model: str) -> Mapping[str, Any]:
        content = self._content(model)
        if not isinstance(content, Mapping):
            raise InvalidValue(f"{model}/{SETTINGS_FILE}", content, "fields, platform among them")
        return content

    def _merged(self, model: str, content: Any) -> Any:
        override = self._overrides.get(model)
        return {**content, **override} if override and isinstance(content, Mapping) else content

    def _override(self, model: str, override: Mapping[str, Any]) -> None:
        if override:
            self._overrides[model] = override
        else:
            self._overrides.pop(model, None)

    def _present(self, model: str) -> tuple[str, ...]:
        self._named(model)
        with contextlib.suppress(OSError):
            found = [
                e.name for e in (self.folder / model).iterdir() if re.fullmatch(VERSION_NAME, e.name) and e.is_dir()
            ]
            return tuple(sorted(found, key=int))
        raise NotFound(f"no model {model} is in the repository")

    def _chosen(self, model: str, settings: ModelFile, present: tuple[str, ...]) -> tuple[str, ...]:
        if not present:
            raise NotFound(f"model {model} has no version", f"its files belong into {model}/1/")
        policy = settings.versions
        if policy.latest is not None:
            return present[-policy.latest :]
        assert policy.named is not None
        for n, version in enumerate(policy.named):
            if version not in present:
                raise InvalidValue(
                    f"{model}/{SETTINGS_FILE}: versions.named.{n}", version, "one of " + ", ".join(present)
                )
        return tuple(sorted(set(policy.named), key=int))

    def _checked_files(self, model: str, version: str, settings: ModelFile) -> list[Path]:
        """The files of a version: regular, inside the repository, the platform's file among them."""
        folder = self._inside(self.folder / model / version)
        described = settings.version(model, version, str(folder))
        if described.file and not (folder / described.file).exists():
            raise NotFound(f"{model}/{version}/{described.file} is not there")
        found = []
        for path in sorted(folder.rglob("*")):
            self._inside(path)
            mode = path.stat().st_mode
            if stat.S_ISREG(mode):
                found.append(path)
            elif not stat.S_ISDIR(mode):
                raise InvalidValue(str(path.relative_to(self.folder)), stat.filemode(mode), "a file or a folder")
        return found

    def _version(self, model: str, version: str, settings: ModelFile) -> ServedVersion:
        folder = self.folder / model / version
        try:
            files = self._checked_files(model, version, settings)
            signature = tuple(_signature(folder, path) for path in files)
            known = self._digests.get(folder)
            if known is None or known[0] != signature:
                known = (signature, files_digest(folder))
                self._digests[folder] = known
        except OSError as error:  # not ours to read, or changed under our hands
            raise NotFound(f"the files of {model}/{version} cannot be read: {error.strerror or error}") from error
        return settings.version(model, version, str(folder), known[1])

    # -- inside: uploads

    def _upload_name(self, key: str) -> tuple[str, str]:
        if not self._max_upload:
            raise Unavailable(
                "model files by request are switched off here", "serving.uploads of the site switches it on"
            )
        match = _FILE_KEY.fullmatch(key)
        if not match or not re.fullmatch(VERSION_NAME, match[1]) or not re.fullmatch(FILE_NAME, match[2]):
            raise InvalidValue("parameters", key[:200], "file:VERSION/NAME, with a number and a plain file name")
        return match[1], match[2]

    def _upload(self, key: str, value: Any, before: int) -> bytes:
        if not isinstance(value, (str, bytes)):
            raise InvalidValue(f"parameters.{key}", type(value).__name__, "bytes, or base64 text")
        size = len(value) * 3 // 4 if isinstance(value, str) else len(value)
        if before + size > self._max_upload + 3:
            raise InvalidValue(
                f"parameters.{key}", f"{before + size} bytes", f"at most {self._max_upload} bytes in all"
            )
        if isinstance(value, bytes):
            return value
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidValue(f"parameters.{key}", value[:40], f"base64 text ({error})") from None

    def _stage_files(self, model: str, override: Mapping[str, Any], files: Mapping[tuple[str, str], bytes]) -> Staged:
        new = not (self.folder / model / SETTINGS_FILE).exists()
        if new and not override:
            raise InvalidValue("parameters.config", None, f"the fields of {SETTINGS_FILE}: model {model} is new here")
        brought = sorted({version for version, _ in files}, key=int)
        for version in brought:
            if (self.folder / model / version).exists():
                raise Conflict(f"{model}/{version} exists; versions are never changed", "bring it under a new number")
        content = {**({} if new else self._plain(model)), **override}
        settings = parse_model(content, "parameters.config" if override else f"{model}/{SETTINGS_FILE}")
        staging = self._root() / f"{_STAGING}{os.getpid()}-{secrets.token_hex(8)}"
        try:
            for (version, name), data in files.items():
                (staging / model / version).mkdir(parents=True, exist_ok=True)
                _write(staging / model / version / name, data)
            if new:
                _write(staging / model / SETTINGS_FILE, yaml.safe_dump(dict(override), sort_keys=False).encode())
            present = sorted({*brought, *(() if new else self._present(model))}, key=int)
            chosen = self._chosen(model, settings, tuple(present))
            # Checked where they lie now; those that were there before, where they are.
            beside = Repository(staging)
            versions = tuple(
                (beside if v in brought else self)._version(model, v, settings) for v in chosen
            )  # fmt: skip
        except OSError as error:
            shutil.rmtree(staging, ignore_errors=True)
            raise _disk_error(error, model) from error
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise

        def commit() -> tuple[ServedVersion, ...]:
            try:
                if new:
                    os.rename(staging / model, self.folder / model)
                else:
                    for version in brought:
                        os.rename(staging / model / version, self.folder / model / version)
                    _sync(self.folder / model)
                _sync(self.folder)
            except OSError as error:
                if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
                    raise Conflict(f"{model} was changed meanwhile", "load again") from error
                raise _disk_error(error, model) from error
            finally:
                shutil.rmtree(staging, ignore_errors=True)
            self._override(model, {} if new else override)
            return tuple(self._version(model, v, settings) for v in chosen)

        return Staged(model, versions, commit, lambda: shutil.rmtree(staging, ignore_errors=True))

    def _sweep(self) -> None:
        """Remove what a process that is gone has staged."""
        with contextlib.suppress(OSError):
            for entry in self._root().iterdir():
                if entry.name.startswith(_STAGING):
                    pid = entry.name.removeprefix(_STAGING).partition("-")[0]
                    if pid.isdigit() and not Path(f"/proc/{pid}").exists():
                        shutil.rmtree(entry, ignore_errors=True)


def files_digest(folder: Path) -> str:
    """SHA-256 over the names and the content of all files below `folder`, in hexadecimal; "" if there are none."""
    whole = hashlib.sha256()
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    for path in files:
        one = hashlib.sha256()
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                one.update(chunk)
        whole.update(f"{path.relative_to(folder).as_posix()}\0{one.hexdigest()}\n".encode())
    return whole.hexdigest() if files else ""


def _signature(folder: Path, path: Path) -> tuple[Any, ...]:
    found = path.stat()
    return path.relative_to(folder).as_posix(), found.st_size, found.st_mtime_ns, found.st_ino


def _text_digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(yaml.safe_dump(dict(content), sort_keys=True).encode()).hexdigest()


def _nothing() -> None:
    """Nothing was staged."""


def _write(path: Path, data: bytes) -> None:
    """The whole file, on the disk; its folder is renamed into place afterwards."""
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    _sync(path.parent)


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _disk_error(error: OSError, model: str) -> MagpieError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"no space left for the files of {model}", "free space in the model repository")
    return StoreError(f"the files of {model} cannot be written: {error.strerror or error}")
