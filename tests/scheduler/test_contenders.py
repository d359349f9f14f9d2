"""Which student comes into force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from edge.core.accuracy import Counts
from edge.core.errors import InvalidValue
from scheduler.contenders import FEWEST_OBJECTS, SURE, Contender, Who, choose, together

counts = st.builds(Counts, st.integers(0, 8), st.integers(0, 5), st.integers(0, 5))


def drawn(who: Who, share: float, frames: int = 20, seed: int = 0) -> Contender:
    """About `share` of ten objects right on each picture."""
    rng = np.random.default_rng((seed, round(share * 1000)))
    right = rng.binomial(10, share, frames)
    return Contender(who, tuple(Counts(int(n), int(10 - n), int(10 - n)) for n in right))


@given(frames=st.lists(counts, min_size=1, max_size=30))
@settings(max_examples=40)
def test_the_new_one_is_preferred_over_its_equals(frames: list[Counts]) -> None:
    same = tuple(frames)
    assume(sum(c.right + c.missed for c in same) >= FEWEST_OBJECTS)
    verdict = choose([Contender(w, same) for w in ("download", "in_force", "new")])
    assert verdict.winner == "new"
    assert verdict.frames == len(frames)
    assert verdict.beats_new == {"download": 0.0, "in_force": 0.0}


@given(
    one=st.lists(counts, min_size=5, max_size=5),
    two=st.lists(counts, min_size=5, max_size=5),
    three=st.lists(counts, min_size=5, max_size=5),
    seed=st.integers(0, 5),
)
@settings(max_examples=60)
def test_another_wins_only_when_it_is_surely_better(
    one: list[Counts], two: list[Counts], three: list[Counts], seed: int
) -> None:
    given_ = [Contender("new", tuple(one)), Contender("in_force", tuple(two)), Contender("download", tuple(three))]
    verdict = choose(given_, seed)
    assert verdict == choose(given_, seed)  # nothing else is drawn upon
    sure = [w for w, share in verdict.beats_new.items() if share >= verdict.sure]
    if verdict.objects < FEWEST_OBJECTS:
        assert verdict.winner == "in_force"
    elif verdict.winner == "new":
        assert not sure
    else:
        assert verdict.winner in sure
        assert verdict.f1[verdict.winner] == max(verdict.f1[w] for w in sure)
    assert all(0 <= share <= 1 for share in verdict.beats_new.values())


def test_noise_does_not_keep_the_new_one_out_but_a_clear_loss_does() -> None:
    new = drawn("new", 0.70)
    as_good = Contender("in_force", new.frames[::-1])
    assert choose([new, as_good, drawn("download", 0.6)]).winner == "new"
    worse = choose([drawn("new", 0.5), drawn("in_force", 0.45), drawn("download", 0.7)])
    assert worse.winner == "download"
    assert worse.beats_new["download"] > 0.99
    assert choose([drawn("new", 0.5), drawn("in_force", 0.8), drawn("download", 0.7)]).winner == "in_force"


def test_without_pictures_the_one_in_force_stays() -> None:
    assert choose([Contender("new", ()), Contender("in_force", ()), Contender("download", ())]).winner == "in_force"
    assert choose([Contender("new", ()), Contender("download", ())]).winner == "download"
    assert choose([Contender("new", ())]).winner == "new"


def test_without_a_new_one_the_better_stays() -> None:
    assert choose([drawn("in_force", 0.5), drawn("download", 0.7)]).winner == "download"
    assert choose([drawn("in_force", 0.7), drawn("download", 0.5)]).winner == "in_force"


def test_bad_input_is_refused() -> None:
    one = drawn("new", 0.5)
    with pytest.raises(InvalidValue, match="contenders"):
        choose([])
    with pytest.raises(InvalidValue, match="who"):
        choose([one, one])
    with pytest.raises(InvalidValue, match=r"contenders\[download\].frames"):
        choose([one, drawn("download", 0.5, frames=19)])
    with pytest.raises(InvalidValue, match="who"):
        choose([Contender("somebody", one.frames)])  # type: ignore[arg-type]


def few(new: Counts) -> list[Contender]:
    """A camera with four objects on two kept-out pictures, of which the student in force finds all."""
    return [Contender("new", (new, new), 1), Contender("in_force", (Counts(2, 0, 0), Counts(2, 0, 0)), 1)]


@pytest.mark.parametrize(("of_others", "winner"), [(0.9, "new"), (0.3, "in_force")])
def test_a_camera_with_too_few_objects_has_the_verdict_of_its_group(of_others: float, winner: Who) -> None:
    own = few(Counts(1, 0, 1))
    other = [drawn("new", of_others), drawn("in_force", 0.6), drawn("download", 0.5)]
    verdict = choose(own, group=together([own, other]))
    assert (verdict.winner, verdict.by_group, verdict.frames) == (winner, True, 22)
    assert choose(own).winner == "in_force"
    # A camera with enough objects is judged by its own.
    assert choose(other, group=together([own, other])) == choose(other)


def test_a_download_that_wins_on_a_group_s_pictures_keeps_the_new_one_out() -> None:
    own = few(Counts(2, 0, 0))
    other = [drawn("new", 0.3), drawn("in_force", 0.3), drawn("download", 0.9)]
    other = [replace(c, latest=20) for c in other]
    verdict = choose(own, group=together([own, other]))
    assert (verdict.winner, verdict.by_group, verdict.ahead) == ("in_force", True, "download")
    assert verdict.beats_new["download"] >= SURE


def test_own_pictures_may_contradict_the_group() -> None:
    """Nine objects, of which the one in force finds all and the group's student none."""
    other = [replace(drawn(who, right), latest=20) for who, right in (("new", 0.9), ("in_force", 0.5))]
    for objects, winner in ((3, "in_force"), (1, "new")):
        own = [
            Contender("new", (Counts(0, 0, objects),) * 3, 3),
            Contender("in_force", (Counts(objects, 0, 0),) * 3, 3),
        ]
        assert choose(own, group=together([own, other])).winner == winner


def test_a_group_of_few_objects_says_nothing() -> None:
    own = few(Counts(2, 0, 0))
    verdict = choose(own, group=together([own, own]))
    assert (verdict.winner, verdict.by_group, verdict.objects) == ("in_force", False, 4)


def test_a_contest_of_several_cameras_begins_with_their_latest_pictures() -> None:
    one = [Contender("new", (Counts(1), Counts(2)), 1), Contender("in_force", (Counts(3), Counts(4)), 1)]
    newest: list[tuple[Who, int]] = [("new", 5), ("in_force", 6), ("download", 7)]
    two = [Contender(who, (Counts(n),), 1) for who, n in newest]
    new, in_force, download = together([one, two, [Contender("in_force", (Counts(9),), 1)]])
    assert (new.frames, new.latest) == ((Counts(1), Counts(5), Counts(2)), 2)
    assert in_force.frames == (Counts(3), Counts(6), Counts(4))
    assert download.frames == (Counts(3), Counts(7), Counts(4)), "where there is none it is the one in force"
