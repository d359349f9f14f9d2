"""Which frames other boxes label: none that this box labels itself in time, none too late, the same answer again."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core.lending import MOST_PICTURES, Borrower, LabelBacklog, LendingOffer, WaitingFrame
from scheduler.fleet.lending import BACK_S, START_S
from scheduler.fleet.lent_labels import FEWEST, behind, labelled_here, labels_out

TEACHER, OTHER = "a" * 64, "b" * 64
ME = Borrower("cpu", 1.0, {})
IDLE = LendingOffer("idle", 0.8, "cpu", 1.0, room=4, teacher=TEACHER)


def frames(camera: str, count: int, late: bool = False) -> tuple[WaitingFrame, ...]:
    return tuple(WaitingFrame(f"{camera}/{'late' if late else 'now'}/{n}", camera, 50_000, late) for n in range(count))


def backlog(
    waiting: tuple[WaitingFrame, ...],
    others: float = 0.0,
    label_s: float = 1.0,
    share: float = 0.16,
    left_s: float = 100.0,
) -> LabelBacklog:
    """A label takes 1 device second, so this box labels 16 frames in 100 s."""
    return LabelBacklog(waiting, others, label_s, share, left_s, 2.0, TEACHER)


def test_a_box_that_labels_all_in_time_lends_nothing() -> None:
    assert labelled_here(backlog(())) == 16
    assert labels_out(backlog(frames("a", 16)), (IDLE,), ME) == ()
    assert behind(backlog(frames("a", 16), others=1.0)) == (1, 0)
    assert labels_out(backlog(frames("a", 16 + FEWEST - 1)), (IDLE,), ME) == (), "too few to open a golden model for"


def test_what_would_be_late_here_goes_there_evenly_drawn() -> None:
    (one,) = labels_out(backlog(frames("a", 24)), (IDLE,), ME)
    assert (one.camera, one.box, one.share, len(one.frames)) == ("a", "idle", 0.8, 8)
    numbers = [int(i.rsplit("/", 1)[1]) for i in one.frames]
    assert numbers == [1, 4, 7, 10, 13, 16, 19, 22], "what is lost is lost from the whole time"
    assert one.ends_s == pytest.approx(8 * 50_000 / 10e6 + START_S + (2.0 + 8 * 1.0) / 0.8 + BACK_S)


def test_frames_to_come_count_and_the_time_there_does() -> None:
    (one,) = labels_out(backlog(frames("a", 24), others=16.0), (IDLE,), ME)
    assert len(one.frames) == 24
    # 20 s less 3 for the start and 2 for the way back, at 0.8: 12 device seconds, of which 2 open the golden model; and
    # 0.05 s for the pictures' way.
    (few,) = labels_out(backlog(frames("a", 24), left_s=20.06), (IDLE,), ME)
    assert len(few.frames) == 10
    assert labels_out(backlog(frames("a", 24), left_s=10.0), (IDLE,), ME) == ()
    assert labels_out(backlog(frames("a", 24)), (replace(IDLE, left_s=9.0),), ME) == (), "its own window ends before"
    assert labels_out(backlog(frames("a", 24)), (replace(IDLE, rate=1000.0),), ME) == (), "the line is too slow"


def test_another_golden_model_device_or_no_room_is_no_offer() -> None:
    much = backlog(frames("a", 40))
    assert labels_out(much, (replace(IDLE, teacher=OTHER),), ME) == ()
    assert labels_out(much, (replace(IDLE, teacher=""),), ME) == (), "a version that labels for no other box"
    assert labels_out(much, (replace(IDLE, device="gpu"),), ME) == ()
    assert labels_out(much, (replace(IDLE, room=0),), ME) == ()


def test_frames_that_a_window_waits_for_go_before_late_ones() -> None:
    both = backlog(frames("a", 20) + frames("a", 30, late=True), others=16.0, left_s=100.0)
    first, second = labels_out(both, (IDLE, replace(IDLE, box="second")), ME)
    assert ({i.split("/")[1] for i in first.frames}, len(first.frames)) == ({"now"}, 20)
    assert ({i.split("/")[1] for i in second.frames}, len(second.frames)) == ({"late"}, 30)
    assert labels_out(both, (IDLE,), ME) == (first,), "late ones do not wait for others, nor others for them"
    (only,) = labels_out(backlog(frames("a", 6) + frames("a", 20, late=True)), (IDLE,), ME)
    assert (len(only.frames), {i.split("/")[1] for i in only.frames}) == (10, {"late"}), "16 are labelled here"


def test_the_box_that_labels_the_most_is_taken_and_of_equals_the_first_done() -> None:
    much = backlog(frames("a", 200), left_s=40.0)
    offers = (replace(IDLE, box="slow", share=0.3), IDLE, replace(IDLE, box="b", room=1))
    lent = labels_out(much, offers, ME)
    assert [one.box for one in lent[:2]] == ["b", "idle"]
    assert Counter(one.box for one in lent)["b"] == 1, "it has room for one"
    assert len({i for one in lent for i in one.frames}) == sum(len(one.frames) for one in lent)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 120), st.booleans()), max_size=4),
    st.floats(0.0, 200.0), st.floats(0.001, 20.0), st.floats(0.0, 1.0), st.floats(-10.0, 600.0),
    st.lists(st.tuples(st.floats(0.0, 1.0), st.integers(0, 4), st.floats(0.0, 100.0)), max_size=3),
)  # fmt: skip
def test_nothing_is_lent_twice_too_late_or_for_nothing(
    counts: list[tuple[str, int, bool]], others: float, label_s: float, share: float, left_s: float,
    boxes: list[tuple[float, int, float]],
) -> None:  # fmt: skip
    groups = {(camera, late): count for camera, count, late in counts}
    waiting = tuple(f for (camera, late), count in groups.items() for f in frames(camera, count, late))
    asked = backlog(waiting, others, label_s, share, left_s)
    offers = tuple(
        replace(IDLE, box=f"b{n}", share=part, room=room, busy_s=busy_s) for n, (part, room, busy_s) in enumerate(boxes)
    )
    lent = labels_out(asked, offers, ME)
    assert lent == labels_out(asked, tuple(reversed(offers)), ME), "the same answer"
    known = {f.id: f for f in waiting}
    gone = [i for one in lent for i in one.frames]
    assert len(gone) == len(set(gone))
    assert all(known[i].camera == one.camera for one in lent for i in one.frames)
    for late, most in zip((False, True), behind(asked), strict=True):
        assert sum(known[i].late is late for i in gone) <= most, "no frame that is labelled here in time"
    rooms, shares = {o.box: o.room for o in offers}, {o.box: o.share for o in offers}
    assert all(number <= rooms[box] for box, number in Counter(one.box for one in lent).items())
    for one in lent:
        assert FEWEST <= len(one.frames) <= MOST_PICTURES
        assert one.share == shares[one.box]
        assert one.ends_s <= left_s
    for box in rooms:
        ends = [one.ends_s for one in lent if one.box == box]
        assert ends == sorted(ends), "one after the other"
