"""Retrainings of a camera follow each other: the next one begins when the one before is judged and its process gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from leaf_kit import UNASKED, ignored, leaf_parts

from edge.core import events as ev
from edge.core.configs import RetrainingConfig
from edge.core.errors import InvalidValue
from edge.core.labels import Accuracy
from edge.core.profiles import Estimate, RetrainingProfile
from edge.core.shares import ShareCaps, ideal_caps
from edge.runtime import messages as m
from edge.runtime.judging import Judged
from edge.runtime.retrainings import Retrainings

CONFIG = RetrainingConfig(epochs=4)
Argument = Callable[[], m.RetrainingJob]
CAPS = replace(ideal_caps(), min_share=0.01, units=2.0)


def order(number: int, window: int = 1, share: float = 0.4) -> ev.StartRetraining:
    return ev.StartRetraining("yard", f"job {number}", CONFIG.id, share, window)


def done(number: int) -> m.TrainingDone:
    nothing = Accuracy(0.5, 4, 40)
    return m.TrainingDone(f"job {number}", Path("/none"), nothing, nothing, 3.0, 1.0, 6, None)  # type: ignore[arg-type]


def over(number: int, keep: bool = True) -> ev.StopRetraining:
    return ev.StopRetraining("yard", f"job {number}", "the window is over", keep)


class Workers:
    """Stands where the supervisor is: a trainer lives from its start until it is stopped."""

    def __init__(self) -> None:
        self.jobs: list[str] = []
        self.shares: list[float] = []
        self.alive = False
        self.argument: Argument = lambda: pytest.fail("no trainer was started")

    def has(self, name: str) -> bool:
        assert name == "train yard"
        return self.alive

    def start(self, worker: Any, share: float, main: Any, job: Argument, *_: Any, **__: Any) -> None:
        assert not self.alive, "two trainers of one camera"
        self.alive, self.argument = True, job
        self.jobs.append(job().job)
        self.shares.append(share)

    def resize(self, name: str, share: float) -> None:
        self.shares[-1] = share

    def send(self, name: str, message: Any) -> bool:
        return self.alive

    async def stop(self, name: str, *rest: Any) -> None:
        await asyncio.sleep(0)
        self.alive = False


class Slow:
    """A gate that takes its time; no candidate comes through while there is an `error`."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.error: Exception | None = InvalidValue("candidate", "none", "a student")

    async def judge(self, *rest: Any) -> Any:
        await self.open.wait()
        if self.error is not None:
            raise self.error
        return Judged(True, True, 0.7, "v2", "it is better", {})


class Site:
    """One camera with data of window 1, and the hands that start its retrainings."""

    def __init__(self, tmp_path: Path, caps: ShareCaps = CAPS) -> None:
        self.workers, self.events, self.notes = Workers(), [], []  # type: ignore[var-annotated]
        self.facts: list[Any] = []
        self.ends: list[tuple[str, str]] = []
        self.tasks: set[asyncio.Task[None]] = set()
        profile = RetrainingProfile(CONFIG, 0.5, Estimate.exact(0.7), Estimate.exact(10.0))
        camera = SimpleNamespace(
            id="yard", trainer="train yard", closed={1: "data"}, profiles={CONFIG.id: profile}, region=None,
            version=SimpleNamespace(id="v1", spec=None, blob=""), published=False,
        )  # fmt: skip

        async def judged(*_: Any) -> None: ...

        parts = leaf_parts(
            tmp_path, caps=caps, cameras={"yard": camera}, supervisor=self.workers, fact=self.facts.append,
            records=SimpleNamespace(write=self.write),
            store=SimpleNamespace(
                windows=SimpleNamespace(start_job=None, end_job="end", update_job=None, add_cost=None),
                blobs=SimpleNamespace(path=Path),
            ),
        )  # fmt: skip
        preparation: Any = SimpleNamespace(retrained=ignored)
        siblings: Any = SimpleNamespace(starts=lambda camera: ())
        groups: Any = SimpleNamespace(members=lambda order: (), judge=judged)
        borrowing: Any = SimpleNamespace(has=lambda job: False, judges=lambda job: False)
        self.gate: Any = Slow()
        self.hands = Retrainings(
            parts, preparation, siblings, groups, UNASKED, borrowing, self.gate, self.events.append,
            lambda kind, **more: self.notes.append(kind), self.spawn,
        )  # fmt: skip

    def write(self, what: Any, *values: Any, **more: Any) -> None:
        if what == "end":
            self.ends.append((values[0], values[1]))

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def settled(self) -> None:
        while self.tasks:
            await asyncio.gather(*self.tasks, return_exceptions=True)
        await asyncio.sleep(0)

    @property
    def failures(self) -> list[str]:
        return [e.reason for e in self.events if isinstance(e, ev.RetrainingFailed)]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


async def test_the_next_waits_until_the_one_before_is_judged_and_gone(site: Site) -> None:
    site.hands.start(order(1))
    site.hands.stop(ev.StopRetraining("yard", "job 1", "the window is over", keep=True))
    site.hands.start(order(2))
    await site.settled()
    assert (site.workers.jobs, site.failures) == (["job 1"], []), "its trainer still has a result to hand over"
    site.hands.received("yard", m.TrainingDropped("job 1"))
    assert site.workers.jobs == ["job 1"], "its process has not ended"
    await site.settled()
    assert site.workers.jobs == ["job 1", "job 2"]
    assert site.hands.running["yard"].job == "job 2"


async def test_a_trainer_that_is_being_stopped_delays_the_next(site: Site) -> None:
    site.hands.start(order(1))
    site.hands.stop(ev.StopRetraining("yard", "job 1", "the camera's plan changed"))
    site.hands.start(order(2))
    assert site.workers.jobs == ["job 1"]
    await site.settled()
    assert (site.workers.jobs, site.failures) == (["job 1", "job 2"], ["the camera's plan changed"])


