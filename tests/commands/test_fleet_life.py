"""`magpie fleet start | invite | join | status | ...` before there is an agent, and how a status is shown."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from edge.cli import main
from edge.commands.fleet_jobs import jobs_in_words
from edge.commands.fleet_life import in_words
from edge.core.fleet_jobs import DoneTask, EngineReport, FleetJobReport, JobsReport, RaisedTask, TenantReport
from edge.core.fleet_links import (
    CameraEpoch,
    CameraRefusal,
    FleetAgreement,
    FleetCamera,
    FleetMember,
    FleetStatus,
)
from edge.core.fleet_reasons import FleetReason
from edge.fleet.folder import FleetFolder

ONE = CameraEpoch(1, 1)


@pytest.fixture
def site(tmp_path: Path) -> Callable[[str], str]:
    """Makes the site file of a box."""

    def make(name: str) -> str:
        path = tmp_path / f"{name}.yaml"
        fleet = {"name": name, "token": "env:FLEET_TOKEN", "host": "127.0.0.1", "port": 1}
        path.write_text(yaml.safe_dump({"data_dir": str(tmp_path / name), "fleet": fleet}))
        return str(path)

    return make


def test_a_box_founds_a_fleet_once_and_makes_codes(
    site: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = site("b1")
    assert main(["fleet", "start", given]) == 0
    first = capsys.readouterr().out.splitlines()[-1]
    assert main(["fleet", "invite", given, "--hours", "1"]) == 0
    second = capsys.readouterr().out.splitlines()[-1]
    assert first != second
    assert first.partition(".")[0] == second.partition(".")[0], "both are of one authority"
    assert main(["fleet", "start", given]) == 1
    assert "in a fleet already" in capsys.readouterr().err
    FleetFolder(tmp_path / "b1").write_status(status_of(head="b2"))
    assert main(["fleet", "status", given]) == 1, "an old status is of no agent that runs"
    assert "magpie run starts it" in capsys.readouterr().err
    assert main(["fleet", "drain", given, "b1"]) == 1
    assert "no box answers" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["status", "SITE"], "this box is in no fleet"),
        (["leave", "SITE"], "this box is in no fleet"),
        (["invite", "SITE"], "this box lets no others into a fleet"),
        (["upgrade", "SITE", "--", "true"], "this box is in no fleet"),
        (["upgrade", "--minutes", "5", "SITE", "--", "true", "--minutes"], "this box is in no fleet"),
        (["start", "SITE", "--hours", "0"], "a number above 0 to 720"),
        (["join", "SITE", "https://127.0.0.1:1"], "--code, --code-from"),
        (["join", "SITE", "http://127.0.0.1:1", "--code", "x"], "https://HOST or https://HOST:PORT"),
        (["join", "SITE", "https://127.0.0.1:1", "--code", "x"], "a code as `magpie fleet invite` printed it"),
        (["join", "SITE", "https://127.0.0.1:1", "--code", "0" * 32 + ".secret"], "no box answers"),
    ],
)
def test_a_command_that_cannot_be_done_shows_why(
    site: Callable[[str], str], capsys: pytest.CaptureFixture[str], command: list[str], words: str
) -> None:
    given = site("b1")
    assert main(["fleet", *(given if part == "SITE" else part for part in command)]) == 1
    assert words in capsys.readouterr().err


def test_a_box_leaves_by_force_where_no_box_answers(
    site: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = site("b1")
    assert main(["fleet", "start", given]) == 0
    assert main(["fleet", "leave", given]) == 1
    assert FleetFolder(tmp_path / "b1").joined
    capsys.readouterr()
    assert main(["fleet", "leave", given, "--force"]) == 0
    assert not (tmp_path / "b1" / "fleet").exists()
    assert "magpie fleet revoke SITE b1" in capsys.readouterr().out
    assert main(["fleet", "leave", given, "--force"]) == 1
    assert "this box is in no fleet" in capsys.readouterr().err


def test_an_odd_machine_name_and_a_folder_that_cannot_be_read_are_clear_errors(
    site: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = site("b1")
    monkeypatch.setattr(socket, "getfqdn", lambda: "my_box")
    assert main(["fleet", "start", given]) == 1
    refused = capsys.readouterr().err
    assert "fleet.address" in refused
    assert "my_box" in refused
    monkeypatch.undo()
    too_long = site("x" * 40)
    Path(too_long).write_text(Path(too_long).read_text().replace(f"/{'x' * 40}", f"/{'x' * 400}"))
    for command in (["status"], ["leave"], ["leave", "--force"], ["invite"]):
        assert main(["fleet", command[0], too_long, *command[1:]]) == 1
        assert "File name too long" in capsys.readouterr().err
    assert main(["fleet", "start", given]) == 0
    (tmp_path / "b1" / "fleet" / "box.key").write_text("damaged")
    assert main(["fleet", "drain", given, "b1"]) == 1
    assert "key and certificates cannot be read" in capsys.readouterr().err


def test_a_site_without_the_section_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "site.yaml").write_text("site: yard\n")
    assert main(["fleet", "status", str(tmp_path / "site.yaml")]) == 1
    assert "a section `fleet` with this box's name" in capsys.readouterr().err


def status_of(head: str | None) -> FleetStatus:
    members = (FleetMember("b1", "https://b1:8470", 0), FleetMember("b2", "https://b2:8470", 1, drained=True))
    cameras = (
        FleetCamera("gate", "b1", ONE, None, True),
        FleetCamera("north", "b2", ONE, "b1", False),
        FleetCamera("south", "b2", ONE, None, True),
    )
    return FleetStatus(
        "b1", 0.0, 3, head, None, True, FleetAgreement(members=members, cameras=cameras), {"b1": "open", "b2": "lost"},
        {"south": "no_zone"}, {"stranger": 2}, (CameraRefusal("north", ONE, "no such secret"),),
        waiting={"gate": "full"},
    )  # fmt: skip


def test_a_status_tells_people_what_waits_and_why() -> None:
    assert in_words(status_of(head="b1")) == (
        "head: b1\n"
        "  b1                   open             gate\n"
        "  b2                   lost, drained    north, south\n"
        "  gate: stays on b1, which is drained, for now: no box admits it\n"
        "  north: on its way to b2\n"
        "  south: no box answers it: no box that is there reaches its zone\n"
        "  north cannot be started here: no such secret\n"
        "refused: stranger 2"
    )
    assert in_words(status_of(head=None)).startswith("head: none that is known now\n")
    assert "less than half" in in_words(replace(status_of(head="b1"), mandate=False))


def test_jobs_are_shown_in_words() -> None:
    one = FleetJobReport(
        "labels", "wait", 3, "running", "ada", 0.0, running={0: "b1"}, why=FleetReason("full", (), 2, 0)
    )
    one = replace(one, done_on={2: DoneTask("b2", 1)}, raised={1: RaisedTask(4, "no file")})
    over = FleetJobReport("old", "wait", 1, "ended", "ada", 0.0)
    engine = EngineReport("ray", "failed", "the link ended")
    report = JobsReport("b1", (one, over), (TenantReport("night", "cpu", 3.0, 1.5, 1.0),), engine, {"b2": 2}, True)
    lines = jobs_in_words(report).splitlines()
    assert lines[0] == "jobs: kept by b1, engine ray failed: the link ended"
    for words in (
        "labels                   running    1 of 3 tasks done, 1 run on b1", "waits: 0 of 2 tasks fit now",
        "task 1 failed 4 times, it is tried again: no file", "night: wants 3 of cpu, its fair share is 1.5, it has 1",
        "b2 keeps 2 open jobs since it was the head", "were put aside",
    ):  # fmt: skip
        assert any(words in line for line in lines), words
    assert any("old" in line for line in lines)
    assert not any("old" in line for line in jobs_in_words(report, ended=False).splitlines())


def test_a_job_that_cannot_be_is_refused_before_anybody_is_asked(
    site: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given, file = site("b1"), tmp_path / "job.json"
    file.write_text('{"id": "x", "demand": {"cpu": 1}, "duration_s": 1, "colour": "red"}')
    for command, words in (
        (["submit", given, str(file)], "colour"),
        (["submit", given, str(tmp_path / "none.json")], "a file that can be read"),
        (["submit", given, given], "JOB"),
        (["jobs", given], "this box is in no fleet"),
        (["cancel", given, "x"], "this box is in no fleet"),
    ):
        assert main(["fleet", *command]) == 1
        assert words in capsys.readouterr().err
    assert main(["fleet", "start", given]) == 0
    file.write_text('{"id": "x", "demand": {"cpu": 1}, "duration_s": 1}')
    for command in (["submit", given, str(file)], ["jobs", given], ["cancel", given, "x"]):
        assert main(["fleet", *command]) == 1
        assert "no box answers" in capsys.readouterr().err


def test_an_upgrade_asks_for_a_command_and_for_minutes_that_there_are(
    site: Callable[[str], str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = site("b1")
    monkeypatch.setenv("FLEET_TOKEN", "a token")
    assert main(["fleet", "start", given]) == 0
    assert main(["fleet", "upgrade", "--minutes", "0", given, "--", "true"]) == 1
    assert "a number above 0 to 1440" in capsys.readouterr().err
    assert main(["fleet", "upgrade", given]) == 1
    assert "the command that upgrades this box, after --" in capsys.readouterr().err
    assert main(["fleet", "upgrade", "--minutes", "0.001", given, "--", "false", "--not-run"]) == 1
    assert "given up: the agent of b1 reports nothing, or there is no head" in capsys.readouterr().out
