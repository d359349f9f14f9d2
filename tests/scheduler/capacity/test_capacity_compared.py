"""Forecasts beside what came: only the change that was asked about counts, made alone, after enough windows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from capacity_kit import box_window, made

from edge.core.capacity import BoxChange, BoxWindow, ChangeKind, ModelForecast
from edge.core.profiles import Estimate
from scheduler.capacity.boxes import over_boxes
from scheduler.capacity.compared import outcome, steady
from scheduler.capacity.intervals import HORIZON

WINDOW = BoxChange.of("window")
TWO: dict[str, float | None] = {"gate": 0.62, "yard": 0.62}
BEFORE = [box_window(n, TWO) for n in range(1, 9)]  # the forecast was made from windows up to 6


def after(count: int = HORIZON + 1, **about: object) -> list[BoxWindow]:
    came: dict[str, float | None] = about.pop("came", {"gate": 0.58, "yard": 0.5})  # type: ignore[assignment]
    return [box_window(9 + n, came, **about) for n in range(count)]  # type: ignore[arg-type]


CHANGES: list[tuple[ChangeKind, float, dict[str, object]]] = [
    ("camera", 0.8, {"came": {"gate": 0.58, "yard": 0.5, "dock": 0.5}}),
    ("window", 0.8, {"length_s": 50.0}),
    ("device", 0.4, {"share": 0.41}),
    ("frame_rate", 0.8, {"rate": 16.0}),
    ("box", 0.8, {"came": {"gate": 0.58}}),
]


@pytest.mark.parametrize(("kind", "share", "about"), CHANGES)
def test_the_change_that_was_asked_about_is_compared(kind: ChangeKind, share: float, about: dict[str, object]) -> None:
    forecast = made(BoxChange.of(kind, 0.5 if kind == "device" else None), share_then=share, new=kind == "camera")
    count = HORIZON * (2 if kind == "window" else 1)
    found = outcome(forecast, [*BEFORE, *after(count + 1, **dict(about))])
    assert found is not None
    assert (found.window, found.windows) == (9, count), "as much time as was forecast"
    by_name = {c.camera: c for c in found.cameras}
    assert by_name["gate"].held
    assert by_name["gate"].came == pytest.approx(0.58)
    if kind == "camera":
        assert by_name["dock"].forecast == 0.6, "the new camera, whatever its name"
    if kind != "box":
        assert not by_name["yard"].held
        assert by_name["yard"].outside == pytest.approx(0.05)
    for other, then, _ in CHANGES:
        if other != kind:
            asked = made(BoxChange.of(other, 0.5 if other == "device" else None), share_then=then)
            assert outcome(asked, [*BEFORE, *after(2 * HORIZON + 1, **dict(about))]) is None, f"{kind} is not {other}"


def test_a_box_that_was_halved_is_known_by_its_device_where_cameras_lost_less() -> None:
    """The golden model takes less of a smaller device: cameras had 0.8 of 2 cores, and have 0.6 of 1 core."""
    before = [replace(w, device=2.0) for w in BEFORE]
    half = [replace(w, device=1.0) for w in after(share=0.6)]
    asked = made(BoxChange.of("device", 0.5), share_then=0.4)
    found = outcome(asked, [*before, *half])
    assert found is not None
    assert found.window == 9
    assert outcome(asked, [*before, *(replace(w, device=1.5) for w in half)]) is None, "three quarters are not half"
    assert outcome(asked, [*BEFORE, *half]) is None, "where it is not known what the device was, shares decide"
    same = made(BoxChange.of("device", 0.5), share_then=0.4)
    assert outcome(same, [*before, *(replace(w, device=2.0) for w in after(share=0.4))]) is not None, "others took it"


@pytest.mark.parametrize(("kind", "share", "about"), [c for c in CHANGES if c[0] != "device"])
def test_another_change_on_another_device_was_not_made_alone(
    kind: ChangeKind, share: float, about: dict[str, object]
) -> None:
    before = [replace(w, device=2.0) for w in BEFORE]
    asked = made(BoxChange.of(kind), share_then=share, new=kind == "camera")
    for device, alone in ((2.0, True), (1.0, False)):
        changed = [replace(w, device=device) for w in after(2 * HORIZON + 1, **dict(about))]
        assert (outcome(asked, [*before, *changed]) is not None) is alone


def test_the_first_window_after_the_change_is_not_counted() -> None:
    late = after(2 * HORIZON + 1)
    late[0] = replace(late[0], length_s=50.0, realised={"gate": 0.0, "yard": 0.0})
    rest = [replace(w, length_s=50.0) for w in late[1:]]
    found = outcome(made(BoxChange.of("window")), [*BEFORE, late[0], *rest])
    assert found is not None
    assert found.cameras[0].came == pytest.approx(0.58)


def test_a_share_that_jumps_in_one_window_is_no_change() -> None:
    before = [replace(w, share=0.4) if w.number in (4, 8) else w for w in BEFORE]
    halves = [replace(w, share=0.3) if w.number == 12 else w for w in after(2 * HORIZON + 1, length_s=50.0)]
    assert outcome(made(BoxChange.of("window")), [*before, *halves]) is not None


def test_too_few_windows_wait_unless_another_change_ended_them() -> None:
    asked, halves = made(BoxChange.of("window")), after(HORIZON, length_s=50.0)
    assert outcome(asked, [*BEFORE, *halves]) is None
    assert outcome(asked, BEFORE) is None, "not made yet"
    other = replace(halves[-1], number=30, length_s=100.0)
    found = outcome(asked, [*BEFORE, *halves[:4], other])
    assert found is not None
    assert found.windows == 3
    assert outcome(asked, [*BEFORE, *halves[:3], other]) is None


def test_a_model_is_compared_where_it_was_asked_lately() -> None:
    model = ModelForecast("plates", 60.0, 20.0, Estimate(25.0, 8.0, 40.0), 1.0, 1.0)
    asked = replace(made(BoxChange.of("window")), models=(model, replace(model, model="faces")))
    found = outcome(asked, [*BEFORE, *after(2 * HORIZON + 1, length_s=50.0)], {"plates": 44.0})
    assert found is not None
    assert [(m.model, m.came_ms, m.held) for m in found.models] == [("plates", 44.0, False)]


def test_only_windows_of_the_box_as_it_is_now_are_used() -> None:
    windows = [*BEFORE, *after(length_s=50.0)]
    assert [w.number for w in steady(windows)] == list(range(9, 9 + HORIZON + 1))
    assert steady([]) == ()


def test_cameras_over_two_boxes_load_both_alike() -> None:
    assert over_boxes({"a": 0.4, "b": 0.2, "c": 0.2}) == {"a": 1, "b": 2, "c": 2}
    assert over_boxes({"a": 0.4}) == {"a": 1}, "nothing is gained by moving it"
    assert over_boxes({"a": 0.4, "b": 0.1}, held=0.5) == {"a": 2, "b": 2}


def test_a_forecast_whose_windows_are_gone_is_compared_from_the_window_that_it_kept() -> None:
    asked, halves = made(BoxChange.of("window")), after(2 * HORIZON + 1, length_s=50.0)
    assert outcome(asked, halves) is None, "nothing is known of before"
    kept = replace(asked, last=BEFORE[5])
    assert type(kept).from_json(kept.to_json()) == kept
    assert outcome(kept, halves) is not None


def test_an_estimate_of_a_version_without_trends_is_no_first_one() -> None:
    halves = [*BEFORE, *after(2 * HORIZON + 1, length_s=50.0)]
    old = made(WINDOW)
    old = replace(old, unwidened={c.camera: c.then for c in old.cameras})
    new = replace(old, cameras=tuple(replace(c, unchanged=0.62) for c in old.cameras))
    for asked, known in ((old, False), (new, True)):
        found = outcome(asked, halves)
        assert found is not None
        assert [c.first is not None for c in found.cameras] == [known, known]
        assert found.cameras[1].outside == pytest.approx(0.05)


def test_newest_windows_count_when_every_camera_was_measured() -> None:
    asked, halves = made(BoxChange.of("window")), after(2 * HORIZON + 1, length_s=50.0)
    late = [*halves[:-1], replace(halves[-1], realised={"gate": 0.58, "yard": None})]
    assert outcome(asked, [*BEFORE, *late]) is None, "the yard is not measured yet"
    never = [replace(w, realised={"gate": 0.58, "yard": None}) for w in halves]
    found = outcome(asked, [*BEFORE, *never])
    assert found is not None
    assert [c.camera for c in found.cameras] == ["gate"], "a camera that is never measured holds up no others"


@pytest.mark.parametrize(
    ("kind", "about"),
    [
        ("frame_rate", {"rate": 12.0}),
        ("frame_rate", {"rate": 4.0}),
        ("window", {"length_s": 50.0, "rate": 16.0}),
        ("window", {"length_s": 50.0, "share": 0.4}),
        ("camera", {"came": {"gate": 0.58, "yard": 0.5, "dock": 0.5}, "share": 0.4}),
        ("device", {"share": 0.8, "rate": 4.0}),
    ],
)
def test_another_factor_and_a_change_beside_are_other_changes(kind: ChangeKind, about: dict[str, object]) -> None:
    asked = made(BoxChange.of(kind), new=kind == "camera")
    assert outcome(asked, [*BEFORE, *after(2 * HORIZON + 1, **about)]) is None


def test_a_jump_of_the_share_another_policy_and_a_hole_end_the_steady_windows() -> None:
    now = after(4)
    assert len(steady([*BEFORE, *now])) == len(BEFORE) + 4
    for other in ({"share": 0.3}, {"policy": "thief"}, {"rates": {"gate": 4.0}}):
        assert list(steady([*(replace(w, **other) for w in BEFORE), *now])) == now  # type: ignore[arg-type]
    assert list(steady([*BEFORE[:-1], *now])) == now
