"""Lending between the boxes of a fleet: once a second the runtime's lender and borrower look at what others did."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from edge.appliance.answers.fleet import BorrowedAnswer, FleetLendingAnswer, LentHereAnswer
from edge.appliance.box_groups import GroupsOverBoxes
from edge.core.errors import MagpieError
from edge.runtime.lender import Lender
from edge.runtime.lending_folder import LendingFolder
from edge.runtime.runtime import Runtime
from edge.runtime.tasks import BackgroundTasks
from edge.settings import LendingSettings, SiteSettings
from scheduler.follow import planner

log = logging.getLogger(__name__)

_LOOK_S: Final = 1.0


class Lending:
    """`complain(code, message)` reports to people. Nothing is done on a box that neither lends nor borrows."""

    def __init__(self, site: SiteSettings, runtime: Runtime, complain: Callable[..., None]) -> None:
        self._settings = LendingSettings() if site.fleet is None else site.fleet.lending
        self._me = "" if site.fleet is None else site.fleet.name
        self._borrowing = runtime.students.borrowing
        self._folder = LendingFolder(Path(site.data_dir))
        self._tasks = BackgroundTasks(complain)
        plan = planner(runtime.shares.partitioner.caps, time.perf_counter)
        self.groups = GroupsOverBoxes(site, runtime)
        self._lender = Lender(
            runtime.parts, self._folder, self._settings.most_share, plan, runtime.dispatch, self._tasks.spawn,
            self._borrowing.counts,
        )  # fmt: skip

    async def run(self) -> None:
        """Look until cancelled."""
        lend, borrow = self._settings.lend, self._settings.borrow
        if not (lend or borrow):
            return
        # Work that ran before the appliance began anew is lost; the agent reports that to its lender or borrower.
        await asyncio.to_thread(self._folder.asked.clear)
        await asyncio.to_thread(self._folder.lent.clear)
        try:
            while True:
                try:
                    if borrow:
                        await self._borrowing.look(self._me)
                    if lend:
                        await self._lender.look(self._me)
                except (MagpieError, OSError) as error:
                    log.warning("lending: %s", error)
                await asyncio.sleep(_LOOK_S)
        finally:
            await self._tasks.end()

    def answer(self) -> FleetLendingAnswer:
        """All that this box lends and borrows now, and what came of it since its start."""
        counts = self._borrowing.counts
        return FleetLendingAnswer(
            lend=self._settings.lend, borrow=self._settings.borrow, most_share=self._settings.most_share,
            offered_share=self._lender.offered if self._settings.lend else 0.0,
            here=tuple(
                LentHereAnswer(box=h.box, camera=h.camera, share=h.share, fraction=h.fraction, kind=h.kind)
                for h in self._lender.here()
            ),
            there=tuple(
                BorrowedAnswer(box=b.box, camera=b.camera, phase=b.phase, fraction=b.fraction, kind=b.kind)
                for b in self._borrowing.there()
            ),
            lent=counts.lent, borrowed=counts.borrowed, lent_profiles=counts.lent_profiles,
            borrowed_profiles=counts.borrowed_profiles, lent_labels=counts.lent_labels,
            borrowed_labels=counts.borrowed_labels, lent_device_s=counts.lent_device_s,
            borrowed_device_s=counts.borrowed_device_s, failures=dict(counts.failures), groups=self.groups.answer(),
        )  # fmt: skip
