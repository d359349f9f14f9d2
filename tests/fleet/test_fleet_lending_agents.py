"""Retrainings carried between the agents of two boxes over real TLS; the appliances beside them are their files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fleet_agents_kit import FleetOfAgents, until

from edge.core.errors import InvalidValue, MagpieError, NotFound
from edge.core.fleet_links import FleetMember, LentAnswer, LentAsk
from edge.core.lending import MOST_OPEN, LendingOffer, LentLabelling, LentState, LentWork
from edge.fleet.links import Links
from edge.runtime.lending_folder import WorkFolders, WorkInput

LENDING = {"lend": True, "borrow": True}
WHOLE = (0.0, 0.0, 1.0, 1.0)
CANDIDATE = b"a retrained student"


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def work_of(folder: Path, job: str = "w2-north-p1", share: float = 0.4) -> tuple[LentWork, WorkInput]:
    """A retraining of some files of the crowded box."""
    contents = [b"student in force", b"picture one", b"picture two"]
    paths = {}
    for content in contents:
        path = folder / sha(content)
        path.write_bytes(content)
        paths[sha(content)] = str(path)
    sizes = {sha(c): len(c) for c in contents}
    work = LentWork(job, "north", share, {"train": []}, sha(contents[0]), "", {}, {}, WHOLE, 1, sizes)
    return work, WorkInput("idle", paths)


async def two(fleet: FleetOfAgents) -> tuple[WorkFolders, WorkFolders]:
    """A crowded box (its asked retrainings) beside one that lends (what it does for others)."""
    await fleet.found("crowded", lending=LENDING)
    await fleet.join("idle", "crowded", lending=LENDING)
    fleet.lending("idle").write_offer(LendingOffer("idle", 0.5, "cpu", 2.0))
    return fleet.lending("crowded").asked, fleet.lending("idle").lent


def in_phase(folders: WorkFolders, name: str, phase: str) -> Callable[[], Any]:
    def look() -> LentState | None:
        state = folders.state(name)
        return state if state is not None and state.phase == phase else None

    return look


async def test_work_goes_there_and_its_candidate_comes_back(tmp_path: Path) -> None:
    async with FleetOfAgents(tmp_path) as fleet:
        asked, lent = await two(fleet)
        await until(lambda: [o.box for o in fleet.lending("crowded").offers()] == ["idle"], "the offer is heard")
        work, given = work_of(tmp_path)
        asked.begin(work, given)
        name = f"crowded.{work.id}"
        await until(lambda: lent.marked(name, "ready"), "all its files are there")
        assert {d: lent.blob(name, d).read_bytes() for d in work.blobs} == {
            d: Path(p).read_bytes() for d, p in given.paths.items()
        }
        lent.write_state(name, LentState("running", fraction=0.5, cpu_s=3.0))
        assert (await until(in_phase(asked, work.id, "running"), "the lender reports its progress")).fraction == 0.5
        lent.candidate(name).write_bytes(CANDIDATE)
        lent.write_state(
            name, LentState("done", fraction=1.0, digest=sha(CANDIDATE), size=len(CANDIDATE), train_frames=7)
        )
        state = await until(in_phase(asked, work.id, "done"), "it is done")
        assert state.train_frames == 7
        assert asked.candidate(work.id).read_bytes() == CANDIDATE
        asked.mark(work.id, "cancel")
        await until(lambda: lent.marked(name, "cancel"), "the lender hears that it is over")
        await until(lambda: asked.ids() == [], "nothing of it stays")


async def test_what_is_not_offered_is_refused(tmp_path: Path) -> None:
    async with FleetOfAgents(tmp_path) as fleet:
        asked, lent = await two(fleet)
        work, given = work_of(tmp_path, share=0.6)
        asked.begin(work, given)
        state = await until(in_phase(asked, work.id, "failed"), "more than was offered")
        assert (state.fault, lent.ids()) == ("refused", [])
        for number in range(MOST_OPEN):
            more, given = work_of(tmp_path, f"w2-{number}-p1")
            asked.begin(more, given)
        await until(lambda: len(lent.ids()) == MOST_OPEN, "so many are taken, and wait for each other")
        last, given = work_of(tmp_path, "w2-z-p1")
        asked.begin(last, given)
        assert (await until(in_phase(asked, last.id, "failed"), "no more")).fault == "refused"


async def test_labels_are_made_by_the_same_golden_model_only(tmp_path: Path) -> None:
    async with FleetOfAgents(tmp_path) as fleet:
        asked, lent = await two(fleet)
        fleet.lending("idle").write_offer(LendingOffer("idle", 0.5, "cpu", 2.0, teacher="a" * 64))
        for number, teacher in enumerate("ab"):
            work, given = work_of(tmp_path, f"labels-{number}-north")
            labelling = LentLabelling(("car",), {"car": ("car", "van")}, (sha(b"picture one"),), teacher * 64, 30.0)
            asked.begin(replace(work, parent="", data={}, labelling=labelling), given)
        state = await until(in_phase(asked, "labels-1-north", "failed"), "that of another one is refused")
        assert state.fault == "refused"
        await until(lambda: lent.marked("crowded.labels-0-north", "ready"), "the other one's pictures are there")
        taken = lent.work("crowded.labels-0-north")
        assert taken is not None
        assert taken.labelling is not None
        assert taken.labelling.class_map == {"car": ("car", "van")}


async def test_another_file_than_was_announced_is_damaged(tmp_path: Path) -> None:
    async with FleetOfAgents(tmp_path) as fleet:
        asked, lent = await two(fleet)
        work, given = work_of(tmp_path)
        asked.begin(work, given)
        name = f"crowded.{work.id}"
        await until(lambda: lent.marked(name, "ready"), "its files are there")
        lent.candidate(name).write_bytes(CANDIDATE + b" and more")
        lent.write_state(name, LentState("done", digest=sha(CANDIDATE), size=len(CANDIDATE)))
        assert (await until(in_phase(asked, work.id, "failed"), "it is refused")).fault == "damaged"
        assert not asked.candidate(work.id).exists()


async def test_a_picture_that_changed_meanwhile_stops_it(tmp_path: Path) -> None:
    async with FleetOfAgents(tmp_path) as fleet:
        asked, _ = await two(fleet)
        work, given = work_of(tmp_path)
        Path(given.paths[sha(b"picture two")]).write_bytes(b"picture 222")
        asked.begin(work, given)
        state = await until(in_phase(asked, work.id, "failed"), "the borrower hears of it")
        assert "its files did not come" in state.why


async def test_files_go_to_the_lender_alone(tmp_path: Path) -> None:
    async with FleetOfAgents(tmp_path) as fleet:
        asked, _ = await two(fleet)
        await fleet.join("third", "crowded")
        work, given = work_of(tmp_path)
        asked.begin(work, given)
        await until(in_phase(asked, work.id, "fetching"), "it is taken")
        crowded = FleetMember("crowded", fleet.address("crowded"))
        idle = FleetMember("idle", fleet.address("idle"))
        digest = next(iter(work.blobs))
        async with Links(fleet.folder("idle").path) as links:
            assert await links.fetch(crowded, f"/lending/files/{work.id}/{digest}")
            with pytest.raises(NotFound):
                await links.fetch(crowded, f"/lending/files/{work.id}/{'0' * 64}")
            with pytest.raises(MagpieError):
                await links.fetch(crowded, f"/lending/files/..%2f..%2fbox.key/{digest}")
        async with Links(fleet.folder("third").path) as links:
            with pytest.raises(NotFound):
                await links.fetch(crowded, f"/lending/files/{work.id}/{digest}")
            with pytest.raises(NotFound):
                await links.fetch(idle, f"/lending/candidates/{work.id}")
            with pytest.raises(MagpieError, match="lends nothing"):
                await links.ask(crowded, "/lending/work", LentAsk(work), LentAnswer)


def test_a_works_values_are_checked(tmp_path: Path) -> None:
    work, _ = work_of(tmp_path)
    with pytest.raises(InvalidValue):
        LentWork("a/b", "north", 0.4, {}, work.parent, "", {}, {}, WHOLE, 1, work.blobs)
    with pytest.raises(InvalidValue, match="one of blobs"):
        LentWork("a", "north", 0.4, {}, "f" * 64, "", {}, {}, WHOLE, 1, work.blobs)
