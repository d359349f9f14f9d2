"""Forecasts from recorded windows: more device is never worse, less never better, and what is not known is said."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from capacity_kit import POLICY, details
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core.capacity import BoxChange, CameraOutcome, CapacityForecast, CapacityOutcome, ChangeKind, PastChange
from edge.core.errors import Conflict, InvalidValue
from edge.core.profiles import Estimate
from edge.core.serving import DeviceTable, ServedModel
from edge.core.shares import ideal_caps
from edge.simulation.capacity import CapacityQuestion, box_windows, counted, first_windows, forecast
from edge.simulation.capacity_traces import (
    gained_on_windows,
    gains_by_window,
    halved,
    learned,
    lost_per_window,
    on_device,
    whole_of,
    with_rate,
)
from edge.simulation.record import RecordedRun, trace_from_windows
from edge.simulation.simulator import simulate
from edge.simulation.trace import Trace
from scheduler.admission import Box
from scheduler.capacity.learning import LearningEffect
from scheduler.capacity.moves import TruePart
from scheduler.capacity.serving import ServedBox, served_effect
from scheduler.follow import planner

#: Replays of plans that are made in steps differ by so much.
TOLERANCE = 0.005


def asked(
    kind: ChangeKind, factor: float | None = None, camera: str | None = None, **about: object
) -> CapacityForecast:
    found = tuple(details(6, **about))  # type: ignore[arg-type]
    return forecast(CapacityQuestion(BoxChange.of(kind, factor, camera), found))


def mean(found: CapacityForecast) -> float:
    values = [c.then.value for c in found.cameras if c.now is not None]
    return sum(values) / len(values)


def now(found: CapacityForecast) -> float:
    values = [c.now for c in found.cameras if c.now is not None]
    return sum(values) / len(values)


@settings(max_examples=4, deadline=None)
@given(st.sampled_from([0.3, 0.5, 0.8]), st.sampled_from([6.0, 20.0, 60.0]))
def test_more_device_is_never_worse_and_half_of_it_never_better(share: float, work_s: float) -> None:
    half = asked("device", 0.5, share=share, work_s=work_s)
    twice = asked("device", 2.0, share=share, work_s=work_s)
    assert mean(half) <= now(half) + TOLERANCE
    assert mean(twice) >= now(twice) - TOLERANCE
    assert half.share_then < half.share_now < twice.share_then


def test_a_crowded_box_loses_with_a_camera_more_and_gains_with_a_second_box() -> None:
    crowded = {"share": 0.3, "work_s": 40.0}
    more, two = asked("camera", **crowded), asked("box", **crowded)
    assert mean(more) < now(more)
    assert mean(two) > now(two)
    assert sorted(c.box for c in two.cameras) == [1, 2]
    new = more.cameras[-1]
    assert (new.camera, new.now) == ("new-camera", None)
    known = [c.then for c in more.cameras[:-1]]
    assert new.then.low <= min(t.low for t in known)
    assert new.then.high >= max(t.high for t in known)
    assert {"new_camera", "no_past", "budget_unknown"} <= {n.code for n in more.notes}
    assert "second_box" in {n.code for n in two.notes}


def serving(rate: float) -> ServedBox:
    table = DeviceTable("box", {"plates": {20: (20.0, 34.0), 50: (9.0, 15.0), 100: (5.0, 8.0)}}, {})
    return ServedBox(Box(0.9, (ServedModel("plates", rate, 80.0),), table), "elastic", "even", "relay", ideal_caps())


def test_served_models_that_fill_this_box_send_every_camera_to_the_second() -> None:
    box = serving(170.0)
    found = forecast(
        CapacityQuestion(BoxChange.of("box"), tuple(details(4, share=0.1, work_s=1.0)), golden=0.1, served=box)
    )
    assert [c.box for c in found.cameras] == [2, 2]
    assert "no_room" not in {n.code for n in found.notes}
    assert found.share_then == pytest.approx(0.2), "nothing is labelled here any more"
    assert found.models[0].then_part == pytest.approx(1.0)


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_the_models_part_of_the_device_changes_with_it(factor: float) -> None:
    box = serving(20.0)
    change = BoxChange.of("device", factor)
    found = forecast(CapacityQuestion(change, tuple(details(4, share=0.5)), golden=0.0, served=box))
    planned = box.planned(box.box)
    now = planned.serving_share
    then = served_effect(box, planned, change, (factor - 1.0) * (0.5 + now), (), None).share_then
    assert now > 0.05
    assert found.share_then == pytest.approx(max(0.05, factor * (0.5 + now) - then))


def test_a_rate_above_the_recorded_one_is_an_assumption_that_begins_at_no_gain() -> None:
    found = asked("frame_rate", share=1.0)
    for c in found.cameras:
        assert c.now is not None
        assert c.then.value >= c.now - TOLERANCE
        assert c.then.low <= c.now
    assert [(n.camera, dict(n.numbers)) for n in found.notes if n.code == "rate_above"] == [
        (c, {"recorded": 8.0, "asked": 16.0}) for c in ("gate", "yard")
    ]
    one = asked("frame_rate", camera="gate", share=1.0)
    assert [n.camera for n in one.notes if n.code == "rate_above"] == ["gate"]


def test_the_same_windows_give_the_same_answer() -> None:
    assert asked("window") == asked("window")
    assert asked("window").share_then == pytest.approx(0.8)


def test_the_first_window_shows_students_that_never_learned_and_does_not_count() -> None:
    found = details(6)
    young = details(6)
    for first in (found[0], young[0]):
        for row in first["window"]["cameras"]:
            row["details"] = {}  # no student that had learned was measured
    for row in young[0]["window"]["cameras"]:
        row["realised"]["value"] = 0.01
    change = BoxChange.of("window")
    old, new = (forecast(CapacityQuestion(change, tuple(d))) for d in (found, young))
    assert [(c.now, c.then) for c in new.cameras] == [(c.now, c.then) for c in old.cameras]
    assert [dict(n.numbers) for n in new.notes if n.code == "few_windows"] == [{"windows": 5}]
    for row in found[0]["window"]["cameras"]:
        assert row["realised"]["value"] != 0.01, "the windows differ"


def test_too_few_windows_are_refused_with_the_number_that_is_needed() -> None:
    change = BoxChange.of("window")
    with pytest.raises(Conflict, match=r"needs 3 .* there are 0"):
        forecast(CapacityQuestion(change, ()))
    mixed = (*details(6, length_s=50.0), *details(2, first=7))
    with pytest.raises(Conflict, match="there are 2"):
        forecast(CapacityQuestion(change, tuple(mixed)))


def test_a_camera_that_is_not_there_is_named() -> None:
    with pytest.raises(InvalidValue) as error:
        asked("camera", camera="dock")
    assert error.value.path == "camera"


def test_windows_that_were_cut_short_or_are_open_do_not_count() -> None:
    found = details(5)
    found[1]["window"]["outcome"] = "interrupted"
    found[4]["window"]["open"] = True
    assert [w.number for w in box_windows(found)] == [1, 3, 4]


def with_lives(trace: Trace, lives: dict[int, dict[int, float]]) -> Trace:
    """The first camera alone, with the accuracy of each student that came into force by its window, on each window."""
    camera = trace.cameras[0]
    windows = {
        w: replace(
            r,
            outcomes={
                i: replace(o, accuracy=0.74, promoted=w in lives, live=lives.get(w, {})) for i, o in r.outcomes.items()
            },
        )
        for w, r in camera.windows.items()
    }
    frozen = dict.fromkeys(range(1, 5), 0.5)
    return replace(trace, cameras=(replace(camera, windows=windows, frozen=frozen, begins_with={}),))


def test_halves_belong_to_their_whole_and_lose_half_of_what_students_lost() -> None:
    trace = with_lives(trace_from_windows("box", details(4)), {2: {2: 0.7, 3: 0.6}, 3: {3: 0.7, 4: 0.6}})
    lost = lost_per_window(trace)["gate"]
    assert 0.0 < lost < 0.1, "two of them are drawn to no loss"
    cut = halved(trace)
    assert (cut.windows, cut.window_s) == (7, 50.0)
    assert [whole_of(h) for h in range(1, 8)] == [1, 1, 2, 2, 3, 3, 4]
    was, half = trace.cameras[0], cut.cameras[0]
    assert half.frozen[3] == half.frozen[4] == was.frozen[2]
    (a,), (b,) = was.windows[2].outcomes.values(), half.windows[3].outcomes.values()
    assert b.accuracy == a.accuracy
    assert b.live == pytest.approx({3: 0.7 + lost / 2, 4: 0.7, 5: 0.65, 6: 0.6}), "by how old its data are"
    assert half.windows[3].start_live == was.windows[2].start_live


def test_the_later_half_has_its_own_scene() -> None:
    trace = with_lives(trace_from_windows("box", details(4)), {2: {2: 0.7, 3: 0.6}, 3: {3: 0.7, 4: 0.6}})
    hard = replace(trace.cameras[0], frozen={1: 0.5, 2: 0.5, 3: 0.3, 4: 0.3}, factors={})
    (outcome,) = halved(replace(trace, cameras=(hard,))).cameras[0].windows[3].outcomes.values()
    harder = 0.3 * (0.5 - 0.3)
    assert outcome.live[5] == pytest.approx((0.7 - harder + 0.6) / 2), "0.7 was measured in an easier window"
    assert outcome.live[6] == pytest.approx(0.6)


def test_held_out_accuracies_that_promise_too_much_make_halves_no_better() -> None:
    lives = {2: {2: 0.6, 3: 0.6}, 3: {3: 0.6, 4: 0.6}}
    trace = with_lives(trace_from_windows("box", details(4)), lives)
    (outcome,) = trace.cameras[0].windows[2].outcomes.values()
    assert outcome.accuracy > 0.7
    (half,) = halved(trace).cameras[0].windows[3].outcomes.values()
    assert half.live[3] == pytest.approx(0.6), "students lost nothing from one window to the next"


def test_halves_of_accuracies_with_the_age_of_answers_in_them() -> None:
    trace = with_lives(trace_from_windows("box", details(4)), {2: {2: 0.56, 3: 0.48}, 3: {3: 0.56, 4: 0.48}})
    old = replace(trace.cameras[0], factors=dict.fromkeys(range(1, 5), 0.8), frozen=dict.fromkeys(range(1, 5), 0.5))
    trace = replace(trace, cameras=(old,))
    lost = lost_per_window(trace)["gate"]
    (b,) = halved(trace).cameras[0].windows[3].outcomes.values()
    assert b.live[3] == pytest.approx(0.56 + 0.8 * lost / 2)
    assert b.live[4] == pytest.approx(0.56)


def test_fewer_labels_change_what_retrainings_brought_on_windows() -> None:
    trace = with_lives(trace_from_windows("box", details(4)), {2: {2: 0.6, 3: 0.5}, 3: {3: 0.6, 4: 0.5}})
    gain = gained_on_windows(trace)["gate"]
    assert 0.0 < gain < 0.1
    none, half = learned(trace, LearningEffect()), learned(trace, LearningEffect(gain=0.5))
    assert none == trace
    (a,), (b,) = (t.cameras[0].windows[2].outcomes.values() for t in (trace, half))
    assert b.live == pytest.approx({w: v - gain / 2 for w, v in a.live.items()})
    assert b.accuracy == a.accuracy, "the gate decided by it"
    was, then = (t.cameras[0].windows for t in (trace, half))
    assert then[2].start_live == was[2].start_live, "no student of the record is in force yet"
    assert was[3].start_live is not None
    assert then[3].start_live == pytest.approx(was[3].start_live - gain / 2)


def gated(accuracies: dict[int, tuple[float, bool]]) -> Trace:
    """Windows of one camera whose students were so accurate on held-out frames, where all starts are 0.6, and whether
    they came into force; those were 0.6 on windows."""
    trace = with_lives(trace_from_windows("box", details(max(accuracies), share=2.0)), {})
    camera, windows = trace.cameras[0], {}
    for w, (accuracy, promoted) in accuracies.items():
        live = dict.fromkeys(range(w, w + 2), 0.6) if promoted else {}
        record = camera.windows[w]
        outcomes = {i: replace(o, accuracy=accuracy, promoted=promoted, live=live) for i, o in record.outcomes.items()}
        windows[w] = replace(record, outcomes=outcomes, start_live=0.5 if w == 2 else 0.6)
    return replace(trace, cameras=(replace(camera, windows=windows, factors={}),))


@pytest.mark.parametrize("gain", [0.5, 2.0])
def test_the_gate_decides_as_it_did_with_other_labels(gain: float) -> None:
    trace = gated({2: (0.602, True), 3: (0.602, True), 4: (0.599, False)})
    assert gained_on_windows(trace)["gate"] > 0.005, "more than the gains on held-out frames"
    plan = planner(ideal_caps())
    was, then = (simulate(t, POLICY, plan) for t in (trace, learned(trace, LearningEffect(gain=gain))))
    assert [bool(r.promoted) for r in was.rows] == [False, True, True, False]
    assert [r.promoted for r in then.rows] == [r.promoted for r in was.rows]


def test_a_student_that_no_window_knows_gains_less_and_stays_on_its_side() -> None:
    trace = gated({2: (0.7, True), 3: (0.602, True), 4: (0.599, False)})
    camera = trace.cameras[0]
    unseen = {
        w: replace(r, outcomes={i: replace(o, live={}) for i, o in r.outcomes.items()} if w > 2 else r.outcomes)
        for w, r in camera.windows.items()
    }
    trace = replace(trace, cameras=(replace(camera, windows=unseen),))
    half = learned(trace, LearningEffect(gain=0.5)).cameras[0].windows
    accuracies = [o.accuracy for w in (2, 3, 4) for o in half[w].outcomes.values()]
    assert accuracies == pytest.approx([0.7, 0.6, 0.599]), "known by windows; unknown, down to its start; refused"


def test_a_student_that_no_window_knows_still_replaced_the_one_before() -> None:
    lives: dict[int, dict[int, float]] = {2: {2: 0.6, 3: 0.5, 4: 0.5}, 3: {}, 4: {4: 0.7}}
    camera = with_lives(trace_from_windows("box", details(4)), lives).cameras[0]
    camera = replace(camera, factors={})
    assert gains_by_window(camera) == pytest.approx({2: 0.1}), "of window 4 the one before is not known"
    refused = replace(
        camera.windows[3],
        outcomes={i: replace(o, promoted=False) for i, o in camera.windows[3].outcomes.items()},
    )
    camera = replace(camera, windows=dict(camera.windows) | {3: refused})
    assert gains_by_window(camera) == pytest.approx({2: 0.1, 4: 0.2})


def test_gains_are_measured_between_students_of_one_window_and_nothing_is_expected_of_them() -> None:
    found = details(4, cameras=("gate",), realised=0.6)
    for d in found:
        d["window"]["cameras"][0]["details"]["current_fresh"]["frames"] = 20
    gains = RecordedRun(found).gains()["gate"]
    assert [(g.window, g.frames) for g in gains] == [(n, (10, 20)) for n in (2, 3, 4)]
    before = (30 * 0.6 - 20 * 0.7) / 10
    assert [g.gain for g in gains] == pytest.approx([0.7 - before] * 3)
    assert RecordedRun(details(4)).gains()["gate"] == (), "no frame is left of the student before"


def test_gains_are_measured_as_on_fresh_answers() -> None:
    found = details(4, cameras=("gate",), realised=0.6)
    for d in found:
        for row in d["window"]["cameras"]:
            row["details"]["current_fresh"]["frames"] = 20
        d["plans"][-1]["plan"]["segments"] = [
            {"start_s": at_s, "streams": {"gate": {"inference_share": share}}}
            for at_s, share in ((0.0, 0.05), (100 / 3, 0.2))
        ]
    before = (30 * 0.6 - 20 * 0.7) / 10
    gains = [g.gain for g in RecordedRun(found).gains()["gate"]]
    assert gains == pytest.approx([0.7 / 0.9 - before / 0.6] * 3), "the first third was answered at a lower rate"


def learning_box() -> tuple[dict[str, Any], ...]:
    """A box whose students come into force: changes move what retrainings bring the yard."""
    found = details(6, share=0.5)
    for job in (j for d in found for j in d["jobs"]):
        job["promoted"] = True
    return tuple(found)


def test_an_unsure_true_part_is_in_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    widths = []
    for spread in (0.0, 5.0):
        monkeypatch.setattr("edge.simulation.capacity.true_part", lambda *_, s=spread: TruePart(1.0, s))
        found = forecast(CapacityQuestion(BoxChange.of("device", 0.5), learning_box()))
        widths.append(sum(c.then.high - c.then.low for c in found.cameras))
    assert widths[0] + 0.01 < widths[1]


def test_a_new_camera_learns_all_that_the_replay_says(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for part in (0.0, 2.0):
        monkeypatch.setattr("edge.simulation.capacity.true_part", lambda *_, p=part: TruePart(p))
        found.append(forecast(CapacityQuestion(BoxChange.of("camera", camera="yard"), learning_box())).cameras)
    (a, b) = found
    assert a[-1].then.value == b[-1].then.value
    assert abs(a[1].then.value - b[1].then.value) > 0.01, "the yard moves by the part that is true"


def test_the_newer_half_of_the_windows_counts_and_at_least_as_many_as_are_forecast() -> None:
    assert [len(counted(n)) for n in (3, 6, 7, 14, 48)] == [2, 5, 6, 7, 24]
    assert all(counted(n)[-1] == n for n in (3, 14, 48))


def rising_box(windows: int, by: float) -> tuple[dict[str, Any], ...]:
    """Windows whose accuracies rise by so much with each e-fold of the time learned."""
    found = details(windows)
    for d in found:
        for row in d["window"]["cameras"]:
            row["realised"]["value"] = 0.5 + by * math.log(max(1, d["window"]["id"] - 1))
    return tuple(found)


def test_students_that_go_on_learning_are_forecast_to_with_the_change_and_without() -> None:
    change = BoxChange.of("device", 0.5)
    still, rises = (forecast(CapacityQuestion(change, rising_box(8, by))) for by in (0.0, 0.1))
    for a, b in zip(still.cameras, rises.cameras, strict=True):
        assert a.unchanged == pytest.approx(a.now, abs=0.002)
        assert b.now is not None
        assert b.unchanged is not None
        assert 0.03 < b.unchanged - b.now < 0.1 * (math.log(10) - math.log(1)), "drawn to no trend"
        assert b.then.high - b.then.low > 0.02, "a trend is not sure"
    told = [n for n in rises.notes if n.code == "trend"]
    assert [n.camera for n in told] == ["gate", "yard"]
    assert not [n for n in still.notes if n.code == "trend"]


def test_a_new_camera_does_not_gain_what_old_ones_learn() -> None:
    change = BoxChange.of("camera", camera="gate")
    found = forecast(CapacityQuestion(change, rising_box(8, 0.1)))
    gate, new = found.cameras[0], found.cameras[-1]
    assert new.unchanged is None
    assert new.then.value < gate.then.value


def test_a_new_camera_is_as_its_model_when_young_only_where_that_was_recorded() -> None:
    change, found = BoxChange.of("camera", camera="gate"), rising_box(14, 0.1)
    young, late = (
        forecast(CapacityQuestion(change, found, began=began)).cameras[-1] for began in ({}, {"gate": -20, "yard": -20})
    )
    levels = [0.5 + 0.1 * math.log(max(1, n - 1)) for n in range(1, 15)]
    assert young.then.value == pytest.approx(sum(levels[1:7]) / 6, abs=0.03)
    assert late.then.value == pytest.approx(sum(levels[7:]) / 7, abs=0.03), "the windows that count"


def test_a_camera_without_counted_windows_has_those_before_them_without_the_first() -> None:
    found = details(14)
    for d in found:
        for row in d["window"]["cameras"]:
            known = row["camera"] != "yard" or d["window"]["id"] <= 3
            level = 0.01 if d["window"]["id"] == 1 else 0.5
            row["realised"] = {"value": level} if known else None
    cameras = forecast(CapacityQuestion(BoxChange.of("window"), tuple(found))).cameras
    assert [c.now for c in cameras] == pytest.approx([0.5, 0.5])


def test_what_past_answers_were_off_moves_both_with_the_change_and_without() -> None:
    change = BoxChange.of("device", 0.5)
    first = Estimate(0.6, 0.55, 0.65)
    came = CapacityOutcome(9, 6, 0.1, (CameraOutcome("gate", 0.6, 0.7, False, 0.05, first),))
    question = CapacityQuestion(change, tuple(details(6)))
    plain, moved = (forecast(replace(question, past=past)) for past in ((), (PastChange(change, came),)))
    for a, b in zip(plain.cameras, moved.cameras, strict=True):
        assert a.unchanged is not None
        assert b.unchanged == pytest.approx(a.unchanged + 0.05)
        assert b.then.value == pytest.approx(a.then.value + 0.05), "the change brings as much as before"
    (note,) = (n for n in moved.notes if n.code == "past")
    assert note.numbers["learned"] == 1
    assert note.of_all is not None


def test_cameras_have_learned_since_their_first_window() -> None:
    windows = box_windows(details(3, cameras=("gate",), first=5) + details(3, first=8))
    assert first_windows(windows) == {"gate": 1, "yard": 8}
    assert first_windows(windows, {"gate": 4}) == {"gate": 4, "yard": 8}, "it came before the first that is looked at"
    assert windows[0].frozen == {"gate": pytest.approx(0.55 - 0.03 * (5 % 3))}
    assert first_windows(box_windows(details(2, first=0))) == {"gate": 0, "yard": 0}


def test_a_young_camera_of_a_long_record_is_young() -> None:
    change, found = BoxChange.of("device", 0.5), details(8, first=101)
    old, young = (forecast(CapacityQuestion(change, tuple(found), began=began)) for began in ({}, {"gate": 99}))
    widths = [[c.then.high - c.then.low for c in f.cameras] for f in (old, young)]
    assert widths[1][0] > widths[0][0] + 0.005, "what it will learn is not sure"


def test_inference_that_was_measured_inside_of_a_window_is_changed_too() -> None:
    trace = trace_from_windows("box", details(3))
    camera = replace(trace.cameras[0], inference_at=((20.0, trace.cameras[0].inference_profile),))
    small = on_device(replace(trace, cameras=(camera,)), 0.5).cameras[0]
    assert small.inference_at == ((20.0, small.inference_profile),)


def test_a_device_of_another_size_is_another_unit() -> None:
    trace = trace_from_windows("box", details(3))
    small = on_device(trace, 0.5).cameras[0]
    assert small.inference_profile.max_gpu == pytest.approx(0.4)
    (profile,) = small.windows[2].profiles
    assert profile.device_seconds.value == pytest.approx(24.0)
    assert small.inference_profile.factor(0.4) == trace.cameras[0].inference_profile.factor(0.2)


def test_a_higher_rate_is_one_more_point_and_costs_in_proportion() -> None:
    trace = trace_from_windows("box", details(3))
    fast = with_rate(trace, 2.0, "gate", gains=True)
    gate, yard = fast.cameras
    assert yard == trace.cameras[1]
    assert gate.inference_profile.factor(0.4) == pytest.approx(0.95)
    assert gate.inference_profile.factor(0.2) == pytest.approx(0.9), "what was measured stays"
    none = with_rate(replace(trace), 2.0, None, gains=False).cameras[0]
    assert none.inference_profile.factor(0.4) == pytest.approx(0.9)
