"""Real appliances of one fleet: a box is killed with -9, and its camera is answered by another one with its student."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from safetensors.numpy import load_file

from benchmarks import waiting
from benchmarks.fleet_boxes import RealBox, fleet_of
from edge.cli import main

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(480)]
#: Each look costs a box an answer, while the machine is busy with its start.
until = partial(waiting.until, pause_s=0.4)


def agents_of(box: RealBox) -> list[psutil.Process]:
    """The processes of a box's agent."""
    return [p for p in psutil.process_iter(["cmdline"]) if {"agent", box.site} <= set(p.info["cmdline"] or ())]


def wall_of(box: RealBox, outcome: str) -> list[dict[str, Any]] | None:
    """The cameras of all boxes as a box shows them, once it shows this of b2."""
    wall = box.ask("/fleet/wall") or {"boxes": ()}
    outcomes = {b["box"]: b["outcome"] for b in wall["boxes"]}
    return wall["cameras"] if outcomes.get("b2") == outcome else None


def changes_of(box: RealBox) -> set[tuple[str, str, str]]:
    """Box, author and change of each row of the audit of all boxes."""
    rows = (box.ask("/fleet/audit") or {"rows": ()})["rows"]
    return {(r["box"], r["change"]["by"], r["change"]["action"]) for r in rows}


def test_a_killed_boxs_camera_is_answered_elsewhere(
    cameras: tuple[list[dict[str, Any]], int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    described, port = cameras
    rtsp = f"rtsp://127.0.0.1:{port}"
    first = RealBox(tmp_path, "b1", "127.0.0.11", (), rtsp)
    second = RealBox(tmp_path, "b2", "127.0.0.12", described[:1], rtsp, {"task": "detection"})
    camera = described[0]["name"]
    with fleet_of([first, second]):
        until(lambda: second.answers().get(camera), f"the camera is answered\n{second.log()[-3000:]}")
        until(lambda: first.owners() == {camera: "b2"}, "the fleet has taken it up")
        (version,) = second.ask(f"/cameras/{camera}/models")
        copy = tmp_path / "b1" / "fleet" / "students" / f"{version['blob']}.safetensors"
        until(copy.is_file, "its student is copied")
        (shown,) = until(lambda: wall_of(first, "answered"), "both boxes are on one wall")
        assert (shown["camera"], shown["box"], shown["state"]) == (camera, "b2", "live")
        assert main(["fleet", "undrain", second.site, "b1"]) == 0
        given = {("b1", "magpie fleet on b2", "undrained"), ("b2", "magpie fleet", "undrained")}
        until(lambda: given <= changes_of(first), "the order is in both audits")
        second.kill()
        until(lambda: wall_of(first, "silent") is not None, "the wall shows that b2 is silent")
        until(lambda: first.answers().get(camera), f"it is answered elsewhere\n{first.log()[-3000:]}")
        until(lambda: first.owners() == {camera: "b1"}, "the fleet knows")
        (there,) = first.ask(f"/cameras/{camera}/models")
        weights = load_file(copy.parents[2] / "models" / f"{there['blob']}.safetensors")
        before = load_file(tmp_path / "b2" / "models" / f"{version['blob']}.safetensors")
        assert weights.keys() == before.keys()
        assert all((weights[name] == before[name]).all() for name in weights), "with the same student"
        assert main(["fleet", "status", first.site]) == 0
        shown = capsys.readouterr().out
        assert "head: b1" in shown
        assert "b2                   lost" in shown
        (agent,) = agents_of(first)
        agent.kill()
        until(lambda: agents_of(first) not in ([], [agent]), "the agent is started again")
        written = first.log() + second.log()
        assert os.environ["FLEET_TOKEN_B1"] not in written
