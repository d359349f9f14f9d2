"""The store's contract, kept by both databases: what a caller may rely on, whichever one is behind it."""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "store"))

from postgres_server import postgres_server
from store_helpers import JumpClock, add, chain, check_invariants, plan, problem, retraining_profile, version

from edge.core.errors import Conflict, InvalidValue, NotFound, StoreError
from edge.core.labels import Accuracy
from edge.core.plan_basis import PlanBasis
from edge.core.plan_causes import PlanCause
from edge.core.shares import Usage, ideal_caps
from edge.core.truth import Answer, FrameKey, Marked, Question
from edge.store.answers import AnswerRecord
from edge.store.store import Store, default_url
from edge.store.values import NewEvent


@pytest.fixture(params=["sqlite", "postgresql"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path, sqlite_template: Path) -> Iterator[Callable[[], Store]]:
    """Opens the same store again and again, as restarts do."""
    clock = JumpClock()
    opened: list[Store] = []

    def opener(url: str) -> Callable[[], Store]:
        def open_again() -> Store:
            for one in opened:
                one.close()
            opened.append(Store(url, tmp_path, clock=clock))
            return opened[-1]

        return open_again

    if request.param == "sqlite":
        shutil.copy(sqlite_template, tmp_path / "magpie.db")
        yield opener(default_url(tmp_path))
    else:
        with postgres_server(request.config).new_database() as url:
            yield opener(url)
            for one in opened:
                one.close()
    for one in opened:
        one.close()


@pytest.fixture
def store(open_store: Callable[[], Store]) -> Iterator[Store]:
    opened = open_store()
    yield opened
    check_invariants(opened)


# --- settings and cameras -------------------------------------------------------------------------------------------


def test_settings_survive_a_restart_with_their_history(open_store: Callable[[], Store]) -> None:
    store = open_store()
    assert store.settings.get_settings("windows") is None
    assert store.settings.put_settings("windows", {"length_s": 200, "floor": None, "days": [1, 2]}, "ann") == 1
    assert store.settings.put_settings("windows", {"length_s": 60}, "bob", expected_revision=1) == 2
    store = open_store()
    assert store.settings.get_settings("windows") == {"length_s": 60}
    newest, oldest = store.settings.audit("settings/windows")
    assert (newest.revision, newest.changed_by, newest.action, newest.value) == (2, "bob", "changed", {"length_s": 60})
    assert (oldest.revision, oldest.changed_by, oldest.action) == (1, "ann", "created")
    assert oldest.value == {"length_s": 200, "floor": None, "days": [1, 2]}


def test_what_the_appliance_writes_in_every_window_leaves_no_audit_record(store: Store) -> None:
    for n in range(3):
        store.settings.put_settings("profiler/gate", {"n": n}, "micro-profiler", audited=False)
    assert store.settings.get_settings("profiler/gate") == {"n": 2}
    assert store.settings.audit() == ()


def test_a_change_made_for_an_older_revision_is_refused(store: Store) -> None:
    store.settings.put_settings("windows", {"length_s": 200}, "ann", expected_revision=0)
    store.settings.put_settings("windows", {"length_s": 60}, "bob")
    with pytest.raises(Conflict, match="is at revision 2, the change was made for revision 1"):
        store.settings.put_settings("windows", {"length_s": 90}, "ann", expected_revision=1)
    assert store.settings.get_settings("windows") == {"length_s": 60}
    assert len(store.settings.audit()) == 2


@pytest.mark.parametrize("bad", [float("nan"), {1, 2}, b"x", object()])
def test_what_is_not_json_is_refused_naming_the_document(store: Store, bad: object) -> None:
    with pytest.raises(InvalidValue, match=r"settings\.windows"):
        store.settings.put_settings("windows", {"length_s": bad}, "ann")
    assert store.settings.get_settings("windows") is None


def test_text_is_kept_as_it_was_given(store: Store) -> None:
    odd = {"name": "Straße 7 – 停車場 🚗", "nul": "a\x00b", "quote": "'; DROP TABLE cameras; --"}
    store.settings.put_settings("odd", odd, "zoë\x00")
    assert store.settings.get_settings("odd") == odd
    with pytest.raises(InvalidValue, match=r"settings\.name"):
        store.settings.put_settings("a\x00b", {}, "ann")


def test_cameras_are_kept_in_the_order_they_came(store: Store) -> None:
    store.settings.put_camera("north", {"url": "rtsp://n"}, "ann")
    store.settings.put_camera("east", {"url": "rtsp://e"}, "ann", enabled=False)
    changed = store.settings.put_camera("north", {"url": "rtsp://n2"}, "bob")
    assert (changed.revision, changed.settings, changed.enabled) == (2, {"url": "rtsp://n2"}, True)
    assert [c.id for c in store.settings.cameras()] == ["north", "east"]
    assert not store.settings.camera("east").enabled
    with pytest.raises(Conflict, match="camera north"):
        store.settings.put_camera("north", {}, "ann", expected_revision=0)
    with pytest.raises(NotFound, match="camera west does not exist"):
        store.settings.camera("west")


def test_a_deleted_camera_takes_its_models_along_but_not_its_history(store: Store) -> None:
    store.settings.put_camera("gate", {}, "ann")
    chain(store, "v0", "v1", "v2")
    add(store, "yard-0", "yard")
    window = store.windows.open_window(1000.0, 60.0, "relay")
    store.windows.put_camera_window(window, "gate", frames_labelled=5)
    assert store.settings.delete_camera("gate", "ann") == 3
    assert [v.id for v in store.versions.newest()] == ["yard-0"]
    assert store.windows.newest()[0].cameras[0].camera == "gate"
    assert store.settings.audit("camera/gate")[0].action == "deleted"
    with pytest.raises(NotFound):
        store.settings.delete_camera("gate", "ann")
    store.settings.put_camera("gate", {}, "ann", expected_revision=0)
    add(store, "v0")  # the name is free again


# --- windows --------------------------------------------------------------------------------------------------------


DONE = PlanCause("retraining_completed", "gate", promoted=True)


def test_everything_of_a_window_comes_back(open_store: Callable[[], Store]) -> None:
    store = open_store()
    window = store.windows.open_window(1000.0, 60.0, "relay", {"a_min": 0.4})
    assert window == 0
    store.windows.add_plan(window, problem("first"), plan("first", 0.6), PlanCause("prepared"), 1001.0)
    basis = PlanBasis("relay", ideal_caps(0.01), plan("first", 0.6), 2.5, problem("of a group"))
    store.windows.add_plan(window, problem("second"), plan("second", 0.7), DONE, basis=basis)
    store.windows.add_profiles(window, "gate", [retraining_profile()])
    store.windows.start_job("w0-gate", window, "gate", "head-e5", 0.5, accuracy_before=0.5)
    store.windows.update_job("w0-gate", fraction=0.4, device_seconds=5.0)
    store.windows.end_job(
        "w0-gate", "completed", device_seconds=12.0, accuracy_after=0.8, promoted=True, model_version="v1"
    )
    usage = Usage("gate-inference", 0.5, 0.5, 0.48, 28.8, 60.0, 0.01)
    store.windows.add_usage(window, [(usage, "inference", "gate")])
    store.windows.add_cost(window, "labelling", camera="gate", device_seconds=2.0, wall_s=3.0)
    store.windows.add_cost(window, "labelling", camera="gate", device_seconds=1.5)
    store.windows.add_cost(window, "planning", wall_s=0.1)
    store.windows.put_camera_window(window, "gate", realised=Accuracy(0.7, 20, 55), losses={"replaced": 3})
    store.windows.put_camera_window(window, "gate", frozen=Accuracy(0.5, 20, 55), frames_labelled=20)

    store = open_store()
    assert store.windows.next_window() == 1
    detail = store.windows.window(window)
    assert (detail.window.policy, detail.window.settings, detail.window.open) == ("relay", {"a_min": 0.4}, True)
    assert [(p.cause, p.objective) for p in detail.plans] == [("labels and profiles are in", 0.6), (DONE.what, 0.7)]
    assert [(p.cause_code, p.cause_camera) for p in detail.plans] == [("prepared", None), (DONE.code, "gate")]
    assert detail.plans[0].problem == problem("first").to_json()
    assert detail.plans[0].plan == plan("first", 0.6).to_json()
    assert detail.plans[0].basis is None
    assert detail.plans[1].basis is not None
    assert PlanBasis.from_json(detail.plans[1].basis) == basis
    assert [p.profile for p in detail.profiles] == [retraining_profile().to_json()]
    (job,) = detail.jobs
    assert (job.state, job.promoted, job.model_version, job.fraction) == ("completed", True, "v1", 1.0)
    assert (job.device_seconds, job.accuracy_before, job.accuracy_after) == (12.0, 0.5, 0.8)
    assert [(u.worker, u.asked, u.granted, u.used) for u in detail.usage] == [("gate-inference", 0.5, 0.5, 0.48)]
    assert [(c.camera, c.kind, c.device_seconds, c.wall_s) for c in detail.costs] == [
        (None, "planning", 0.0, 0.1),
        ("gate", "labelling", 3.5, 3.0),
    ]
    (camera,) = detail.window.cameras
    assert camera.realised is not None
    assert camera.frozen is not None
    assert (camera.realised["value"], camera.frozen["value"], camera.losses) == (0.7, 0.5, {"replaced": 3})
    assert camera.frames_labelled == 20
    assert store.windows.camera_windows("gate") == (camera,)
    assert detail.to_json()["window"]["cameras"][0]["losses"] == {"replaced": 3}


def test_a_restart_goes_on_with_the_open_window_and_its_latest_plan(open_store: Callable[[], Store]) -> None:
    store = open_store()
    assert store.windows.open_window_state() is None
    first = store.windows.open_window(1000.0, 60.0, "relay")
    store.windows.add_plan(first, problem("a"), plan("a"), PlanCause("prepared"))
    second = store.windows.open_window(1060.0, 60.0, "relay")
    store = open_store()
    state = store.windows.open_window_state()
    assert state is not None
    assert (state.window.id, state.plan, state.jobs) == (second, None, ())
    assert store.windows.window(first).window.outcome == "completed"
    store.windows.add_plan(second, problem("b"), plan("b"), PlanCause("prepared"))
    store.windows.add_plan(second, problem("c"), plan("c"), DONE)
    store.windows.start_job("j", second, "gate", "head-e5", 0.5)
    state = open_store().windows.open_window_state()
    assert state is not None
    assert state.plan is not None
    assert (state.plan.cause, state.plan.problem["name"]) == (DONE.what, "c")
    assert [j.id for j in state.jobs] == ["j"]


def test_results_may_come_after_a_window_is_closed(store: Store) -> None:
    window = store.windows.open_window(1000.0, 60.0, "relay")
    store.windows.close_window(window, {"objective": 0.7})
    closed = store.windows.window(window).window
    store.windows.close_window(window, {"realised": 0.6}, outcome="aborted")
    store.windows.put_camera_window(window, "gate", frames_labelled=3)
    again = store.windows.window(window).window
    assert again.details == {"objective": 0.7, "realised": 0.6}
    assert (again.outcome, again.closed_utc_s) == ("completed", closed.closed_utc_s)
    assert store.windows.open_window_state() is None


def test_a_window_cut_short_is_marked_as_such(store: Store) -> None:
    first = store.windows.open_window(1000.0, 60.0, "relay")
    store.windows.open_window(1010.0, 60.0, "relay")
    assert store.windows.window(first).window.outcome == "aborted"


def test_windows_come_in_pages_and_numbers_are_used_once(store: Store) -> None:
    for n in range(5):
        window = store.windows.open_window(1000.0 + 60 * n, 60.0, "relay", number=10 + n)
        store.windows.put_camera_window(window, "gate", frames_labelled=n)
    page = store.windows.newest(2)
    assert [w.id for w in page] == [14, 13]
    assert [w.id for w in store.windows.newest(10, before=13)] == [12, 11, 10]
    assert [w.cameras[0].frames_labelled for w in page] == [4, 3]
    assert store.windows.next_window() == 15
    assert [c.window for c in store.windows.camera_windows("gate", 2, before=14)] == [13, 12]
    with pytest.raises(Conflict, match="window 12 was used before"):
        store.windows.open_window(5000.0, 60.0, "relay", number=12)
    assert store.windows.open_window_state() is not None  # the refused one closed nothing


def test_records_of_a_window_that_is_not_there_are_refused(store: Store) -> None:
    refused: list[Callable[[], object]] = [
        lambda: store.windows.add_plan(7, problem(), plan(), PlanCause("prepared")),
        lambda: store.windows.add_profiles(7, "gate", [retraining_profile()]),
        lambda: store.windows.start_job("j", 7, "gate", "head-e5", 0.5),
        lambda: store.windows.put_camera_window(7, "gate"),
        lambda: store.windows.add_cost(7, "labelling"),
        lambda: store.windows.add_usage(7, []),
        lambda: store.windows.close_window(7),
        lambda: store.windows.window(7),
    ]
    for call in refused:
        with pytest.raises(NotFound, match="window 7 does not exist"):
            call()


@pytest.mark.parametrize("length", [0.0, -1.0, float("nan"), float("inf")])
def test_a_window_without_length_is_refused(store: Store, length: float) -> None:
    with pytest.raises(InvalidValue, match=r"window\.length_s"):
        store.windows.open_window(1000.0, length, "relay")


def test_a_job_that_ended_can_start_again_but_not_twice_at_once(store: Store) -> None:
    window = store.windows.open_window(1000.0, 60.0, "relay")
    store.windows.start_job("j", window, "gate", "head-e5", 0.5)
    with pytest.raises(Conflict, match="job j is running"):
        store.windows.start_job("j", window, "gate", "head-e5", 0.5)
    store.windows.end_job("j", "failed", reason="out of memory")
    store.windows.update_job("j", fraction=0.9)  # a late report of a job that is over
    assert store.windows.jobs()[0].fraction == 0.0
    assert store.windows.start_job("j", window, "gate", "head-e5", 0.7).attempt == 2
    (job,) = store.windows.jobs(camera="gate", window=window, state="running")
    assert (job.attempt, job.share, job.reason, job.ended_utc_s) == (2, 0.7, "", None)
    assert store.windows.jobs(state="failed") == ()
    with pytest.raises(NotFound, match="job k"):
        store.windows.end_job("k", "completed")
    with pytest.raises(InvalidValue, match=r"job\.state"):
        store.windows.end_job("j", "running")


# --- models ---------------------------------------------------------------------------------------------------------


def test_promotion_retires_the_version_before(store: Store) -> None:
    chain(store, "v0", "v1")
    add(store, "v2", parent="v1", window=3, config="head-e5", frames=40, device_seconds=12.5)
    now = store.versions.promote("v2", "gate", "0.8 against 0.7", scores={"after": 0.8})
    assert (now.state, now.decided_by, now.reason) == ("promoted", "gate", "0.8 against 0.7")
    assert now.scores == {"held_out": 0.5, "after": 0.8}
    assert (now.window, now.config, now.frames, now.device_seconds) == (3, "head-e5", 40, 12.5)
    assert {v.id: v.state for v in store.versions.newest("gate")} == {
        "v0": "retired",
        "v1": "retired",
        "v2": "promoted",
    }
    assert store.versions.promoted("gate") == now
    assert store.versions.promote("v2", "gate", "again") == now  # a repeated order changes nothing
    assert [v.id for v in store.versions.lineage("v2")] == ["v2", "v1", "v0"]
    assert [d.action for d in store.versions.decisions(version="v2")] == ["promoted", "candidate"]
    assert store.versions.decisions(version="v1")[0].reason == "replaced by v2"
    assert store.blobs.sidecar(now.blob)["id"] == "v2"


def test_a_rejected_candidate_changes_nothing_in_force(store: Store) -> None:
    chain(store, "v0")
    add(store, "v1", parent="v0")
    assert store.versions.reject("v1", "gate", "0.4 against 0.5").state == "rejected"
    assert store.versions.reject("v1", "gate", "again").reason == "0.4 against 0.5"
    current = store.versions.promoted("gate")
    assert current is not None
    assert current.id == "v0"
    with pytest.raises(Conflict, match="v0 is promoted, only a candidate can be rejected"):
        store.versions.reject("v0", "gate", "no")


def test_roll_back_goes_to_the_nearest_good_ancestor(store: Store) -> None:
    chain(store, "v0", "v1", "v2")
    assert store.versions.roll_back("gate", "watchdog", "live accuracy fell").id == "v1"
    add(store, "v3", parent="v1")
    store.versions.promote("v3", "gate", "better")
    assert store.versions.roll_back("gate", "watchdog", "fell again").id == "v1"
    assert store.versions.roll_back("gate", "ann", "I want it so", to="v2").id == "v2"
    assert {v.id: v.state for v in store.versions.newest("gate")} == {
        "v0": "retired", "v1": "rolled_back", "v2": "promoted", "v3": "rolled_back",
    }  # fmt: skip
    assert store.versions.roll_back("gate", "ann", "further back").id == "v0"  # v1 was rolled back itself
    with pytest.raises(Conflict, match="no earlier model version"):
        store.versions.roll_back("gate", "ann", "further still")
    with pytest.raises(Conflict, match="no earlier model version"):
        store.versions.roll_back("nowhere", "ann", "why not")


def test_roll_back_stays_within_the_camera(store: Store) -> None:
    chain(store, "v0", "v1")
    chain(store, "y0", camera="yard")
    with pytest.raises(Conflict, match="belongs to another camera"):
        store.versions.roll_back("gate", "ann", "wrong", to="y0")
    with pytest.raises(NotFound, match="v9"):
        store.versions.roll_back("gate", "ann", "wrong", to="v9")
    with pytest.raises(Conflict, match="in force already"):
        store.versions.roll_back("gate", "ann", "wrong", to="v1")
    assert {c: v.id for c, v in store.versions.all_promoted().items()} == {"gate": "v1", "yard": "y0"}


def test_a_pinned_model_is_not_replaced(store: Store) -> None:
    chain(store, "v0", "v1")
    add(store, "v2", parent="v1")
    assert store.versions.set_pinned("v1", True, "ann", "for the audit").pinned
    with pytest.raises(Conflict, match="v1 is pinned"):
        store.versions.promote("v2", "gate", "better")
    with pytest.raises(Conflict, match="v1 is pinned"):
        store.versions.roll_back("gate", "watchdog", "fell")
    store.versions.set_pinned("v1", False, "ann")
    assert store.versions.promote("v2", "gate", "better").state == "promoted"
    assert [d.action for d in store.versions.decisions(version="v1")][:3] == ["retired", "unpinned", "pinned"]


def test_a_version_needs_its_blob_its_parent_and_a_new_name(store: Store) -> None:
    with pytest.raises(NotFound, match="model blob"):
        store.versions.add_version(version("v0"))
    with pytest.raises(NotFound, match="parent version v9"):
        add(store, "v1", parent="v9")
    add(store, "v0")
    with pytest.raises(Conflict, match="v0 exists already"):
        add(store, "v0")
    with pytest.raises(Conflict, match="belongs to camera gate"):
        add(store, "y1", "yard", parent="v0")
    with pytest.raises(InvalidValue, match=r"version\.state"):
        add(store, "v2", state="retired")
    with pytest.raises(InvalidValue, match=r"version\.scores"):
        add(store, "v2", scores={"f1": float("nan")})
    assert [v.id for v in store.versions.newest()] == ["v0"]


def test_the_first_model_can_be_in_force_at_once_but_only_one(store: Store) -> None:
    first = add(store, "v0", state="promoted", decided_by="appliance", reason="initial")
    assert store.versions.promoted("gate") == first
    with pytest.raises(Conflict, match="already runs model version v0"):
        add(store, "w0", state="promoted")


def test_a_damaged_blob_is_not_promoted(store: Store) -> None:
    chain(store, "v0")
    bad = add(store, "v1", parent="v0")
    path = store.blobs.path(bad.blob)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(StoreError, match="is damaged"):
        store.versions.promote("v1", "gate", "better")
    path.unlink()
    with pytest.raises(NotFound, match="model blob"):
        store.versions.promote("v1", "gate", "better")
    current = store.versions.promoted("gate")
    assert current is not None
    assert current.id == "v0"
    assert store.check_blobs().checked == 2
    assert "v1" in store.check_blobs().damaged[0]


# --- journal --------------------------------------------------------------------------------------------------------


def test_events_come_back_by_kind_camera_window_and_time(store: Store) -> None:
    ids = [
        store.journal.append("window.opened", window=0, at_utc_s=10.0),
        store.journal.append("camera.lost", camera="gate", window=0, data={"fault": "silent"}, at_utc_s=11.0),
        store.journal.append("camera.lost", camera="yard", window=1, at_utc_s=12.0),
        store.journal.append("window.closed", window=1, at_utc_s=13.0),
    ]
    assert ids == sorted(ids)

    def found(**query: object) -> list[int]:
        return [ids.index(e.id) for e in store.journal.events(**query)]  # type: ignore[arg-type]

    assert found() == [3, 2, 1, 0]
    assert found(newest_first=False) == [0, 1, 2, 3]
    assert found(kind="camera.lost") == [2, 1]
    assert found(kind=["window.opened", "window.closed"]) == [3, 0]
    assert found(camera="gate") == [1]
    assert found(window=0) == [1, 0]
    assert found(since_utc_s=11.0, until_utc_s=13.0) == [2, 1]
    assert found(limit=2) == [3, 2]
    assert found(limit=2, before_id=ids[2]) == [1, 0]
    assert found(limit=2, after_id=ids[0], newest_first=False) == [1, 2]
    assert store.journal.events(camera="gate")[0].data == {"fault": "silent"}
    with pytest.raises(InvalidValue, match="limit"):
        store.journal.events(limit=0)


def test_a_batch_of_events_is_all_or_nothing(store: Store) -> None:
    good, bad = NewEvent(1.0, "a"), NewEvent(1.0, "")
    with pytest.raises(InvalidValue, match=r"event\.kind"):
        store.journal.append_events([good, bad])
    assert store.journal.events() == ()
    assert store.journal.append_events([]) == 0
    last = store.journal.append_events([good, NewEvent(2.0, "b")])
    assert [e.kind for e in store.journal.events()] == ["b", "a"]
    assert store.journal.events()[0].id == last


# --- many writers ---------------------------------------------------------------------------------------------------


def _together(*works: Callable[[], None]) -> list[BaseException]:
    """Run all at once; returns what they raised."""
    gate = threading.Barrier(len(works))
    raised: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        gate.wait()
        try:
            work()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


def test_threads_write_at_once_and_nothing_is_lost(store: Store) -> None:
    window = store.windows.open_window(1000.0, 60.0, "relay")
    chain(store, "v0")
    for name in ("a", "b", "c", "d"):
        add(store, name, parent="v0")

    def work(name: str) -> Callable[[], None]:
        def run() -> None:
            for n in range(6):
                store.journal.append("note", data={"of": name, "n": n})
                store.settings.put_settings("shared", {"by": name, "n": n}, name)
                store.windows.put_camera_window(window, name, frames_labelled=n)
                store.windows.add_cost(window, "inference", camera=name, device_seconds=1.0)
            store.versions.promote(name, name, "mine is better")

        return run

    assert _together(*(work(name) for name in "abcd")) == []
    assert len(store.journal.events(limit=100)) == 24
    record = store.settings.settings_record("shared")
    assert record is not None
    assert record.revision == 24
    assert [a.revision for a in store.settings.audit("settings/shared")] == list(range(24, 0, -1))
    detail = store.windows.window(window)
    assert [(c.camera, c.frames_labelled) for c in detail.window.cameras] == [(n, 5) for n in "abcd"]
    assert [c.device_seconds for c in detail.costs] == [6.0] * 4
    states = [v.state for v in store.versions.newest("gate")]
    assert states.count("promoted") == 1
    assert states.count("retired") == 4


def test_of_two_changes_for_the_same_revision_one_wins(store: Store) -> None:
    for n in range(5):
        works = [
            lambda by=by, n=n: store.settings.put_settings("s", {"by": by}, by, expected_revision=n)  # type: ignore[misc]
            for by in ("ann", "bob")
        ]
        (refused,) = _together(*works)
        assert isinstance(refused, Conflict)
    assert [a.revision for a in store.settings.audit("settings/s")] == [5, 4, 3, 2, 1]


def test_two_boundaries_at_once_open_two_windows_one_after_the_other(store: Store) -> None:
    assert _together(*[lambda: store.windows.open_window(1000.0, 60.0, "relay") and None] * 3) == []
    assert [(w.id, w.open) for w in store.windows.newest()] == [(2, True), (1, False), (0, False)]


# --- answers of people ----------------------------------------------------------------------------------------------


def test_answers_of_people_are_only_ever_added(open_store: Callable[[], Store]) -> None:
    store = open_store()
    box = Question(FrameKey(3, 7), "box", 0)
    records = [
        AnswerRecord("gate", Answer(box, "yes", "ann", 1000.0), (), "car", None, (0.25, 0.5, 0.375, 0.75), 640, 360),
        AnswerRecord("gate", Answer(box, "no", "bob", 1001.0), (), "car", None, (0.25, 0.5, 0.375, 0.75), 640, 360),
        AnswerRecord(
            "gate",
            Answer(Question(FrameKey(2**40, 9), "missed"), "counted", "ann", 1002.0, 1, (Marked((0, 0, 0.5, 1), 0),)),
            ("bus",),
        ),
    ]
    assert store.answers.add_answers([]) == ()
    ids = store.answers.add_answers(records)
    store = open_store()
    kept = store.answers.page("gate")
    assert tuple(k.id for k in kept) == ids == tuple(sorted(set(ids)))
    assert [k.answer for k in kept] == [r.answer for r in records]
    assert (kept[0].teacher_box, kept[0].student_box) == ((0.25, 0.5, 0.375, 0.75), None)
    assert kept[2].to_json()["marked"] == [{"box": [0.0, 0.0, 0.5, 1.0], "class": "bus"}]
    assert [k.id for k in store.answers.page("gate", window=3)] == list(ids[:2])
    assert store.answers.last_answers() == {"gate": ids[2]}
    with pytest.raises(InvalidValue, match="limit"):
        store.answers.page(limit=0)
