"""The watch over cameras: serving gets what they leave, and hears of it only where something changed."""

from __future__ import annotations

from serving_parts import Written

from edge.core.clock import ManualClock
from edge.core.profiles import InferenceProfile
from edge.core.shares import ideal_caps
from edge.core.window import StreamProblem, WindowProblem
from edge.runtime.serving_cameras import CamerasNow, CameraWatch
from edge.runtime.serving_shares import ServingShares
from edge.settings import ServingPlanning


class Box:
    """A device without cameras; the front needs `more`."""

    def __init__(self) -> None:
        self.written, self.reserved = Written(), list[float]()
        self.now, self.more, self.planning = CamerasNow(0.8), 0.0, ServingPlanning()
        shares = ServingShares(ManualClock(), self.written.events.append, self.reserved.append)
        self.watch = CameraWatch(lambda: self.now, shares, lambda: self.planning, lambda: self.more)

    @property
    def most(self) -> list[float]:
        return [event.capacity.most for event in self.written.events]


async def test_serving_may_take_what_is_shared_less_what_the_front_needs() -> None:
    box = Box()
    await box.watch.look()
    box.more = 0.03
    await box.watch.look()
    assert box.most == [0.8, 0.77]
    assert box.reserved == [0.03]


async def test_new_settings_count_only_when_it_looks_anew() -> None:
    box = Box()
    await box.watch.look()
    box.planning = ServingPlanning(max_share=0.5)
    await box.watch.look()
    assert box.most == [0.8]
    await box.watch.look(anew=True)
    assert box.most == [0.8, 0.5]


async def test_less_of_the_device_is_seen() -> None:
    box = Box()
    await box.watch.look()
    box.now = CamerasNow(0.6)
    await box.watch.look()
    assert box.most == [0.8, 0.6]


async def test_cameras_need_what_the_followed_plan_needs() -> None:
    camera = StreamProblem("gate", 0.6, InferenceProfile("linear", 0.24), ())
    window = WindowProblem("w", 0.8, 100.0, (camera,), 0.05)
    asked = []
    for step in (None, 0.25):
        box = Box()
        box.now = CamerasNow(0.8, window, caps=ideal_caps(step))
        await box.watch.look(anew=True)
        asked.append(box.written.events[-1].capacity.beside)
    fine, coarse = asked
    # At its best on 0.24 of the device; in quarters it has nothing of that below 0.25.
    assert coarse <= 0.55 < fine
