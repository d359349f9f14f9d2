"""Groups in the control process: who may be retrained with whom, what the worker gets, and what becomes of members."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from leaf_kit import leaf_parts
from test_sibling_starts import FAR, LOOK, Box, frames

from edge.core import events as ev
from edge.core.accuracy import Counts
from edge.core.clock import SystemClock
from edge.core.configs import RetrainingConfig
from edge.core.errors import InvalidValue
from edge.core.labels import Accuracy, LabelledFrame, LabelledWindow
from edge.core.learning import Correction
from edge.core.profiles import Estimate, RetrainingProfile
from edge.core.vision import Detections
from edge.runtime import messages as m
from edge.runtime.few_pictures import MOST_KEPT_OUT, of_few
from edge.runtime.groups import Groups
from edge.runtime.judging import Gate
from edge.runtime.running_job import RunningJob
from edge.store.store import Store, default_url
from scheduler.contenders import Contender
from scheduler.groups import FIRST_KEPT, WORK_EXPONENT, WORK_PER_MEMBER, kept_part

JOB = RunningJob("w2-a-p1", "a", RetrainingConfig(epochs=4), 1, 0.5, 0.0, 0.8, 10.0)


class Site(Box):
    """A box of cameras with the group's hands: what the runtime is asked is written down."""

    def __init__(self, store: Store, folder: Path) -> None:
        super().__init__(store, folder)
        self.dispatched: list[ev.Event] = []
        self.documents: list[dict[str, Any]] = []
        self.facts: list[Any] = []
        self.jobs: dict[str, RunningJob] = {}
        self.not_promised: list[tuple[str, int]] = []
        self.known: dict[str, Any] = {}
        gate = Gate(
            store,
            SystemClock(),
            self._ask,
            self._put,
            lambda code, words, camera: self.complaints.append(f"{camera}: {words}"),
        )
        parts = leaf_parts(
            folder, cameras=self.cameras, clock=SystemClock(), store=store, fact=self.facts.append,
            learning=SimpleNamespace(not_promised=lambda camera, window: self.not_promised.append((camera, window))),
            complaints=SimpleNamespace(add=lambda code, words, camera=None: self.complaints.append(words)),
        )  # fmt: skip
        parts.controller.state.window, parts.controller.state.cameras = 2, self.known
        self.groups = Groups(
            parts, self.siblings, gate, self.jobs.__contains__, self.dispatched.append, self._note,
            self.documents.append,
        )  # fmt: skip

    def labelled(self, name: str, **settings: Any) -> None:
        """A camera that looks like the others, with a labelled window."""
        camera = self.camera(name, retrained=True, **settings)
        box = Detections.build([[0.25, 0.25, 0.5, 0.5]], [1.0], [0])
        seen = tuple(LabelledFrame(f, box, "t") for f in frames(self.folder, 4, camera=name))
        camera.closed = {1: LabelledWindow(name, 1, "detection", ("car",), seen[:3], seen[3:])}
        camera.profiles = {
            JOB.config: RetrainingProfile(JOB.retraining, 0.5, Estimate.exact(0.7), Estimate.exact(10.0))
        }
        self.siblings.learned(name, LOOK)

    def done(self, name: str, new: int = 40, before: int = 10) -> m.TrainingDone:
        """A candidate of `name` that finds `new` of 40 objects where the one in force finds `before`."""
        path = self.folder / f"{name}.candidate"
        path.write_bytes(f"candidate {name}".encode())
        counts = {"new": new, "in_force": before}
        contenders = tuple(Contender(who, (Counts(n // 4, 0, (40 - n) // 4),) * 4, 4) for who, n in counts.items())
        accuracy = {who: Accuracy(n / 40, 4, 40) for who, n in counts.items()}
        return m.TrainingDone(
            JOB.job, path, accuracy["new"], accuracy["in_force"], 0.0, 1.0, 6, self.cameras[name].version.spec,
            contenders, taught_with=("a",),
        )  # fmt: skip

    def begin(self, *members: str) -> None:
        """A group's retraining of camera a with these members begins."""
        self.groups.members(ev.StartRetraining("a", JOB.job, "all", 0.5, 1, members))


@pytest.fixture
def store(sqlite_template: Path, tmp_path: Path) -> Iterator[Store]:
    shutil.copy(sqlite_template, tmp_path / "magpie.db")
    with Store(default_url(tmp_path), tmp_path) as found:
        yield found


@pytest.fixture
def site(store: Store, tmp_path: Path) -> Site:
    return Site(store, tmp_path)


def test_cameras_of_one_kind_may_be_retrained_as_one_alike_or_not(site: Site) -> None:
    for name in ("b", "a", "stranger", "unseen"):
        site.labelled(name)
    site.siblings.known("stranger", FAR.to_json())
    site.siblings.forget("unseen")
    found = site.groups.possible(True)
    assert ("a", "b", "stranger", "unseen") in found.sets, "in window 1 no camera was looked at yet"
    assert all({"a", "b"} <= set(names) for names in found.sets), "of fewer those that look alike"
    assert found.kept == FIRST_KEPT


@pytest.mark.parametrize("why", ["retraining is off", "pinned", "other classes"])
def test_who_is_not_retrained_or_differs_is_in_no_group(site: Site, why: str) -> None:
    site.labelled("a")
    site.labelled("b", **({"retraining": {"enabled": False}} if why == "retraining is off" else {}))
    camera = site.cameras["b"]
    if why == "pinned":
        camera.version = replace(camera.version, pinned=True)
    if why == "other classes":
        camera.version = replace(camera.version, spec=replace(camera.version.spec, classes=("van",)))
    assert site.groups.possible(True).sets == ()


def test_groups_can_be_switched_off(site: Site) -> None:
    for name in ("a", "b"):
        site.labelled(name)
    assert site.groups.possible(True).sets == (("a", "b"),)
    assert site.groups.possible(False).sets == ()


def test_a_worker_gets_the_pictures_of_members_that_have_labels(site: Site) -> None:
    for name in ("a", "b", "empty"):
        site.labelled(name)
    site.cameras["empty"].closed = {}
    order = ev.StartRetraining("a", JOB.job, "all", 0.5, 1, ("b", "empty", "removed"))
    (found,) = site.groups.members(order)
    assert (found.camera, found.parent.version) == ("b", site.cameras["b"].version.id)
    assert found.data is site.cameras["b"].closed[1]
    assert site.groups.members(replace(order, members=())) == ()


async def test_members_are_judged_each_by_its_own_pictures_and_groups_learn(site: Site) -> None:
    for name in ("a", "b", "c"):
        site.labelled(name)
    before = {n: site.cameras[n].version.id for n in "bc"}
    site.begin("b", "c")
    theirs = (("b", site.done("b")), ("c", site.done("c", new=8, before=36)))
    await site.groups.judge(JOB, replace(site.done("a"), members=theirs))
    assert site.cameras["b"].version.id != before["b"]
    assert site.cameras["c"].version.id == before["c"], "the group's student is worse there: it keeps its own"
    b = site.store.versions.lineage(site.cameras["b"].version.id)
    assert (b[0].parent, b[0].config, b[0].decided_by) == (before["b"], JOB.config, "gate")
    assert "retrained as one with 1 other camera" in b[0].reason, "not which: a user of b may not see it"
    outcomes = [(e.camera, e.promoted) for e in site.dispatched if isinstance(e, ev.RetrainingCompleted)]
    assert outcomes == [("b", True), ("c", False)]
    assert [kind for kind, _ in site.notes] == ["model.promoted", "model.rejected"]
    assert [(type(f).__name__, f.camera) for f in site.facts] == [("Promoted", "b"), ("StudentRejected", "c")]
    assert all(data["leader"] == "a" for _, data in site.notes)
    assert site.not_promised == [("b", 2)], "what the group gave it was in no plan"
    found = {"work_per_member": WORK_PER_MEMBER, "work_exponent": WORK_EXPONENT}
    assert site.documents == [{"kept": site.groups.kept, "retrainings": 1, "taught": {}, **found}]
    # Alone 0.2 were expected of each; b gained 0.75, c would have lost 0.7.
    assert site.groups.kept == pytest.approx(kept_part(FIRST_KEPT, 0.4, 0.05, 3))
    again = Site(site.store, site.folder)
    again.groups.restore(site.documents[-1])
    assert again.groups.kept == site.groups.kept


def of_few_objects(done: m.TrainingDone) -> m.TrainingDone:
    """The same result on pictures with too few objects to judge by alone."""
    few = {"new": Counts(2, 0, 0), "in_force": Counts(1, 0, 1)}
    contenders = tuple(Contender(who, (counts,) * 2, 2) for who, counts in few.items())
    everybody = tuple(Contender(who, (Counts(n, 0, 40 - n),) * 2, 2) for who, n in (("new", 40), ("in_force", 10)))
    candidate = replace(done.candidate, objects=4)
    return replace(done, candidate=candidate, contenders=contenders, group=everybody)


async def test_a_camera_of_few_objects_that_a_group_taught_is_retrained_by_groups_only(site: Site) -> None:
    for name in ("a", "b", "c"):
        site.labelled(name)
    site.begin("b", "c")
    members = (("b", of_few_objects(site.done("b"))), ("c", site.done("c")))
    await site.groups.judge(JOB, replace(of_few_objects(site.done("a")), members=members), site.cameras["a"].version.id)
    assert site.groups.possible(True).taught == frozenset("ab"), "c has objects enough to be judged by"
    assert site.groups.possible(False).taught == frozenset()
    again = Site(site.store, site.folder)
    again.cameras.update(site.cameras)
    again.groups.restore(site.documents[-1])
    assert again.groups.possible(True).taught == frozenset("ab"), "after a restart, too"
    site.cameras["b"].version = replace(site.cameras["b"].version, id="another")
    del site.cameras["a"]
    assert site.groups.possible(True).taught == frozenset(), "it is gone, or has another student by now"


@pytest.mark.parametrize("why", ["another student", "its own retraining runs", "taken in anew", "removed"])
async def test_a_result_that_was_compared_with_something_else_is_put_away(site: Site, why: str) -> None:
    for name in ("a", "b"):
        site.labelled(name)
    site.begin("b")
    result = site.done("b")
    if why == "another student":
        site.cameras["b"].version = replace(site.cameras["b"].version, id="rolled-back")
    if why == "its own retraining runs":
        site.jobs["b"] = replace(JOB, camera="b")
    if why == "taken in anew":
        site.cameras["b"] = replace(site.cameras["b"])
    if why == "removed":
        del site.cameras["b"]
    before = site.store.versions.promoted("b")
    await site.groups.judge(JOB, replace(site.done("a"), members=(("b", result),)))
    assert site.store.versions.promoted("b") == before
    assert not result.path.exists(), "no file is left behind"
    assert site.dispatched == []
    code = {"another student": "other_student", "its own retraining runs": "own_retraining"}.get(why, "changed")
    assert site.notes[-1] == ("group.member_skipped", {"leader": "a", "why": code})


async def test_a_candidate_that_cannot_be_put_in_force_is_reported(site: Site) -> None:
    for name in ("a", "b"):
        site.labelled(name)
    site.refuse = True
    site.begin("b")
    await site.groups.judge(JOB, replace(site.done("a"), members=(("b", site.done("b")),)))
    assert any("b: the retrained model could not be put in force" in words for words in site.complaints)
    (completed,) = [e for e in site.dispatched if isinstance(e, ev.RetrainingCompleted)]
    assert not completed.promoted


async def test_by_a_short_retraining_members_are_expected_to_gain_less(site: Site) -> None:
    for name in ("a", "b"):
        site.labelled(name)
    long = RetrainingConfig(epochs=16)
    profile = RetrainingProfile(long, 0.5, Estimate.exact(0.7), Estimate.exact(40.0))
    site.cameras["a"].profiles = {**site.cameras["a"].profiles, long.id: profile}
    site.begin("b")
    await site.groups.judge(JOB, replace(site.done("a"), members=(("b", site.done("b", new=14)),)))
    assert site.groups.kept == pytest.approx(kept_part(FIRST_KEPT, 0.2 * 0.25**WORK_EXPONENT, 0.1, 2))


async def test_of_an_option_that_is_not_known_any_more_nothing_is_learned(site: Site) -> None:
    for name in ("a", "b"):
        site.labelled(name)
    site.cameras["a"].profiles = {}
    site.begin("b")
    await site.groups.judge(JOB, replace(site.done("a"), members=(("b", site.done("b")),)))
    assert site.groups.kept == FIRST_KEPT


async def test_a_gain_that_plans_believe_in_part_counts_so_where_groups_learn(site: Site) -> None:
    for name in ("a", "b"):
        site.labelled(name)
    site.known["b"] = SimpleNamespace(correction=Correction(gain=0.8, reliability=0.5))
    site.begin("b")
    await site.groups.judge(JOB, replace(site.done("a"), members=(("b", site.done("b", new=16)),)))
    assert site.groups.kept == pytest.approx(kept_part(FIRST_KEPT, 0.4 * 0.2, 0.15, 2))


def test_what_groups_kept_fades_and_is_forgotten_where_their_work_was_another(site: Site) -> None:
    site.groups.restore(
        {"kept": 0.2, "retrainings": 3, "work_per_member": WORK_PER_MEMBER, "work_exponent": WORK_EXPONENT}
    )
    assert 0.2 < site.groups.possible(True).kept < site.groups.possible(True).kept < FIRST_KEPT
    other = Site(site.store, site.folder)
    other.groups.restore({"kept": 0.2, "retrainings": 3})
    assert other.groups.kept == FIRST_KEPT


async def test_a_retraining_of_one_camera_teaches_nothing_of_groups(site: Site) -> None:
    site.labelled("a")
    await site.groups.judge(JOB, site.done("a"))
    assert (site.groups.kept, site.documents) == (FIRST_KEPT, [])


@pytest.mark.parametrize("damaged", [{}, {"kept": "much", "retrainings": 1}, {"kept": 9.0, "retrainings": 1}])
def test_a_damaged_document_is_refused(site: Site, damaged: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue, match="groups"):
        site.groups.restore(damaged)
    site.groups.restore(None)


def test_a_member_adds_a_bounded_number_of_pictures_its_windows_own_first(tmp_path: Path) -> None:
    seen = tuple(LabelledFrame(f, Detections.empty(), "t") for f in frames(tmp_path, 90, camera="a"))
    data = LabelledWindow("a", 1, "detection", ("car",), seen[:20], seen[20:26], seen[26:60], seen[60:])
    few = of_few(data, 30)
    assert (few.train, few.held_out) == (data.train, data.held_out)
    assert len(few.exemplars) == 10
    assert few.kept_out == data.kept_out[-MOST_KEPT_OUT:]
    assert of_few(data, 54).exemplars == data.exemplars
    least = of_few(data, 5)
    assert (least.train, least.exemplars) == (data.train[::4], ())
