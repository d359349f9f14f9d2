"""Groups over boxes as the appliance tells them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from edge.appliance.box_groups import GroupsOverBoxes
from edge.core.box_groups import BoxGroup, BoxGroupCounts, CameraOfBox, HeardBox, HeardBoxes, SharedCamera
from edge.core.camera_look import CameraLook
from edge.settings import SiteSettings, parse

LOOK = CameraLook("tiny", 4, (1.0,), (1.0,), -2.0, 0.4, 2.0, (0.5, 0.6), 0.4, 1.78)
YARD = SharedCamera("b2", "yard", "a" * 64, LOOK, 3, "f" * 64, 8, 1000)
GATE = replace(YARD, box="b3", camera="gate")


def over_boxes(tmp_path: Path, groups: tuple[BoxGroup, ...], **fleet: Any) -> GroupsOverBoxes:
    """Of box b1, which has heard b2 and b3; the pictures of b2's yard are here."""
    known = SimpleNamespace(
        groups=groups, guests={"b2/yard": None},
        heard=HeardBoxes((HeardBox("b2", "shares", (YARD,)), HeardBox("b3", "silent")), {"unreachable": 2, "late": 1}),
    )  # fmt: skip
    counts = BoxGroupCounts(trained=4, taken=2, refused=1, failures={"late": 1})
    section = {"fleet": {"name": "b1", "token": "env:FLEET_TOKEN"} | fleet}
    site = parse(SiteSettings, {"data_dir": str(tmp_path)} | section)
    runtime: Any = SimpleNamespace(students=SimpleNamespace(box_groups=SimpleNamespace(known=known, counts=counts)))
    return GroupsOverBoxes(site, runtime)


def test_the_groups_of_this_box_are_reported_with_who_trains_and_whose_pictures_are_here(tmp_path: Path) -> None:
    own = BoxGroup("b1", (CameraOfBox("b1", "north"),), (YARD, GATE))
    others = BoxGroup("b2", (CameraOfBox("b2", "shed"),), (replace(YARD, box="b3", camera="hall"),))
    theirs = BoxGroup("b3", (CameraOfBox("b3", "lane"),), (replace(YARD, box="b1", camera="south"),))
    told = over_boxes(tmp_path, (own, others, theirs), share_pictures=True).told()
    rows = [(c.group, c.trainer, c.box, c.camera, c.here) for c in told.cameras]
    assert rows == [
        (0, "b1", "b1", "north", True), (0, "b1", "b2", "yard", True), (0, "b1", "b3", "gate", False),
        (1, "b3", "b3", "lane", False), (1, "b3", "b1", "south", True),
    ], "and none that this box is not in"  # fmt: skip
    assert [(b.box, b.shared) for b in told.boxes] == [("b2", "shares"), ("b3", "silent")]
    assert (told.trained, told.taken, told.refused) == (4, 2, 1)
    assert told.failures == {"unreachable": 2, "late": 2}, "of the agent and of the appliance"


async def test_a_box_that_shares_nothing_keeps_no_pictures_of_others(tmp_path: Path) -> None:
    left = tmp_path / "fleet" / "groups" / "guests" / "x"
    left.parent.mkdir(parents=True)
    left.touch()
    one = over_boxes(tmp_path, ())
    await one.run()
    assert not left.exists()
    assert not one.told().share
