"""Rows of several boxes as one list: no row is lost or shown twice over the pages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.fleet.pages import BoxPage, FleetCursor, RowKey, merged

#: By box: its rows' times, of the newest row first.
Boxes = dict[str, list[float]]


def rows_of(times: list[float]) -> list[tuple[int, float]]:
    """Numbers fall in the order of a box's rows."""
    return [(len(times) - at, time) for at, time in enumerate(times)]


def page_of(box: str, times: list[float], limit: int, cursor: FleetCursor) -> BoxPage:
    """As a box answers."""
    below = cursor.before.get(box)
    found = [row for row in rows_of(times) if below is None or row[0] < below][:limit]
    return BoxPage(box, tuple(found), len(found) == limit)


def read_all(boxes: Boxes, limit: int, same: list[tuple[RowKey, RowKey]]) -> list[tuple[RowKey, tuple[str, ...]]]:
    out: list[tuple[RowKey, tuple[str, ...]]] = []
    cursor: FleetCursor | None = FleetCursor()
    for _ in range(200):
        assert cursor is not None
        pages = [page_of(b, times, limit + 3, cursor) for b, times in boxes.items() if b not in cursor.ended]
        page = merged(pages, limit, same, cursor)
        assert len(page.rows) <= limit
        out += page.rows
        if page.then is None:
            return out
        cursor = page.then
    raise AssertionError("the pages have no end")


BOXES = st.dictionaries(
    st.sampled_from(["b1", "b2", "b3"]),
    st.lists(st.floats(0.0, 100.0), max_size=12).map(lambda times: sorted(times, reverse=True)),
    max_size=3,
)


@given(BOXES, st.integers(1, 5))
def test_every_row_is_shown_once_and_newest_first(boxes: Boxes, limit: int) -> None:
    rows = [key for key, _ in read_all(boxes, limit, [])]
    times = {(b, n): time for b, values in boxes.items() for n, time in rows_of(values)}
    assert sorted(rows) == sorted(times)
    assert [times[key] for key in rows] == sorted(times.values(), reverse=True)


@given(BOXES, st.integers(1, 5), st.data())
def test_of_two_rows_that_are_the_same_one_is_shown_with_the_other_box(
    boxes: Boxes, limit: int, data: st.DataObject
) -> None:
    ours = [("b1", n) for n, _ in rows_of(boxes.get("b1", []))]
    theirs = [("b2", n) for n, _ in rows_of(boxes.get("b2", []))]
    count = data.draw(st.integers(0, min(len(ours), len(theirs))))
    same = list(zip(ours[:count], theirs[:count], strict=True))
    rows = dict(read_all(boxes, limit, same))
    for one, other in same:
        assert (one in rows) != (other in rows), "one of the two"
        shown, hidden = (one, other) if one in rows else (other, one)
        assert rows[shown] == (hidden[0],)
    assert len(rows) == sum(map(len, boxes.values())) - count


def test_a_box_that_does_not_answer_goes_on_where_it_was() -> None:
    first = merged([BoxPage("b1", ((5, 50.0),), True), BoxPage("b2", ((9, 40.0),), True)], 2)
    assert first.then == FleetCursor({"b1": 5, "b2": 9})
    second = merged([BoxPage("b1", ((4, 30.0),), False)], 2, (), first.then)
    assert [key for key, _ in second.rows] == [("b1", 4)]
    assert second.then is None, "no box that answered has more"
    again = merged([BoxPage("b1", ((4, 30.0), (3, 20.0)), False)], 1, (), first.then)
    assert again.then == FleetCursor({"b1": 4, "b2": 9})


def test_a_page_whose_rows_are_all_hidden_is_passed() -> None:
    page = merged([BoxPage("b1", (), True, last=41)], 5)
    assert page.rows == ()
    assert page.then == FleetCursor({"b1": 41})
