"""How log records are written: text for people, or one JSON object per line, in the control process and its workers."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import re
import sys
import time
from collections import deque
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

from edge.core.secrecy import without_credentials

LogFormat = Literal["text", "json"]

#: The variable that worker processes inherit: "LEVEL:FORMAT".
_ENVIRONMENT = "MAGPIE_LOG"
#: Fields of a record beside its message; the appliance gives them with each journal entry.
_FIELDS = ("event", "camera", "window", "cause", "worker")
#: Texts in which programs write a password, a token or a one-time link: `token=...`, `"password": "..."`, `Bearer ...`.
_SECRETS = re.compile(
    r"((?:password|passwd|token|secret|link|api_?key|csrf)(?:\s*=\s*[\"']?|[\"']\s*:\s*[\"']?)|\bbearer\s+)[^\s&\"',;)}\]]+",
    re.IGNORECASE,
)
_CAUSES = ("cause", "reason", "message")


def log_to_stderr(level: str = "INFO", form: LogFormat = "text") -> None:
    """Write records of this process, and of workers started from now on, to stderr. Replaces what was set before."""
    os.environ[_ENVIRONMENT] = f"{level}:{form}"
    _install(sys.stderr, level, form, None)


def log_in_worker(worker: str) -> None:
    """In a worker process: log as the process that started it does; records carry the worker's name."""
    level, _, form = os.environ.get(_ENVIRONMENT, "").partition(":")
    if level and form in ("text", "json"):
        _install(sys.stderr, level, "json" if form == "json" else "text", worker)


def entry_fields(
    kind: str, camera: str | None, window: int | None, data: Mapping[str, Any]
) -> dict[str, str | int | None]:
    """`extra` of a journal entry's record. The cause is what the entry says: its cause, reason or message."""
    cause = next((str(data[key]) for key in _CAUSES if data.get(key)), None)
    return {"event": kind, "camera": camera, "window": window, "cause": cause}


def _install(stream: TextIO, level: str, form: LogFormat, worker: str | None) -> None:
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter(worker) if form == "json" else TextFormatter(worker))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for chatty in ("uvicorn", "alembic", "httpx", "httpcore", "onveef"):
        logging.getLogger(chatty).setLevel("WARNING")


def _fields(record: logging.LogRecord, worker: str | None) -> dict[str, Any]:
    found = {name: getattr(record, name, None) for name in _FIELDS}
    if found["worker"] is None:
        found["worker"] = worker
    return {name: value for name, value in found.items() if value is not None}


class JsonFormatter(logging.Formatter):
    """One object per line: time (UTC), level, logger, message, known fields, and a traceback as `error`."""

    def __init__(self, worker: str | None = None) -> None:
        super().__init__()
        self._worker = worker

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(self.entry(record), ensure_ascii=False, default=str, allow_nan=False)

    def entry(self, record: logging.LogRecord) -> dict[str, Any]:
        """The object before it is written."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        entry: dict[str, Any] = {
            "time": moment.replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= _fields(record, self._worker)
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return {key: _clean(value) for key, value in entry.items()}


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        # A lone half of a surrogate pair cannot be written as UTF-8.
        return without_credentials(value).encode("utf-8", "replace").decode()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


class TextFormatter(logging.Formatter):
    """One line per record with UTC time; fields follow the message. Control characters in it are written as \\n or
    \\x1b, so that a camera's or a client's text cannot look like a record."""

    converter = staticmethod(time.gmtime)

    def __init__(self, worker: str | None = None) -> None:
        super().__init__("%(asctime)sZ %(levelname)s %(name)s: %(message)s", "%FT%T")
        self._worker = worker

    def formatMessage(self, record: logging.LogRecord) -> str:
        line = super().formatMessage(record)
        known = _fields(record, self._worker)
        if known.pop("event", None) is None and not known:
            return _one_line(line)
        return _one_line(" ".join([line, *(f"{name}={value}" for name, value in known.items())]))


#: Also escape sequences: a terminal that shows the log obeys them.
_CONTROL = re.compile(r"[\x00-\x08\n-\x1f\x7f-\x9f\u2028\u2029]")


def _one_line(text: str) -> str:
    return _CONTROL.sub(lambda c: c[0].encode("unicode_escape").decode(), without_credentials(text))


#: Levels as `LogRing.records` knows them, the least first.
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_NUMBERS: Mapping[str, int] = logging.getLevelNamesMapping()


class LogRing(logging.Handler):
    """Keeps the newest records of this process in memory for people to read. A record that is too long is cut; records
    that do not fit go, the oldest first, and are counted. Passwords, tokens and one-time links are masked.

    Use as `with LogRing() as ring`: it listens at the root logger meanwhile.
    """

    def __init__(self, capacity: int = 2000, most_characters: int = 4000) -> None:
        super().__init__()
        self.capacity = capacity
        self._most = most_characters
        self._kept: deque[dict[str, Any]] = deque(maxlen=capacity)
        self._formatter = JsonFormatter()
        self._next = 1

    def __enter__(self) -> LogRing:
        logging.getLogger().addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger().removeHandler(self)
        self.close()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it. Called with the handler's lock held."""
        try:
            entry = self._formatter.entry(record)
        except Exception:  # a record whose arguments do not fit its text: the logging library's own answer to it
            self.handleError(record)
            return
        kept = {key: self._masked(value) if isinstance(value, str) else value for key, value in entry.items()}
        del kept["time"]
        self._kept.append({"id": self._next, "utc_s": round(record.created, 3)} | kept)
        self._next += 1

    def _masked(self, text: str) -> str:
        text = _SECRETS.sub(r"\1***", text)
        return text if len(text) <= self._most else f"{text[: self._most]} ... ({len(text)} characters)"

    def records(
        self,
        limit: int,
        level: str = "DEBUG",
        before: int | None = None,
        after: int | None = None,
        text: str = "",
    ) -> list[dict[str, Any]]:
        """The newest first, at most `limit`: of at least `level`, with an id below `before` and above `after`, with
        `text` somewhere in them (small and capital letters alike)."""
        with self.lock or contextlib.nullcontext():
            kept = list(self._kept)
        least, found = _NUMBERS[level], text.casefold()
        out: list[dict[str, Any]] = []
        for entry in reversed(kept):
            if len(out) == limit or (after is not None and entry["id"] <= after):
                break
            if before is not None and entry["id"] >= before:
                continue
            if _NUMBERS.get(entry["level"], 0) < least or not _has(entry.values(), found):
                continue
            out.append(dict(entry))
        return out

    @property
    def forgotten(self) -> int:
        """How many records gave way since the start."""
        return max(0, self._next - 1 - len(self._kept))


def _has(values: Iterable[Any], text: str) -> bool:
    return not text or any(text in value.casefold() for value in values if isinstance(value, str))
