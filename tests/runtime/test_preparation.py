"""Profiles that come too late for a trial of their own."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from edge.core import events as ev
from edge.core.configs import InferenceConfig, RetrainingConfig
from edge.core.labels import LabelledWindow
from edge.core.profiles import Estimate, RetrainingProfile
from edge.runtime import messages as m
from edge.runtime.preparation import Preparation
from edge.settings import RetrainingSettings
from microprofiler.history import ProfilerHistory

PROFILE = RetrainingProfile(RetrainingConfig(4), 0.5, Estimate.exact(0.7), Estimate.exact(10.0))
KNOWN = ProfilerHistory().profiled([PROFILE], 10).to_json()


def done(*profiles: RetrainingProfile, handed_in: bool = True) -> m.ProfileDone:
    """The answer of camera a's profiler."""
    return m.ProfileDone("a", 1, profiles, 0.5, 0.0, ProfilerHistory().to_json(), {}, "", len(profiles), 0.0, handed_in)


def handed_over(
    answer: m.ProfileDone,
    others_know: bool = True,
    chosen: list[Any] | None = None,
    looks: InferenceConfig | None = None,
) -> list[Any]:
    """The events after camera a's profiler answered; camera b knows a configuration from past windows, or does not.
    Least scores go to `chosen`."""
    dispatched: list[Any] = []
    scores = [] if chosen is None else chosen
    data = LabelledWindow("a", 1, "detection", ("car",), (), ())
    a = SimpleNamespace(id="a", inference=looks, history=None, profiles={}, closed={1: data}, published=True)
    b = SimpleNamespace(id="b", history=KNOWN if others_know else None, profiles={}, closed={}, published=True)
    runtime: Any = SimpleNamespace(
        cameras={"a": a, "b": b},
        clock=SimpleNamespace(monotonic=lambda: 0.0),
        controller=SimpleNamespace(
            state=SimpleNamespace(window=2, awaiting_profiles={"a"}, late=set(), cameras={}),
        ),
        learning=SimpleNamespace(profiled=lambda *given: None, known_profiles=lambda *given: (PROFILE,)),
        shares=SimpleNamespace(cores=2.0),
        store=SimpleNamespace(
            windows=SimpleNamespace(add_profiles=print, add_cost=print), settings=SimpleNamespace(put_settings=print)
        ),
        window=SimpleNamespace(settings=RetrainingSettings()),
        dispatch=dispatched.append,
        camera_workers=SimpleNamespace(choose_score=lambda camera, *score: scores.append((camera.id, *score))),
    )
    Preparation(runtime, lambda *given, **named: None, lambda *given, **named: None).profiled(answer)
    assert set(a.profiles) == {p.config.id for e in dispatched for p in e.profiles}
    return dispatched


def test_one_that_was_handed_in_before_its_first_trial_is_answered_from_past_windows() -> None:
    (event,) = handed_over(done())
    assert isinstance(event, ev.Profiled)
    assert (event.camera, event.profiles) == ("a", (PROFILE,))


@pytest.mark.parametrize(
    ("answer", "others_know"),
    [(done(PROFILE), True), (done(handed_in=False), True), (done(), False)],
    ids=["it has a trial", "it found nothing to try", "nobody knows anything"],
)
def test_another_is_taken_as_it_is(answer: m.ProfileDone, others_know: bool) -> None:
    (event,) = handed_over(answer, others_know)
    assert event.profiles == answer.profiles


def test_the_least_score_that_a_profile_chose_is_used_at_once() -> None:
    chosen: list[Any] = []
    handed_over(replace(done(PROFILE), version="a-w1", score=0.42), chosen=chosen)
    assert chosen == [("a", "a-w1", 0.42)]
    half = InferenceConfig(2.0, 0.5)
    handed_over(replace(done(PROFILE), version="a-w1", score=0.42), chosen=chosen, looks=half)
    handed_over(done(PROFILE), chosen=chosen)
    assert len(chosen) == 1, "none is known of another resolution, another box's profile, or a drawn student"
