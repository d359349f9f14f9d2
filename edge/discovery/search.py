"""A search of the network: devices that answer a probe, and the streams of each."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from onveef.wsdiscovery import WS_DISCOVERY_PORT

from edge.core.discovery import FoundDevice, SearchLosses, SearchOrder, SearchResult
from edge.discovery.addresses import Interface, interfaces, service_of, shown
from edge.discovery.device import DeviceOrder, ask
from edge.discovery.probe import ProbeAnswer, listen

_MOST_DEVICES: Final = 256


@dataclass(frozen=True)
class SearchTimes:
    """Seconds: for answers to a probe, for one answer of a device, for a device, and for all of them after the
    probe; `at_once` devices are asked side by side."""

    listen_s: float = 3.0
    answer_s: float = 4.0
    device_s: float = 12.0
    all_s: float = 40.0
    at_once: int = 16


async def search(
    order: SearchOrder,
    times: SearchTimes | None = None,
    own: Sequence[Interface] | None = None,
    port: int = WS_DISCOVERY_PORT,
) -> SearchResult:
    """Search, at most `listen_s` + `all_s` seconds. `own`: this machine's addresses (None: as they are). Raises
    InvalidValue."""
    times = times or SearchTimes()
    if order.addresses:
        losses = SearchLosses()
        services = dict.fromkeys(map(service_of, order.addresses))
        asked = [DeviceOrder(s, order.username, order.password) for s in services]
        elsewhere: list[FoundDevice] = []
    else:
        heard = await listen(interfaces(order.network) if own is None else own, times.listen_s, port)
        kept = in_turn(heard.answers)[:_MOST_DEVICES]
        losses = replace(heard.losses, over=heard.losses.over + len(heard.answers) - len(kept))
        elsewhere = [_elsewhere(a) for a in kept if not a.service]
        asked = [DeviceOrder(a.service, order.username, order.password, a.name, a.hardware) for a in kept if a.service]
    devices = elsewhere + await _ask_all(asked, times)
    return SearchResult(tuple(sorted(devices, key=lambda d: d.address)), losses)


def in_turn(answers: Sequence[ProbeAnswer]) -> list[ProbeAnswer]:
    """The answers in the order in which their devices are asked: first those that gave a service at their own address,
    one of each sender by turns, so that one who answers for many does not keep the others from being asked."""
    turns: Counter[str] = Counter()
    ranked = []
    for answer in sorted(answers, key=lambda a: (not a.service, not a.gave, a.sender, a.service)):
        ranked.append((not answer.service, not answer.gave, turns[answer.sender], answer))
        turns[answer.sender] += 1
    return [r[-1] for r in sorted(ranked, key=lambda r: r[:-1])]


def _elsewhere(answer: ProbeAnswer) -> FoundDevice:
    return FoundDevice(answer.sender, answer.name, answer.hardware, "elsewhere", answer.elsewhere)


async def _ask_all(orders: Sequence[DeviceOrder], times: SearchTimes) -> list[FoundDevice]:
    clock = asyncio.get_running_loop().time
    turn, ends = asyncio.Semaphore(times.at_once), clock() + times.all_s
    found = [FoundDevice(shown(o.service), o.name, o.hardware, "not_asked") for o in orders]

    async def one(number: int) -> None:
        async with turn:
            left_s = ends - clock()
            if left_s > 0:
                found[number] = await ask(orders[number], min(times.device_s, left_s), times.answer_s)

    async with asyncio.TaskGroup() as group:
        for number in range(len(orders)):
            group.create_task(one(number))
    return found
