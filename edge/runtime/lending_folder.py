"""Lent work on disk: how the appliance and the fleet's agent beside it hand them to each other.

    DATA/fleet/lending/offer.json      what this box lends, by the appliance
    DATA/fleet/lending/offers.json     what others lend, by the agent
    DATA/fleet/lending/asked/ID/       retrainings and trials that others do for this box
    DATA/fleet/lending/lent/ID/        those that this box does for others

In a folder: `work.json`; `input.json` (asked: the box, and where the files are); `blobs/SHA` (lent: its files); `ready`
(lent: all files are there); `state.json`, by who does the work or copies it; `candidate.safetensors`,
the result (also of trials); `cancel`: the borrower waits for it no longer. Files are written whole under another
name and renamed. Everything here blocks.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edge.core.lending import LendingOffer, LendingOffers, LentState, LentWork, check_digest, check_work_id
from edge.runtime.value_files import read_fresh, read_value, write_value


@dataclass(frozen=True)
class WorkInput:
    """The box that is asked, and the path of each file by its SHA-256."""

    box: str
    paths: Mapping[str, str]


class WorkFolders:
    """One folder for each lent work, by its id. Raises StoreError where nothing can be written."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def ids(self) -> list[str]:
        """Of all that are complete."""
        return sorted(p.parent.name for p in self.path.glob("*/work.json"))

    def begin(self, work: LentWork, given: WorkInput | None = None) -> None:
        """Keep a retraining; its folder counts when `work.json` is there."""
        if given is not None:
            write_value(self._in(work.id, "input.json"), given)
        write_value(self._in(work.id, "work.json"), work)

    def work(self, name: str) -> LentWork | None:
        """None: there is none, or it cannot be read."""
        return read_value(self._in(name, "work.json"), LentWork)

    def given(self, name: str) -> WorkInput | None:
        """None: there is none, or it cannot be read."""
        return read_value(self._in(name, "input.json"), WorkInput)

    def write_state(self, name: str, state: LentState) -> None:
        """How far it is. One that was removed meanwhile stays removed."""
        if self._in(name, "work.json").exists():
            write_value(self._in(name, "state.json"), state)

    def state(self, name: str) -> LentState | None:
        """How far it is; None: no state was written yet."""
        return read_value(self._in(name, "state.json"), LentState)

    def written_ns(self, name: str) -> int:
        """When its state was written last, in the file system's nanoseconds; 0: never."""
        try:
            return self._in(name, "state.json").stat().st_mtime_ns
        except OSError:
            return 0

    def mark(self, name: str, what: str) -> None:
        """`ready` or `cancel`."""
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile
            self._in(name, what).touch()

    def begun_ns(self, name: str) -> int:
        """When it was kept, in the file system's nanoseconds; 0: there is none."""
        try:
            return self._in(name, "work.json").stat().st_mtime_ns
        except OSError:
            return 0

    def age_s(self, name: str) -> float:
        """Seconds since it was kept."""
        return max(0.0, time.time() - self.begun_ns(name) / 1e9)

    def marked(self, name: str, what: str) -> bool:
        """Whether it is `ready`, or `cancel`led."""
        return self._in(name, what).exists()

    def blob(self, name: str, digest: str) -> Path:
        """Where a file of a retraining is kept. Raises InvalidValue for what is no SHA-256."""
        check_digest("digest", digest)
        return self._in(name, "blobs") / digest

    def candidate(self, name: str) -> Path:
        """The result: a student, or the profiles of trials."""
        return self._in(name, "candidate.safetensors")

    def remove(self, name: str) -> None:
        """Nothing of it stays."""
        folder = self._in(name, "work.json").parent
        (folder / "work.json").unlink(missing_ok=True)  # first: half of a folder is none
        shutil.rmtree(folder, ignore_errors=True)

    def clear(self) -> None:
        """At a start: all that ran before is lost."""
        shutil.rmtree(self.path, ignore_errors=True)

    def _in(self, name: str, file: str) -> Path:
        check_work_id("id", name)
        return self.path / name / file


class LendingFolder:
    """All files of lending of one box. `DATA` is the appliance's data folder."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir / "fleet" / "lending"
        self.asked = WorkFolders(self.path / "asked")
        self.lent = WorkFolders(self.path / "lent")

    def offer(self) -> LendingOffer | None:
        """The offer of this box; None: its appliance has not said so lately."""
        return read_fresh(self.path / "offer.json", LendingOffer)

    def write_offer(self, offer: LendingOffer) -> None:
        """By the appliance."""
        write_value(self.path / "offer.json", offer)

    def offers(self) -> tuple[LendingOffer, ...]:
        """The offers of other boxes; none where the agent has not said so lately."""
        found = read_fresh(self.path / "offers.json", LendingOffers)
        return () if found is None else found.offers

    def write_offers(self, offers: LendingOffers) -> None:
        """By the agent."""
        write_value(self.path / "offers.json", offers)
