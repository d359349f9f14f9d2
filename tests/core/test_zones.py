"""Zones: which polygons are taken, and which points lie inside; quiet hours."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.core.errors import InvalidValue
from edge.core.hours import inside, span_minutes
from edge.core.zones import Zone, check_polygon, foot_point, polygon_area, zones_at

SQUARE = ((0.2, 0.2), (0.6, 0.2), (0.6, 0.6), (0.2, 0.6))


@pytest.mark.parametrize(
    ("polygon", "words"),
    [
        (SQUARE[:2], "3 to 64 points"),
        (((0.2, 0.2), (0.6, 0.6), (0.6, 0.2), (0.2, 0.6)), "meet at their ends only"),
        (((0.2, 0.2), (0.6, 0.2), (0.6, 0.6), (0.2, 0.6), (0.2, 0.2)), "other than the one before"),
        (((0.2, 0.2), (0.6, 0.2), (0.4, 0.2), (0.4, 0.6)), "meet at their ends only"),
        (((0.2, 0.2), (0.6, 0.2), (0.6, 0.6), (0.4, 0.2), (0.2, 0.6)), "meet at their ends only"),
        (((0.2, 0.2), (0.201, 0.2), (0.2, 0.201)), "of the picture"),
        (((0.2, 0.2), (math.nan, 0.2), (0.2, 0.201)), "each from 0 to 1"),
        (((0.2, 0.2), (0.5, -0.1), (0.2, 0.9)), "each from 0 to 1"),
    ],
)
def test_polygons_that_are_refused(polygon: tuple[tuple[float, float], ...], words: str) -> None:
    with pytest.raises(InvalidValue, match=words):
        check_polygon("zones[0].polygon", polygon)


def test_the_point_that_is_wrong_is_named() -> None:
    with pytest.raises(InvalidValue, match=r"zones\[0\]\.polygon\[1\]"):
        check_polygon("zones[0].polygon", ((0.2, 0.2), (2.0, 0.2), (0.2, 0.9)))


def test_an_object_is_where_it_stands() -> None:
    low = Zone("low", SQUARE)
    buses = Zone("buses", SQUARE, ("bus",))
    tall = (0.3, 0.0, 0.5, 0.5)
    assert foot_point(tall) == (0.4, 0.5)
    assert zones_at([low, buses], tall, "car") == ("low",)
    assert zones_at([low, buses], tall, "bus") == ("low", "buses")
    assert zones_at([low], (0.3, 0.3, 0.5, 0.9), "car") == (), "its middle is inside, its foot is not"


def test_a_concave_zone() -> None:
    hook = Zone("hook", ((0.1, 0.1), (0.9, 0.1), (0.9, 0.9), (0.7, 0.9), (0.7, 0.3), (0.1, 0.3)))
    assert hook.contains((0.8, 0.8))
    assert hook.contains((0.2, 0.2))
    assert not hook.contains((0.4, 0.6))


@st.composite
def stars(draw: st.DrawFn) -> tuple[tuple[float, float], ...]:
    """Polygons around the middle, seen from it in order: they never cross themselves."""
    count = draw(st.integers(3, 20))
    radii = draw(st.lists(st.floats(0.1, 0.49), min_size=count, max_size=count))
    return tuple(
        (0.5 + r * math.cos(2 * math.pi * n / count), 0.5 + r * math.sin(2 * math.pi * n / count))
        for n, r in enumerate(radii)
    )


@given(stars(), st.integers(0, 19), st.booleans())
def test_simple_polygons_are_taken_whatever_their_start_and_direction(
    polygon: tuple[tuple[float, float], ...], turn: int, backwards: bool
) -> None:
    turned = polygon[turn % len(polygon) :] + polygon[: turn % len(polygon)]
    turned = turned[::-1] if backwards else turned
    zone = Zone("z", turned)
    assert polygon_area(turned) == pytest.approx(polygon_area(polygon))
    for n, (x, y) in enumerate(polygon):
        assert zone.contains((0.5 + (x - 0.5) * 0.9, 0.5 + (y - 0.5) * 0.9)), f"inside, near point {n}"
        assert not zone.contains((0.5 + (x - 0.5) * 1.02, 0.5 + (y - 0.5) * 1.02)), f"outside, near point {n}"


@given(stars(), st.data())
def test_exchanging_two_distant_corners_makes_it_cross(
    polygon: tuple[tuple[float, float], ...], data: st.DataObject
) -> None:
    # With radii alike the polygon is convex, and any exchange of corners that are no neighbours crosses edges.
    count = len(polygon)
    if count < 5:
        return
    ring = [
        (0.5 + 0.4 * math.cos(2 * math.pi * n / count), 0.5 + 0.4 * math.sin(2 * math.pi * n / count))
        for n in range(count)
    ]
    a = data.draw(st.integers(0, count - 1))
    b = (a + data.draw(st.integers(2, count - 2))) % count
    ring[a], ring[b] = ring[b], ring[a]
    with pytest.raises(InvalidValue, match="meet at their ends only"):
        check_polygon("p", ring)


def test_quiet_hours_over_midnight() -> None:
    spans = ("22:00-05:30", "12:00-13:00")
    assert [inside(spans, m) for m in (22 * 60, 0, 329, 330, 720, 779, 780)] == [
        True, True, True, False, True, True, False,
    ]  # fmt: skip
    assert not inside(("08:00-08:00",), 480)
    with pytest.raises(InvalidValue, match="HH:MM-HH:MM"):
        span_minutes("24:00-01:00")
