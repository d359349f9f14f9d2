"""Profiles that come too late for a trial of their own, are handed in early, or are taken from past windows."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from leaf_kit import ignored, leaf_parts

from edge.core import events as ev
from edge.core.clock import ManualClock
from edge.core.configs import InferenceConfig, RetrainingConfig
from edge.core.labels import LabelledWindow
from edge.core.profiles import Estimate, InferenceProfile, RetrainingProfile
from edge.core.shares import ideal_caps
from edge.runtime import messages as m
from edge.runtime.learning import history_of
from edge.runtime.preparation import Preparation
from microprofiler.history import ProfilerHistory
from scheduler.controller_state import CameraView

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
    parts = leaf_parts(
        cameras={"a": a, "b": b},
        learning=SimpleNamespace(profiled=ignored, known_profiles=lambda *given: (PROFILE,)),
        store=SimpleNamespace(
            windows=SimpleNamespace(add_profiles=print, add_cost=print), settings=SimpleNamespace(put_settings=print)
        ),
        records=SimpleNamespace(write=ignored),
    )
    parts.controller.state.window, parts.controller.state.awaiting_profiles = 2, {"a"}
    preparation = Preparation(
        parts, lambda camera, *score: scores.append((camera.id, *score)), list, dispatched.append, ignored
    )
    preparation.profiled(answer)
    assert set(a.profiles) == {p.config.id for e in dispatched for p in e.profiles}
    return dispatched


def test_one_that_was_handed_in_before_its_first_trial_is_answered_from_past_windows() -> None:
    (event,) = handed_over(done())
    assert isinstance(event, ev.Profiled)
    assert (event.camera, event.profiles) == ("a", (PROFILE,))


@pytest.mark.parametrize(
    ("answer", "others_know"),
    [(done(PROFILE), True), (done(handed_in=False), True), (done(), False)],
    ids=["it has a trial", "it found nothing to try", "nothing is known"],
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


def profile_of(camera: str) -> m.Profile:
    data = LabelledWindow(camera, 1, "detection", ("car",), (), ())
    return m.Profile(data, m.StudentFile("v", Path("v")), (), 1.0, None, 2.0, 1)


class Preparing:
    """Cameras a-d that await their profiles: a's waits in the queue, b's profiler is at work, c's is with another box,
    and d's is not waited for. A measurement waits as well."""

    def __init__(
        self, knows: bool = True, awaiting: tuple[str, ...] = ("a", "b", "c"), late: tuple[str, ...] = ()
    ) -> None:
        self.events: list[Any] = []
        self.written: list[tuple[str, Any]] = []
        self.notes: list[tuple[str, dict[str, Any]]] = []
        self.asked_to_hand_in = 0
        student = m.StudentFile("v", Path("v"))
        self.queue: list[Any] = [profile_of("a"), m.Evaluate(profile_of("a").data, student, student, None)]
        self.cameras: dict[str, Any] = {
            name: SimpleNamespace(id=name, history=None, profiles={}, published=False) for name in "abcd"
        }
        self.cameras["d"].history = KNOWN if knows else None
        self.known: list[Any] = [PROFILE]
        self.learned_from: list[Any] = []
        parts = leaf_parts(
            cameras=self.cameras,
            clock=ManualClock(7.0),
            learning=SimpleNamespace(known_profiles=self._known),
            profilers=SimpleNamespace(withdraw=self._withdraw, hand_in=self._hand_in),
            store=SimpleNamespace(windows=SimpleNamespace(add_profiles="profiles")),
            records=SimpleNamespace(write=lambda what, *given: self.written.append((what, given))),
            caps=replace(ideal_caps(), units=2.0),
        )
        state = parts.controller.state
        state.window, state.awaiting_profiles, state.late = 2, set(awaiting), set(late)
        state.cameras["a"] = CameraView(0.6, InferenceProfile("linear", 0.4))
        self.preparation = Preparation(
            parts,
            ignored,
            lambda: [profile_of("c")],
            self.events.append,
            lambda kind, camera=None, window=None, data=None: self.notes.append((kind, dict(data or {}))),
        )

    def _known(self, *given: Any) -> tuple[Any, ...]:
        self.learned_from.append(given)
        return tuple(self.known)

    def _withdraw(self, wanted: Any) -> list[Any]:
        taken = [job for job in self.queue if wanted(job)]
        self.queue = [job for job in self.queue if not wanted(job)]
        return taken

    def _hand_in(self) -> list[Any]:
        self.asked_to_hand_in += 1
        return [profile_of("b")]

    async def hand_in(self, last: bool) -> list[str]:
        """The cameras that are answered from past windows."""
        self.preparation.hand_in(last)
        assert self.events == [], "not inside the controller's own orders"
        await asyncio.sleep(0)
        return [event.camera for event in self.events]


@pytest.mark.parametrize(
    ("last", "knows", "answered"),
    [(False, True, ["a"]), (True, True, ["a", "b", "c"]), (False, False, []), (True, False, [])],
    ids=["first call", "last call", "nothing is known", "nothing is known at last"],
)
async def test_who_is_answered_from_past_windows_when_profiles_are_handed_in(
    last: bool, knows: bool, answered: list[str]
) -> None:
    box = Preparing(knows)
    assert await box.hand_in(last) == answered
    assert box.asked_to_hand_in == 1, "those at work answer with what they have"
    left = [type(job).__name__ for job in box.queue]
    assert left == (["Evaluate"] if knows else ["Profile", "Evaluate"]), "the measurement is no camera's profile"


async def test_one_that_was_answered_meanwhile_is_not_answered_again() -> None:
    box = Preparing(awaiting=("b",))
    assert await box.hand_in(True) == ["b"]


def test_profiles_of_past_windows_are_offered_recorded_and_noted() -> None:
    box = Preparing()
    box.preparation.from_history(profile_of("a").data)
    (event,) = box.events
    assert (event.at_s, event.camera, event.window, event.profiles) == (7.0, "a", 1, (PROFILE,))
    assert box.cameras["a"].profiles == {PROFILE.config.id: PROFILE}
    assert box.written == [("profiles", (2, "a", (PROFILE,)))]
    (_, _, own, others, start, thread) = box.learned_from[0]
    assert (own.known, [history.known for history in others]) == ({}, [{}, {}, history_of(KNOWN).known])
    assert (start, thread) == (0.6, 0.5)
    ((kind, said),) = box.notes
    assert (kind, said["configs"], said["device_seconds"]) == ("profiled", 1, 0.0)
    assert box.cameras["a"].history is not None, "they were offered: what comes of them teaches"


def test_where_past_windows_teach_nothing_the_controller_is_told_so() -> None:
    box = Preparing()
    box.known = []
    box.preparation.from_history(profile_of("b").data)
    (event,) = box.events
    assert (event.camera, event.profiles) == ("b", ())
    assert box.learned_from[0][4] == 0.5, "nothing is known of its accuracy"
    assert (box.written, box.cameras["b"].history) == ([], None)


@pytest.mark.parametrize(("camera", "late", "count"), [("d", (), 0), ("d", ("d",), 1), ("gone", (), 0)])
def test_a_camera_that_awaits_no_profiles_or_is_gone_is_left_alone(
    camera: str, late: tuple[str, ...], count: int
) -> None:
    box = Preparing(late=late)
    box.preparation.from_history(profile_of(camera).data)
    assert len(box.events) == len(box.notes) == count
