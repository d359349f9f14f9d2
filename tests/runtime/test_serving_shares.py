"""Shares of the device: what served models may take, what is held for them, what the reorganiser hears."""

from __future__ import annotations

from serving_parts import Written

from edge.core.clock import ManualClock
from edge.runtime.serving_shares import ServingShares, front_more
from edge.settings import ServingPlanning
from scheduler.gpulets.fitting import Capacity


class Shares:
    def __init__(self) -> None:
        self.written, self.reserved = Written(), list[float]()
        self.shares = ServingShares(ManualClock(7.0), self.written.events.append, self.reserved.append)

    @property
    def capacities(self) -> list[Capacity]:
        return [event.capacity for event in self.written.events]


def test_all_that_is_held_is_reserved_together() -> None:
    box = Shares()
    box.shares.hold(0.3)
    box.shares.hold_for_front(0.02)
    box.shares.hold_for_front(0.02)
    assert box.reserved == [0.3, 0.32], "the front's part was reported once"
    assert box.capacities == []


def test_measuring_takes_from_what_is_planned_with_and_gives_it_back() -> None:
    box = Shares()
    box.shares.allow(0.8, 0.5, ServingPlanning())
    box.shares.hold(0.25)
    assert box.shares.free_percent == 55
    box.shares.measure(0.55)
    assert box.capacities[-1] == Capacity(0.25, 0.0)
    assert box.reserved[-1] == 0.8
    box.shares.measure(0.0)
    assert box.capacities[-1] == Capacity(0.8, 0.5)
    assert box.reserved[-1] == 0.25


def test_the_operator_bounds_what_cameras_leave() -> None:
    box = Shares()
    box.shares.allow(0.9, 0.7, ServingPlanning(max_share=0.4, cameras_priority=3))
    assert box.capacities == [Capacity(0.4, 0.4, 3)]
    box.shares.allow(-0.1, -0.2, ServingPlanning())
    assert box.capacities[-1] == Capacity(0.0, 0.0)
    assert box.written.events[-1].at_s == 7.0


def test_small_changes_are_not_reported_but_another_priority_is() -> None:
    box = Shares()
    box.shares.allow(0.6, 0.5, ServingPlanning())
    box.shares.allow(0.604, 0.496, ServingPlanning())
    assert len(box.capacities) == 1
    box.shares.allow(0.604, 0.496, ServingPlanning(cameras_priority=1))
    assert box.capacities[-1] == Capacity(0.604, 0.496, 1)
    box.shares.allow(0.61, 0.496, ServingPlanning(cameras_priority=1))
    assert len(box.capacities) == 3


def test_the_front_s_need_beyond_its_share_is_rounded_up_to_whole_percents() -> None:
    assert front_more(100.0, 0.0003, 0.05) == 0.0
    assert front_more(200.0, 0.0003, 0.05) == 0.01
    assert front_more(201.0, 0.0003, 0.05) == 0.02
