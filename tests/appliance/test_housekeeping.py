"""Housekeeping: little disk is reported once for each time it gets low; a failed retention is reported and tried
again."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from edge.appliance import housekeeping
from edge.appliance.housekeeping import Housekeeping
from edge.appliance.metrics import Tally
from edge.appliance.picture_requests import LOW_DISK_BYTES
from edge.appliance.silences import Silences
from edge.core.clock import ManualClock
from edge.core.errors import StoreError
from edge.settings import SiteSettings, parse
from edge.store.store import Store

_Usage = namedtuple("_Usage", "total used free")


class _NothingOld:
    anything = False


class _Alarms:
    """Alarms, counts or clips, of which nothing is old."""

    async def retain(self, *_: object) -> _NothingOld:
        return _NothingOld()


@dataclass
class House:
    """Housekeeping on a real store, and its messages."""

    folder: Path
    complaints: list[tuple[str, str]] = field(default_factory=list)
    noted: list[str] = field(default_factory=list)
    pictures: int = 0

    def __post_init__(self) -> None:
        site = parse(SiteSettings, {"site": "junction", "data_dir": str(self.folder)})
        self.store = Store(None, self.folder)
        truth = SimpleNamespace(pictures=SimpleNamespace(retain=self._retained))
        self.keeper = Housekeeping(
            site, self.store.retention, *(cast(Any, _Alarms()) for _ in range(3)), cast(Any, truth),
            cast(Any, _Alarms()), Tally(),
            lambda kind, data: self.noted.append(kind),
            lambda code, message: self.complaints.append((code, message)), Silences(ManualClock()),
        )  # fmt: skip

    def _retained(self) -> None:
        self.pictures += 1


@pytest.fixture
def house(tmp_path: Path) -> Any:
    house = House(tmp_path / "data")
    yield house
    house.store.close()


def test_a_disk_that_gets_low_is_reported_once_until_there_is_room_again(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = LOW_DISK_BYTES
    monkeypatch.setattr(housekeeping.shutil, "disk_usage", lambda _: _Usage(2 * LOW_DISK_BYTES, 0, free))
    house.keeper.look()
    assert (house.keeper.low, house.complaints) == (False, [])
    free = LOW_DISK_BYTES - 1
    house.keeper.look()
    house.keeper.look()
    assert house.keeper.low
    assert [code for code, _ in house.complaints] == ["disk_full"]
    free = LOW_DISK_BYTES
    house.keeper.look()
    assert not house.keeper.low
    free = 0
    house.keeper.look()
    assert len(house.complaints) == 2


@pytest.mark.asyncio
async def test_a_retention_that_fails_is_reported_and_the_next_one_goes_on(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise StoreError("the disk cannot be read")

    with monkeypatch.context() as patched:
        patched.setattr(house.store.retention, "retain", broken)
        await house.keeper.retain()
    assert house.complaints == [(StoreError.code, "retention: the disk cannot be read")]
    assert house.pictures == 0
    await house.keeper.retain()
    assert len(house.complaints) == 1
    assert house.pictures == 1
    assert house.noted == [], "nothing was old: nothing to note"


@pytest.mark.asyncio
async def test_freed_memory_is_given_back_every_minute_and_retention_comes_every_hour(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_back: list[int] = []
    monkeypatch.setattr(housekeeping, "give_back", lambda: given_back.append(number))
    retained = []
    for number in range(1, 362):
        before = house.pictures
        await house.keeper.round(number)
        if house.pictures > before:
            retained.append(number)
    assert given_back == list(range(6, 361, 6))
    assert retained == [1, 361]
