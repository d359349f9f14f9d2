"""A restart after the last run was killed at any instant."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from multiprocessing.connection import Connection
from pathlib import Path

from examples_kit import tried
from store_helpers import add, chain, check_invariants, plan, problem, version

from edge.core.plan_causes import PlanCause
from edge.store.store import Store


def test_a_clean_store_recovers_to_itself(store: Store) -> None:
    chain(store, "v0", "v1")
    found = store.recover()
    assert (found.open, found.interrupted_jobs, found.rejected_candidates) == (None, (), ())
    assert (found.rolled_back, found.lost, found.temporaries_removed) == ((), (), 0)
    assert {c: v.id for c, v in found.promoted.items()} == {"gate": "v1"}
    assert found.to_json()["promoted"]["gate"]["id"] == "v1"


def test_what_was_running_is_ended_and_the_window_goes_on(store: Store, data_dir: Path) -> None:
    chain(store, "v0")
    window = store.windows.open_window(1000.0, 60.0, "relay")
    store.windows.add_plan(window, problem(), plan(), PlanCause("prepared"))
    for name in ("done", "running"):
        store.windows.start_job(name, window, "gate", "head-e5", 0.5)
    store.windows.end_job("done", "completed")
    add(store, "v1", parent="v0")
    (data_dir / "models" / ".77-half.tmp").write_bytes(b"half")
    found = store.recover()
    assert found.open is not None
    assert found.open.plan is not None
    assert (found.open.window.id, found.open.plan.plan) == (window, plan().to_json())
    assert [(j.id, j.state) for j in found.open.jobs] == [("done", "completed"), ("running", "interrupted")]
    assert (found.interrupted_jobs, found.rejected_candidates) == (("running",), ("v1",))
    assert found.temporaries_removed == 1
    assert store.versions.version("v1").reason == "interrupted by a restart"
    assert store.versions.decisions(version="v1")[0].decided_by == "recovery"
    assert store.windows.start_job("running", window, "gate", "head-e5", 0.5).attempt == 2
    check_invariants(store)


def test_a_damaged_model_in_force_gives_way_to_the_nearest_whole_one(store: Store) -> None:
    chain(store, "v0", "v1", "v2")
    chain(store, "y0", camera="yard")
    store.versions.set_pinned("v2", True, "ann")  # a pin does not make it loadable
    store.blobs.path(store.versions.version("v2").blob).write_bytes(b"rubbish")
    store.blobs.path(store.versions.version("v1").blob).unlink()
    store.blobs.path(store.versions.version("y0").blob).write_bytes(b"")
    found = store.recover()
    assert {c: v.id for c, v in found.promoted.items()} == {"gate": "v0"}
    assert (found.rolled_back, found.lost) == (("v2",), ("yard",))
    again = store.versions.version("v2")
    assert (again.state, again.blob_kept, again.pinned) == ("rolled_back", False, False)
    assert "v2 is damaged or missing" in store.versions.version("v0").reason
    assert store.recover().rolled_back == ()


def _work(folder: str, number: int, said: Connection) -> None:
    """An appliance's life in short: windows, plans, models put in force; each promotion is reported once it is done."""
    with Store(None, Path(folder)) as store:
        store.recover()
        said.send("started")
        current = store.versions.promoted("gate")
        for n in range(10_000):
            name = f"run{number}-v{n}"
            window = store.windows.open_window(time.time(), 60.0, "relay")
            store.windows.add_plan(window, problem(name), plan(name), PlanCause("prepared"))
            store.windows.start_job(name, window, "gate", "head-e5", 0.5)
            parent = None if current is None else current.id
            store.add_model(version(name, parent=parent), os.urandom(200_000))
            current = store.versions.promote(name, "gate", "better")
            store.windows.end_job(name, "completed", promoted=True, model_version=name)
            said.send(name)


def test_killed_at_any_instant_nothing_promised_is_lost(tmp_path: Path, sqlite_template: Path) -> None:
    (tmp_path / "magpie.db").write_bytes(sqlite_template.read_bytes())
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["edge.store.store", "store_helpers"])
    moments = random.Random(7)
    promised = 0
    for number in range(tried(8, 10)):
        here, there = server.Pipe(duplex=False)
        child = server.Process(target=_work, args=(str(tmp_path), number, there))
        child.start()
        there.close()
        assert here.poll(60)
        assert here.recv() == "started"
        last = None
        # Wait for some promotions, and then for a moment within the next.
        for _ in range(moments.randrange(3)):
            assert here.poll(60)
            last = here.recv()
        here.poll(moments.random() * 0.03)
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        try:
            while here.poll(0):
                last = here.recv()
        except EOFError:
            pass  # all that it said was read
        here.close()
        with Store(None, tmp_path) as store:
            check_invariants(store)
            if last is not None:
                promised += 1
                current = store.versions.promoted("gate")
                assert current is not None
                assert last in {v.id for v in store.versions.lineage(current.id)}  # it, or what came after it
            found = store.recover()
            assert (found.rolled_back, found.lost) == ((), ())
            if found.open is not None and found.open.plan is not None:
                assert found.open.plan.window == found.open.window.id
                assert found.open.plan.problem["name"].startswith("run")
            assert not list((tmp_path / "models").glob(".*"))
            assert all(j.state != "running" for j in store.windows.jobs())
            assert store.check_blobs().damaged == ()
            check_invariants(store)
    assert promised >= 3  # or the test saw nothing
