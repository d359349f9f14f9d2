"""Groups of cameras over the boxes of a fleet: again and again the runtime shares this box's labelled pictures, looks
at what others share, and judges the students that came."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from edge.appliance.answers.fleet import BoxGroupsAnswer, GroupCameraAnswer, SharingBoxAnswer
from edge.runtime.box_groups_folder import BoxGroupsFolder
from edge.runtime.runtime import Runtime
from edge.runtime.tasks import repeated
from edge.settings import SiteSettings

_LOOK_S: Final = 2.0


class GroupsOverBoxes:
    """Nothing is done on a box that shares no pictures."""

    def __init__(self, site: SiteSettings, runtime: Runtime) -> None:
        self._share = site.fleet is not None and site.fleet.share_pictures
        self._me = "" if site.fleet is None else site.fleet.name
        self._groups = runtime.students.box_groups
        self._folder = BoxGroupsFolder(Path(site.data_dir))

    async def run(self) -> None:
        """Look until cancelled."""
        if not self._share:
            # Of a time when pictures were shared.
            await asyncio.to_thread(self._folder.clear)
            return
        await repeated(lambda: self._groups.look(self._me), _LOOK_S, "groups over boxes")

    def answer(self) -> BoxGroupsAnswer:
        """The groups that this box is in, and what came of them since its start."""
        known, counts = self._groups.known, self._groups.counts
        mine = [g for g in known.groups if self._me in (g.trainer, *g.boxes)]
        failures = dict(known.heard.failures)
        for fault, count in counts.failures.items():
            failures[fault] = failures.get(fault, 0) + count
        return BoxGroupsAnswer(
            share=self._share,
            boxes=tuple(SharingBoxAnswer(box=b.box, shared=b.shared) for b in known.heard.boxes),
            cameras=tuple(
                GroupCameraAnswer(
                    group=number, trainer=group.trainer, box=one.box, camera=one.camera,
                    here=one.box == self._me or one.name in known.guests,
                )
                for number, group in enumerate(mine)
                for one in (*group.own, *(g.of_box for g in group.guests))
            ),
            trained=counts.trained, taken=counts.taken, refused=counts.refused, failures=failures,
        )  # fmt: skip
