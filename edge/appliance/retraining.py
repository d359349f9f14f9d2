"""How the box retrains: its settings and its possible students."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from edge.appliance.answers.read import read
from edge.appliance.answers.retraining import LearningAnswer, RetrainingAnswer
from edge.core.journal_kinds import JournalNote
from edge.runtime.runtime import Runtime
from edge.settings import RetrainingSettings, merge, parse
from edge.store.store import Store


class BoxRetraining:
    """Implements `RetrainingService`. `note` journals."""

    def __init__(self, store: Store, runtime: Runtime, note: JournalNote) -> None:
        self._store, self._runtime, self._note = store, runtime, note

    def settings(self) -> RetrainingAnswer:
        """Settings in force and those from the next boundary on."""
        runtime = self._runtime
        return RetrainingAnswer(
            current=runtime.window.settings,
            next=runtime.window.following,
            next_boundary_utc_s=runtime.window.end_utc_s,
        )

    def learning(self) -> LearningAnswer:
        """This box's learning budget."""
        runtime = self._runtime
        report = runtime.learning.report(runtime.window.settings, runtime.preparation.box())
        return read(LearningAnswer, report.to_json())

    async def change(self, patch: Mapping[str, Any], by: str) -> RetrainingAnswer:
        """Raises InvalidValues."""
        runtime = self._runtime
        base = runtime.window.following.model_dump(mode="json")
        settings = parse(RetrainingSettings, merge(base, dict(patch)))
        await asyncio.to_thread(self._store.settings.put_settings, "retraining", settings.model_dump(mode="json"), by)
        runtime.change_retraining(settings)
        self._note("retraining.settings", data={"by": by, "fields": sorted(patch)})
        return self.settings()
