"""The agent's files in `DATA/fleet`. They are kept over restarts.

    ca.pem, ca.key            the authority; its key only on boxes that may decide
    box.pem, box.key          this box
    election.json             the term, the vote given in it, the head
    agreement.json            the last agreement
    holdings.json             the epoch of each camera that this box answers, or began to answer, for the fleet
    leaving                   an operator ordered that this box leaves
    codes/HASH.json, .used    join codes, as hashes
    overlaps.json             when two boxes answered a camera
    status.json               the fleet as this box knows it, for the appliance and `magpie fleet status`
    students/SHA.safetensors  copies of students of cameras that other boxes answer
    jobs.json                 all jobs that this box keeps since it was the head (jobs.json.bak: put aside)
    jobs_report.json          the head's report of the jobs, their waits and shares, for the appliance beside it
    engine_cost.json          what the engine of this box costs while it runs no task, for `magpie doctor`
    engine.log                errors of the engine's process
    upgrade.json              how far the upgrade of this box is
    lending/                  retrainings that boxes do for each other (edge/runtime/lending_folder.py)
    groups/                   cameras of several boxes that are retrained as one (edge/runtime/box_groups_folder.py)

Every file is written whole under another name, synced and renamed. Writing blocks.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path
from typing import Any, TypeVar

from edge.core.errors import StoreError
from edge.files import TEMPORARY, os_errors, store_whole
from edge.fleet.wire import decoded, encoded

M = TypeVar("M")
_SECRET, _READABLE = 0o600, 0o640


class FleetFolder:
    """The files of one box. Raises StoreError where one cannot be read or written."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir / "fleet"

    @property
    def joined(self) -> bool:
        """Whether the box belongs to a fleet."""
        return self._is_file("box.pem")

    @property
    def decides(self) -> bool:
        """Whether the box has the key of the fleet's authority."""
        return self._is_file("ca.key")

    @property
    def leaving(self) -> bool:
        """Whether an operator ordered that the box leaves; the fleet may not know it yet, or know it already."""
        return self._is_file("leaving")

    def mark_leaving(self, leaving: bool) -> None:
        """Remember the order over a restart, or that it was refused."""
        if leaving:
            self.write_text("leaving", "")
        else:
            with self._errors("leaving"):
                (self.path / "leaving").unlink(missing_ok=True)

    def take_identity(self, authority: str, authority_key: str, certificate: str, key: str) -> None:
        """Keep who the box is. The certificate comes last: with it the box is `joined`."""
        self.write_text("ca.pem", authority)
        if authority_key:
            self.write_text("ca.key", authority_key)
        self.write_text("box.key", key)
        self.write_text("box.pem", certificate)

    def forget(self) -> None:
        """The box left its fleet: nothing of it stays."""
        with self._errors("box.pem"):
            (self.path / "box.pem").unlink(missing_ok=True)  # first, so that half of a removal is no identity
        shutil.rmtree(self.path, ignore_errors=True)

    def read(self, name: str, kind: type[M]) -> M | None:
        """A message that was written; None where there is none."""
        path = self.path / name
        try:
            return decoded(kind, path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise StoreError(f"{path}: cannot be read: {error}") from None

    def read_json(self, name: str) -> Any:
        """A JSON file; None where there is none."""
        path = self.path / name
        try:
            return json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise StoreError(f"{path}: cannot be read: {error}") from None

    def write(self, name: str, message: Any) -> None:
        """Keep a message."""
        self.write_bytes(name, encoded(message), _READABLE)

    def write_status(self, message: Any) -> None:
        """Tell others on this machine; a power loss may take it."""
        self.write_bytes("status.json", encoded(message), _READABLE, sync=False)

    def write_jobs_report(self, message: Any) -> None:
        """Write this box's report as the head; None: it is not the head."""
        with self._errors("jobs_report.json"):
            # Its name in earlier versions: one of them would take an old report for today's.
            (self.path / "jobs_told.json").unlink(missing_ok=True)
            if message is None:
                (self.path / "jobs_report.json").unlink(missing_ok=True)
        if message is not None:
            self.write_bytes("jobs_report.json", encoded(message), _READABLE, sync=False)

    def write_engine_cost(self, message: Any) -> None:
        """The cost of this box's engine as it was measured last."""
        self.write_bytes("engine_cost.json", encoded(message), _READABLE, sync=False)

    def write_json(self, name: str, value: Any) -> None:
        """Keep a JSON value."""
        self.write_bytes(name, json.dumps(value).encode(), _SECRET)

    def read_text(self, name: str) -> str:
        """A text file."""
        try:
            return (self.path / name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise StoreError(f"{self.path / name}: cannot be read: {error}") from None

    def write_text(self, name: str, text: str) -> None:
        """Keep a text, readable by this account only."""
        self.write_bytes(name, text.encode(), _SECRET)

    def write_bytes(self, name: str, content: bytes, mode: int = _READABLE, sync: bool = True) -> None:
        """Keep a file's content; with `sync` over a power loss, too."""
        path = self.path / name
        store_whole(path, content, durable=sync, mode=mode, folder_mode=0o700)

    def clean(self) -> None:
        """Remove what a run that was killed left half written. No other process may write meanwhile."""
        for place in (self.path, self.path / "students", self.path / "codes"):
            for path in place.glob(f".*{TEMPORARY}"):
                with self._errors(path.name):
                    path.unlink(missing_ok=True)

    def _is_file(self, name: str) -> bool:
        # Path.is_file raises for the folder of another user.
        with self._errors(name):
            return (self.path / name).is_file()

    def _errors(self, name: str) -> contextlib.AbstractContextManager[None]:
        return os_errors(self.path / name)
