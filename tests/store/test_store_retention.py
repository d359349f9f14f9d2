"""Retention: bounded in time and bytes, and it never takes what a rollback or a comparison needs."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
import sqlalchemy as sa
from examples_kit import tried
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_helpers import JumpClock, add, chain, check_invariants, version

from edge.core.errors import Conflict, InvalidValue, NotFound
from edge.store.retention import DAY_S, GRACE_S, RetentionLimits
from edge.store.store import Store
from edge.store.values import CameraWindow

PLENTY = RetentionLimits(days=10_000, max_bytes=10**15)


def put_old(store: Store, name: str, parent: str | None, days_old: float, size: int = 10, camera: str = "gate") -> None:
    made = store.add_model(
        version(name, camera, parent, created_utc_s=store._clock.utc() - days_old * DAY_S),
        name.encode().ljust(size, b"."),
    )
    for path in (store.blobs.path(made.blob), store.blobs.path(made.blob).with_suffix(".json")):
        os.utime(path, (1000, 1000))


def kept(store: Store) -> set[str]:
    return {v.id for v in store.versions.kept_versions()}


def test_old_models_go_except_those_that_are_needed(store: Store) -> None:
    for n in range(6):
        put_old(store, f"v{n}", f"v{n - 1}" if n else None, 100 - n)
        store.versions.promote(f"v{n}", "gate", "better")
    put_old(store, "bad", "v4", 50)
    store.versions.reject("bad", "gate", "worse")
    put_old(store, "making", "v5", 0.1)
    store.versions.set_pinned("v3", True, "ann")
    report = store.retention.retain(RetentionLimits(days=30))
    # v0 the first, v2 the parent of pinned v3, v4 the parent of v5, v5 in force
    assert kept(store) == {"v0", "v2", "v3", "v4", "v5", "making"}
    assert (report.versions, report.blobs, report.failures) == (2, 2, ())
    assert report.bytes_freed == 20
    assert store.blobs.hashes() == {v.blob for v in store.versions.kept_versions()}
    assert [v.id for v in store.versions.lineage("v5")] == ["v5", "v4", "v3", "v2", "v1", "v0"]  # records stay
    assert not store.versions.version("v1").blob_kept
    with pytest.raises(Conflict, match="v1 was deleted by retention"):
        store.versions.promote("v1", "ann", "I liked it")
    with pytest.raises(Conflict, match="v1 was deleted by retention"):
        store.versions.set_pinned("v1", True, "ann")
    assert {v.id for v in store.versions.newest()} == {
        "v0",
        "v1",
        "v2",
        "v3",
        "v4",
        "v5",
        "making",
    }  # no child: no record
    check_invariants(store)


def test_where_a_rollback_would_go_is_kept_even_if_it_is_not_the_parent(store: Store) -> None:
    put_old(store, "v0", None, 100)
    for n in range(1, 5):
        put_old(store, f"v{n}", f"v{n - 1}", 100 - n)
    store.versions.promote("v1", "gate", "better")
    for n in (2, 3):
        store.versions.reject(f"v{n}", "gate", "worse")
    store.versions.promote("v4", "gate", "better")  # its parent v3 never was in force
    store.retention.retain(RetentionLimits(days=30))
    assert kept(store) == {"v0", "v1", "v3", "v4"}
    assert store.versions.roll_back("gate", "ann", "fell").id == "v1"


def test_beyond_the_bytes_the_oldest_models_go_first(store: Store) -> None:
    for n in range(6):
        put_old(store, f"v{n}", f"v{n - 1}" if n else None, 6 - n, size=100)
        store.versions.promote(f"v{n}", "gate", "better")
    report = store.retention.retain(RetentionLimits(days=1000, max_bytes=450))
    assert kept(store) == {"v0", "v3", "v4", "v5"}
    assert (report.bytes_kept, report.bytes_over) == (400, 0)
    report = store.retention.retain(RetentionLimits(days=1000, max_bytes=10))
    assert kept(store) == {"v0", "v4", "v5"}
    assert (report.bytes_kept, report.bytes_over) == (300, 290)  # what may not go is said


def test_a_blob_that_two_versions_share_stays_for_the_other(store: Store) -> None:
    put_old(store, "v0", None, 100)
    store.versions.promote("v0", "gate", "first")
    put_old(store, "v1", "v0", 50)
    same = store.versions.version("v1")
    store.versions.reject("v1", "gate", "worse")
    again = store.versions.add_version(version("v2", parent="v0", blob=same.blob))
    os.utime(store.blobs.path(same.blob), (1000, 1000))
    store.retention.retain(RetentionLimits(days=30))
    assert kept(store) == {"v0", "v2"}
    store.blobs.verify(again.blob)


def test_blobs_without_a_record_go_once_they_are_not_young(store: Store, clock: JumpClock) -> None:
    orphan = store.blobs.put(b"orphan", {})
    assert store.retention.retain(PLENTY).blobs == 0
    clock.advance(GRACE_S + 5)
    assert store.retention.retain(PLENTY).blobs == 1
    assert not store.blobs.has(orphan)


def test_the_blobs_of_a_deleted_camera_go(store: Store, clock: JumpClock) -> None:
    store.settings.put_camera("gate", {}, "ann")
    chain(store, "v0", "v1")
    chain(store, "y0", camera="yard")
    store.settings.delete_camera("gate", "ann")
    clock.advance(GRACE_S + 5)
    assert store.retention.retain(PLENTY).blobs == 2
    assert {v.blob for v in store.versions.kept_versions()} == store.blobs.hashes()


def test_events_go_by_age_by_number_and_by_bytes(store: Store, clock: JumpClock) -> None:
    now = clock.utc()
    for n in range(10):
        store.journal.append("note", data={"n": n}, at_utc_s=now - (10 - n) * DAY_S + 60)

    def left() -> list[int]:
        return [e.data["n"] for e in store.journal.events(newest_first=False)]

    assert store.retention.retain(RetentionLimits(days=7)).events == 3
    assert left() == [3, 4, 5, 6, 7, 8, 9]
    assert store.retention.retain(RetentionLimits(days=100, max_events=4)).events == 3
    assert left() == [6, 7, 8, 9]
    one = 120 + len('{"n": 0}') + len("note")
    assert store.retention.retain(RetentionLimits(days=100, max_event_bytes=2 * one)).events == 2
    assert left() == [8, 9]
    late = store.journal.append("note", data={"n": 10}, at_utc_s=now - 50 * DAY_S)  # a clock that was wrong
    assert store.retention.retain(RetentionLimits(days=7)).events == 1
    assert left() == [8, 9]
    assert store.journal.append("note") > late  # ids are never used again
    assert store.retention.retain(RetentionLimits(days=100, max_events=0)).events == 3


def test_windows_and_their_data_go_together(store: Store, clock: JumpClock, data_dir: Path) -> None:
    now = clock.utc()
    for n, days in enumerate((50, 40, 20, 1)):
        window = store.windows.open_window(now - days * DAY_S, 60.0, "relay")
        folder = data_dir / f"window-{n}"
        folder.mkdir()
        store.windows.put_camera_window(window, "gate", manifest=str(folder / "manifest.json"), picture_bytes=1000)
        store.windows.add_cost(window, "labelling", device_seconds=1.0)

    def drop(data: CameraWindow) -> None:
        assert data.manifest is not None
        if data.window == 0 and broken:
            raise PermissionError(13, "Permission denied")
        shutil.rmtree(Path(data.manifest).parent)

    broken = True
    assert store.retention.retain(RetentionLimits(days=30)).windows == 0  # no call to delete the data: nothing goes
    report = store.retention.retain(RetentionLimits(days=30), drop)
    assert (report.picture_sets, report.windows, report.bytes_kept) == (1, 1, 3000)
    assert "data of window 0, camera gate: [Errno 13] Permission denied" in report.failures[0]
    broken = False
    report = store.retention.retain(RetentionLimits(days=30), drop)
    assert (report.picture_sets, report.windows, report.bytes_freed, report.failures) == (1, 1, 1000, ())
    assert [w.id for w in store.windows.newest()] == [3, 2]
    report = store.retention.retain(RetentionLimits(days=30, max_bytes=500), drop)
    assert (report.picture_sets, report.windows) == (1, 0)
    assert store.windows.window(2).window.cameras[0].pictures_dropped  # its numbers stay
    assert report.bytes_over == 500  # the open window's data
    assert store.retention.retain(RetentionLimits(days=0.001), drop).windows == 1
    assert [w.id for w in store.windows.newest()] == [3]
    assert store.windows.next_window() == 4


def test_window_data_goes_before_models(store: Store, clock: JumpClock) -> None:
    put_old(store, "v0", None, 9, size=100)
    put_old(store, "v1", "v0", 8, size=100)
    put_old(store, "v2", "v1", 7, size=100)
    dropped = []
    for n in range(2):
        window = store.windows.open_window(clock.utc() - (5 - n) * DAY_S, 60.0, "relay")
        store.windows.put_camera_window(window, "gate", manifest="somewhere", picture_bytes=100)
        store.windows.close_window(window)
    store.retention.retain(RetentionLimits(days=100, max_bytes=400), dropped.append)
    assert ([d.window for d in dropped], kept(store)) == ([0], {"v0", "v1", "v2"})
    store.retention.retain(RetentionLimits(days=100, max_bytes=200), dropped.append)
    assert ([d.window for d in dropped], kept(store)) == ([0, 1], {"v0", "v2"})


@pytest.mark.parametrize("field", ["days", "max_bytes", "max_events", "max_event_bytes"])
def test_limits_are_checked(field: str) -> None:
    with pytest.raises(InvalidValue, match=f"retention.{field}"):
        RetentionLimits(**{field: -1})  # type: ignore[arg-type]


ACTS = st.tuples(
    st.sampled_from(["add", "add", "promote", "reject", "roll back", "pin", "unpin", "retain", "days", "restart"]),
    st.integers(0, 30),
)


@settings(max_examples=tried(8, 20), deadline=None, suppress_health_check=list(HealthCheck))
@given(acts=st.lists(ACTS, max_size=25))
def test_whatever_is_ordered_the_models_in_force_are_whole(sqlite_template: Path, acts: list[tuple[str, int]]) -> None:
    """Any orders, retention and restarts in between: one whole model in force per camera, and the first one stays."""
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)  # what is decided is the subject here, not the disk
        shutil.copy(sqlite_template, Path(name) / "magpie.db")
        clock, made = JumpClock(), ["v0"]
        with Store(None, Path(name), clock=clock) as store:
            sa.event.listen(
                store.database.engine, "connect", lambda c, _: c.execute("PRAGMA synchronous = OFF").close()
            )
            store.database.close()
            add(store, "v0", state="promoted")
            for act, number in acts:
                chosen = made[number % len(made)]
                try:
                    if act == "add":
                        new = f"v{len(made)}"
                        store.add_model(version(new, parent=chosen, created_utc_s=clock.utc()), new.encode())
                        made.append(new)
                    elif act == "promote":
                        store.versions.promote(chosen, "x", "y")
                    elif act == "reject":
                        store.versions.reject(chosen, "x", "y")
                    elif act == "roll back":
                        store.versions.roll_back("gate", "x", "y")
                    elif act in ("pin", "unpin"):
                        store.versions.set_pinned(chosen, act == "pin", "x")
                    elif act == "retain":
                        store.retention.retain(RetentionLimits(days=2, max_bytes=8))
                    elif act == "restart":
                        store.recover()
                    else:
                        clock.advance(DAY_S)
                except (Conflict, NotFound):
                    pass  # refused, or a version that retention has forgotten: a right answer too
                check_invariants(store)
            assert store.versions.promoted("gate") is not None
            store.blobs.verify(store.versions.version("v0").blob)
            for one in store.versions.newest():
                assert not one.pinned or one.blob_kept
