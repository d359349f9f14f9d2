"""The golden model's worker and its queue of pictures to label; it runs where there are cameras."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edge.core.journal_kinds import JournalNote
from edge.core.workers import GOLDEN
from edge.runtime import messages as m
from edge.runtime.golden_worker import GoldenWorkerSpec, golden_worker
from edge.runtime.labelling import LabelQueue
from edge.runtime.supervisor import Supervisor


class GoldenModel:
    """`usable_share` is what labelling can use of the device, 0-1; `labelled` gets each answer, `note` journals."""

    def __init__(
        self,
        supervisor: Supervisor,
        teacher: GoldenWorkerSpec,
        usable_share: Callable[[], float],
        labelled: Callable[[m.Labelled], None],
        note: JournalNote,
    ) -> None:
        #: Its description, and the digests of it.
        self.teacher = teacher
        #: It can label now.
        self.ready = False
        #: It was started: a site without cameras needs none.
        self.started = False
        self.labels = LabelQueue(lambda label: supervisor.send(GOLDEN.name, label), usable_share)
        self._supervisor, self._labelled, self._note = supervisor, labelled, note

    def start(self, share: float) -> bool:
        """Start the worker with `share` of the device, 0-1. False: it was started before."""
        if self.started:
            return False
        self.started = True
        self._supervisor.start(
            GOLDEN, share, golden_worker, self.teacher, self._received, on_lost=self._lost
        )  # fmt: skip
        return True

    def _received(self, message: Any) -> None:
        if isinstance(message, m.Labelled):
            self.labels.received(message)
            self._labelled(message)
        if not self.ready:
            self.ready = True
            self._note("golden.ready")
            self.labels.worker_ready()

    def _lost(self, reason: str) -> None:
        self.ready = False
        self.labels.worker_lost()
