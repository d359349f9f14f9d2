"""Lending on a recorded window: four cameras of the demo, with the costs and gains that their trials showed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edge.core.lending import Borrower, LendingOffer
from edge.core.plan_basis import PlanRequest
from edge.core.profiles import InferenceProfile, RetrainingProfile
from edge.core.shares import ideal_caps
from edge.core.window import StreamProblem, WindowProblem
from scheduler.controller import option_from_profile
from scheduler.fleet.lending import lend_out, with_lent
from scheduler.follow import planner
from scheduler.window_lending import worth

TRACE = Path(__file__).resolve().parents[3] / "benchmarks" / "results" / "demo_trace.json"
#: The trace's device has 1.7 cores; the crowded box has one.
SLOWER = 1.7


def stream(camera: dict[str, Any]) -> StreamProblem:
    window, profile = camera["windows"]["2"], InferenceProfile.from_json(camera["inference_profile"])
    options = [option_from_profile(RetrainingProfile.from_json(p)) for p in window["profiles"]]
    slower = tuple(replace(o, device_seconds=SLOWER * o.device_seconds, curve=()) for o in options)
    return StreamProblem(
        camera["id"], window["start_accuracy"], replace(profile, max_gpu=SLOWER * profile.max_gpu), slower
    )


def crowded(left: float, window_s: float) -> WindowProblem:
    """Four cameras on one core, of which `left` is left to them; labels and profiles took a tenth of the window."""
    streams = tuple(stream(c) for c in json.loads(TRACE.read_text())["cameras"][:4])
    return WindowProblem("w", left, window_s, streams, 0.05, label_delay_s=0.1 * window_s, carry_s=0.5 * window_s)


@pytest.mark.parametrize(("window_s", "least_points"), [(120.0, 2.0), (60.0, 2.0)])
def test_an_idle_box_of_one_core_takes_retrainings_over_one_after_the_other(
    window_s: float, least_points: float
) -> None:
    plan, problem = planner(replace(ideal_caps(), min_share=0.01)), crowded(0.4, window_s)

    def value(asked: WindowProblem) -> float:
        return worth(asked, plan(PlanRequest("relay", asked)))

    me = Borrower("cpu", 1.0, {s.id: 6_000_000 for s in problem.streams})
    offer = LendingOffer("idle", 0.54, "cpu", 1.0, room=4)
    one, several = lend_out(problem, (replace(offer, room=1),), me, value), lend_out(problem, (offer,), me, value)
    assert len(one) == 1
    assert len(several) >= 2
    gained = value(with_lent(problem, several)) - value(problem)
    assert 100 * gained >= least_points
    assert gained > value(with_lent(problem, one)) - value(problem)
