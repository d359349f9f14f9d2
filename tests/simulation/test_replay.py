"""Recorded plans are made again exactly, and one that is not is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edge.cli import main
from edge.core.errors import InvalidValue
from edge.core.plan_basis import PlanBasis, PlanRequest
from edge.core.plan_causes import PlanCause
from edge.core.profiles import InferenceProfile
from edge.core.shares import ideal_caps
from edge.core.window import RetrainingOption, StreamProblem, WindowProblem
from edge.simulation.record import trace_from_windows
from edge.simulation.replay import replayed
from edge.store.store import Store
from scheduler.follow import planner


def problem(delay_s: float) -> WindowProblem:
    options = (RetrainingOption("head", 0.7, 20.0), RetrainingOption("all", 0.8, 60.0))
    streams = tuple(StreamProblem(c, 0.5, InferenceProfile("linear", 0.4), options) for c in ("gate", "yard"))
    return WindowProblem("window-0", 1.0, 100.0, streams, 0.05, label_delay_s=delay_s)


def keep(folder: Path) -> dict[str, Any]:
    """A window with three plans: the first, one that was kept for its dwell, one of before bases were recorded."""
    caps = ideal_caps(0.05)
    plan = planner(caps)
    with Store(None, folder) as store:
        window = store.windows.open_window(1000.0, 100.0, "relay")
        first = PlanRequest("relay", problem(5.0))
        made = plan(first)
        store.windows.add_plan(
            window, first.problem, made, PlanCause("prepared"), basis=PlanBasis.of(first, first.problem, caps)
        )
        second = PlanRequest("relay", problem(5.5), made, 0.5)
        store.windows.add_plan(
            window,
            second.problem,
            plan(second),
            PlanCause("capacity_changed"),
            basis=PlanBasis.of(second, second.problem, caps),
        )
        store.windows.add_plan(window, second.problem, made, PlanCause("recorded", sentence="of an older version"))
        return store.windows.window(window).to_json()


def test_recorded_plans_are_made_again(tmp_path: Path) -> None:
    plans = replayed(keep(tmp_path))
    assert [(p.cause, p.again is not None, p.differs) for p in plans] == [
        ("labels and profiles are in", True, ()),
        ("another part of the device is left for cameras", True, ()),
        ("of an older version", False, ()),
    ]


def test_a_plan_that_was_changed_is_found_out(tmp_path: Path) -> None:
    detail = keep(tmp_path)
    shares = detail["plans"][1]["plan"]["segments"][0]["streams"]["gate"]
    shares["inference_share"] += 1e-6
    assert [p.differs for p in replayed(detail)] == [(), ("segments",), ()]


@pytest.mark.parametrize("value", [{}, {"plans": [1]}, {"plans": [{"id": 1}]}, []])
def test_what_is_no_window_is_refused(value: Any) -> None:
    with pytest.raises(InvalidValue, match="a window as GET"):
        replayed(value)


def test_the_command_says_which_plan_is_not_made_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    detail = keep(tmp_path)
    assert main(["plan", "replay", "--data", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "relay (labels and profiles are in): the same" in said
    assert "(of an older version): not recorded from what" in said
    assert said.endswith("2 of 2 plans are made again as they were\n")
    detail["plans"][0]["plan"]["objective"] = 0.1
    (tmp_path / "w.json").write_text(json.dumps(detail))
    assert main(["plan", "replay", str(tmp_path / "w.json")]) == 3
    said = capsys.readouterr().out
    assert "relay (labels and profiles are in): differs in objective" in said
    assert said.endswith("1 of 2 plans are made again as they were\n")
    assert main(["plan", "replay"]) == 1
    assert "--data DIR" in capsys.readouterr().err


def test_a_trace_knows_the_recorded_device(tmp_path: Path) -> None:
    detail = keep(tmp_path)
    detail["window"] |= {"open": False, "outcome": "completed"}
    detail["window"]["cameras"] = [
        {
            "camera": "gate", "frozen": {"value": 0.5}, "frames_labelled": 3, "labelling_delay_s": 1.0,
            "model_version": None, "details": {},
        }
    ]  # fmt: skip
    trace = trace_from_windows("run", [detail])
    assert trace.caps == ideal_caps(0.05)
    assert type(trace).from_json(json.loads(json.dumps(trace.to_json()))) == trace
    broken = trace.to_json() | {"caps": {"step": 1}}
    with pytest.raises(InvalidValue, match=r"caps\."):
        type(trace).from_json(broken)
