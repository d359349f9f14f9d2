"""Two real appliances and their agents: a camera of one is retrained by the other, and gated by the first; and its
frames are labelled by the other's golden model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fleet_agents_kit import FleetOfAgents
from running_kit import running, until

from edge.appliance.appliance import Appliance
from edge.core import events as ev
from edge.core.configs import RetrainingConfig
from edge.core.lending import LentLabels
from edge.core.profiles import Estimate, RetrainingProfile
from edge.core.workers import GOLDEN
from edge.runtime.labelling import label_path
from edge.settings import SiteSettings

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(480)]

LENDING = {"lend": True, "borrow": True}


def of_fleet(site: SiteSettings, fleet: FleetOfAgents, name: str, **more: Any) -> SiteSettings:
    return site.model_copy(
        update={"data_dir": str(fleet.folder(name).path.parent), "fleet": fleet.settings[name]} | more
    )


async def test_a_camera_is_retrained_and_labelled_by_another_box(
    site: Callable[..., SiteSettings], tmp_path: Path
) -> None:
    # The test orders the retraining itself: the controller's own would come in between.
    made = site(window_s=14.0, enabled=False)
    async with FleetOfAgents(tmp_path) as fleet:
        await fleet.found("crowded", lending=LENDING)
        await fleet.join("idle", "crowded", lending=LENDING)
        crowded = of_fleet(made, fleet, "crowded", cameras=made.cameras[:1])
        idle = of_fleet(made, fleet, "idle", cameras=())
        async with running(idle) as lender, running(crowded) as borrower:
            await lent_and_gated(lender, borrower, fleet)
            await lent_and_labelled(lender, borrower)


async def lent_and_gated(lender: Appliance, borrower: Appliance, fleet: FleetOfAgents) -> None:
    runtime = borrower.runtime
    (camera,) = runtime.cameras.values()
    await until(lambda: [o.box for o in fleet.lending("crowded").offers() if o.share > 0], "the other box offers")
    await until(lambda: [d for d in camera.closed.values() if d.train and d.held_out], "a window is labelled")
    chosen = RetrainingConfig(2, 8, "head")
    camera.profiles = {chosen.id: RetrainingProfile(chosen, 0.4, Estimate.exact(0.6), Estimate.exact(5.0))}
    window = max(camera.closed)
    job = f"w{window + 1}-{camera.id}-p99"
    # As the controller orders it where its planner finds that it pays (tests/scheduler/test_window_lending.py).
    runtime.carry_out(ev.StartRetraining(camera.id, job, chosen.id, 0.3, window, (), 99, lender="idle"))

    def gated() -> Any:
        assert not borrower.lending.answer().failures
        borrower.services.events.buffer.flush()
        kinds = ("model.promoted", "model.rejected")
        entries = [e for kind in kinds for e in borrower.services.events.recent(50, None, None, kind)]
        return [e for e in entries if e.data.get("trained_on") == "idle"]

    await until(lambda: lender.lending.answer().here, "the other box trains")
    await until(lambda: lender.lending.answer().lent, "the other box is done")
    (entry,) = await until(gated, "its candidate is gated")
    assert "trained on the box idle" in entry.data["reason"]
    answer = borrower.lending.answer()
    assert (answer.borrowed, answer.failures, answer.there) == (1, {}, ())
    assert answer.borrowed_device_s > 0
    await until(lambda: not fleet.lending("idle").lent.ids(), "nothing of it stays on the other box")


async def lent_and_labelled(lender: Appliance, borrower: Appliance) -> None:
    runtime = borrower.runtime
    queue, (camera,) = runtime.golden.labels, runtime.cameras
    # Nothing is labelled here from now on.
    await runtime.supervisor.stop(GOLDEN.name)
    unsent = await until(lambda: [*queue.unsent()[0], *queue.unsent()[1]][:3], "frames wait")
    before = queue.counters.labelled
    # As it is ordered where labels would be late (tests/runtime/test_borrowed_labels.py).
    choice = LentLabels(camera, "idle", 0.3, tuple(f.id for f in unsent), 20.0)
    runtime.students.borrowing.labels.ask(choice, 60.0)
    await until(lambda: borrower.lending.answer().borrowed_labels, "they are labelled by the other box")
    answer = borrower.lending.answer()
    assert (answer.borrowed_labels, answer.failures) == (len(unsent), {})
    assert lender.lending.answer().lent_labels == len(unsent)
    assert queue.counters.labelled == before + len(unsent)
    assert all(json.loads(label_path(f.path).read_text())["teacher"] == "demo" for f in unsent)