async def test_one_that_fails_lets_the_next_begin(site: Site) -> None:
    site.hands.start(order(1))
    site.hands.start(order(2))
    site.hands.given_up("yard", "job 1", "it was killed three times")
    await site.settled()
    assert (site.workers.jobs, site.failures) == (["job 1", "job 2"], ["it was killed three times"])


async def test_one_that_is_at_the_gate_keeps_the_next_waiting(site: Site) -> None:
    site.hands.start(order(1))
    site.hands.received("yard", done(1))
    site.workers.alive = False
    site.hands.start(order(2))
    await asyncio.sleep(0)
    assert site.hands.running["yard"].job == "job 1"
    site.gate.open.set()
    await site.settled()
    assert site.workers.jobs == ["job 1", "job 2"]
    assert site.hands.running["yard"].job == "job 2"


@pytest.mark.parametrize("keep", [True, False])
async def test_one_that_is_at_the_gate_is_judged_whatever_is_ordered(site: Site, keep: bool) -> None:
    site.hands.start(order(1))
    site.hands.received("yard", done(1))
    site.workers.alive = False
    site.hands.stop(over(1, keep))
    site.hands.start(order(2))
    await asyncio.sleep(0)
    assert site.workers.jobs == ["job 1"], "job 2 would begin with the student of before"
    site.gate.open.set()
    await site.settled()
    assert site.workers.jobs == ["job 1", "job 2"]
    assert site.hands.running["yard"].job == "job 2"
    assert site.ends == [("job 1", "failed")], "once, and by the gate"


async def test_a_result_of_a_camera_that_was_removed_ends_no_other_retraining(site: Site) -> None:
    site.hands.start(order(1))
    site.hands.received("yard", done(1))
    site.workers.alive = False
    site.gate.error = None
    site.hands.forget_camera("yard")
    site.hands.start(order(2))
    await asyncio.sleep(0)
    site.gate.open.set()
    await site.settled()
    assert site.hands.running["yard"].job == "job 2"
    assert (site.workers.jobs, site.failures) == (["job 1", "job 2"], [])


@pytest.mark.parametrize("at_the_gate", [False, True])
async def test_a_retraining_of_a_camera_that_was_removed_ends_once(site: Site, at_the_gate: bool) -> None:
    site.gate.error = None
    site.hands.start(order(1))
    if at_the_gate:
        site.hands.received("yard", done(1))
    site.workers.alive = False
    site.hands.forget_camera("yard")
    site.gate.open.set()
    await site.settled()
    assert (site.hands.running, site.ends) == ({}, [("job 1", "stopped")])


async def test_a_gate_that_breaks_lets_the_next_begin(site: Site) -> None:
    site.hands.start(order(1))
    site.hands.received("yard", done(1))
    site.workers.alive = False
    site.hands.start(order(2))
    site.gate.error = RuntimeError("the disk is gone")
    site.gate.open.set()
    await site.settled()
    assert (site.workers.jobs, site.failures) == (["job 1", "job 2"], ["it could not be judged"])


async def test_one_that_waits_begins_with_the_share_that_it_has_by_then(site: Site) -> None:
    site.hands.start(order(1))
    site.hands.stop(over(1))
    site.hands.start(order(2, share=0.3))
    assert (site.workers.shares, site.hands.running["yard"].share) == ([0.3], 0.3), "both have it one after the other"
    site.hands.shares({"yard": 0.2})
    site.hands.received("yard", m.TrainingDropped("job 1"))
    await site.settled()
    assert (site.workers.jobs[-1], site.workers.shares[-1]) == ("job 2", 0.2)
    assert site.hands.running["yard"].share == 0.2


async def test_where_shares_are_not_resized_live_a_trainer_that_ends_is_left_alone(tmp_path: Path) -> None:
    site = Site(tmp_path, replace(CAPS, resize="respawn"))
    site.hands.start(order(1))
    site.hands.stop(over(1))
    site.hands.start(order(2, share=0.3))
    assert (site.workers.shares, site.hands.running["yard"].share) == ([0.4], 0.4)


async def test_a_trainer_that_dies_while_it_finishes_does_not_train_on(site: Site) -> None:
    site.hands.start(order(1))
    assert not site.workers.argument().finish
    site.hands.stop(over(1))
    assert site.workers.argument().finish, "the next process of this job gets the order as well"
    site.hands.received("yard", m.TrainingDropped("job 1"))
    await site.settled()
    site.hands.start(order(2))
    assert not site.workers.argument().finish


async def test_one_that_waits_can_be_stopped(site: Site) -> None:
    site.hands.start(order(1))
    site.hands.start(order(2))
    site.hands.stop(ev.StopRetraining("yard", "job 2", "the window is over", keep=True))
    site.hands.received("yard", m.TrainingDropped("job 1"))
    await site.settled()
    assert site.workers.jobs == ["job 1"]
    assert not site.hands.running
    assert "retraining.stopped" not in site.notes
    assert [fact.step for fact in site.facts] == ["started"], "one that never began is not stopped"
    failed = [e for e in site.events if isinstance(e, ev.RetrainingFailed)]
    assert [(e.camera, e.job) for e in failed] == [("yard", "job 2")], "members of a group would wait for it"


async def test_without_data_or_configuration_it_fails_and_says_which(site: Site) -> None:
    site.hands.start(order(1, window=7))
    site.hands.start(ev.StartRetraining("yard", "job 2", "another", 0.4, 1))
    await asyncio.sleep(0)
    assert site.failures == ["its data are gone", "nothing is known of its configuration"]
