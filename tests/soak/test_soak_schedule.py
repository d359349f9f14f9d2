"""The schedule of faults follows from its seed, and has every fault."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.soak.invariants import SIGNS
from benchmarks.soak.schedule import KINDS, OF_ONE_CAMERA, OF_THE_WHOLE, steps

CAMERAS = ("north", "south")


def test_the_same_seed_gives_the_same_steps_and_another_one_others() -> None:
    assert steps(7, CAMERAS, 3) == steps(7, CAMERAS, 3)
    assert [s.fault for s in steps(7, CAMERAS, 1)] != [s.fault for s in steps(8, CAMERAS, 1)]


@pytest.mark.parametrize("seed", range(5))
def test_each_round_has_every_fault_once_and_the_whole_is_killed_in_the_first_alone(seed: int) -> None:
    made = steps(seed, CAMERAS, 3)
    assert [s.number for s in made] == list(range(1, len(made) + 1))
    counts = Counter(s.fault for s in made)
    assert {name: counts[name] for name in KINDS} == {name: 1 if name in OF_THE_WHOLE else 3 for name in KINDS}
    assert {s.fault for s in made[: len(KINDS)]} == set(KINDS)


@pytest.mark.parametrize("seed", range(5))
def test_cameras_and_times_are_those_of_the_kind(seed: int) -> None:
    ahead = 0
    for step in steps(seed, CAMERAS, 2):
        least, most = KINDS[step.fault].lasts_s
        assert least <= step.lasts_s <= most
        assert (step.camera in CAMERAS) == (step.fault in OF_ONE_CAMERA)
        ahead += {"clock_ahead": 1, "clock_back": -1}.get(step.fault, 0)
        assert ahead in (0, 1), "an hour ahead first, then back"
    assert ahead == 0


def test_what_is_not_possible_is_left_out_and_no_camera_is_an_error() -> None:
    some = steps(1, CAMERAS, 1, frozenset(KINDS) - {"disk_full", "clock_back"})
    assert {s.fault for s in some} == set(KINDS) - {"disk_full", "clock_back"}
    with pytest.raises(ValueError, match="cameras"):
        steps(1, (), 1)


def test_signs_are_named_of_faults_that_exist() -> None:
    assert set(SIGNS) <= set(KINDS)
