"""Compares the objects and alarms that real appliances have on record with the messages that a real broker got."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from benchmarks.fleet_boxes import RealBox, asked
from benchmarks.fleet_boxes_watch import longest_gap
from benchmarks.soak.invariants import events_delivered, events_once, sent_again
from benchmarks.soak.values import ReceivedMessage
from benchmarks.soak.watching import recorded, records
from benchmarks.waiting import until

#: Two boxes see one object: their objects begin within so many seconds of each other. An overlap counts with so much
#: around it, as docs/fleet.md says of doubled alarms.
_SAME_S: Final = 2.0
_AROUND_S: Final = 5.0


def outputs_of(box: str, port: int) -> dict[str, Any]:
    """What a site file needs to have events, and to send them to the broker below the box's name."""
    return {
        "rules": [{"id": "anything", "kind": "object", "min_interval_s": 5.0}],
        "outputs": {
            "mqtt": {"host": "127.0.0.1", "port": port, "prefix": box, "client_id": box, "keepalive_s": 5,
                     "discovery": False},
        },
    }  # fmt: skip


class EventsHeard:
    """Hears objects and alarms of every box at the broker, in a session that the broker keeps. A message's destination
    is the box's name, which its topic begins with."""

    def __init__(self, port: int) -> None:
        self.messages: list[ReceivedMessage] = []
        client = self._client = paho.Client(CallbackAPIVersion.VERSION2, "fleet-listener", clean_session=False)
        client.on_connect = lambda c, *_: c.subscribe([("+/events", 1), ("+/alarms", 1)])
        client.on_message = self._on_message
        client.connect("127.0.0.1", port)
        client.loop_start()

    def __enter__(self) -> EventsHeard:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def silent_s(self, box: str, since: float, end: float) -> float:
        """The longest time in which no message of a box came."""
        return longest_gap([m.at_s for m in self.messages if m.destination == box], since, end).length_s

    def _on_message(self, _client: Any, _data: Any, message: paho.MQTTMessage) -> None:
        box, _, topic = message.topic.partition("/")
        body = json.loads(message.payload)
        what = "object" if topic == "events" else "alarm"
        self.messages.append(
            ReceivedMessage(time.monotonic(), box, what, int(body["id"]), str(body["phase"]), str(body["message_id"]))
        )


@dataclass(frozen=True)
class BoxRow:
    """An object or alarm that a box has a record of, as REST has it."""

    box: str
    what: str
    row: Mapping[str, Any]

    def same_as(self, other: BoxRow) -> bool:
        """Whether another box seems to have a record of the same object."""
        apart_s = abs(self.row["began_utc_s"] - other.row["began_utc_s"])
        return self.box != other.box and self.row["camera"] == other.row["camera"] and apart_s <= _SAME_S


def rows_of(box: RealBox) -> list[BoxRow]:
    """All objects and alarms that a box has records of. Raises TimeoutError where it does not answer."""
    return [BoxRow(box.name, what, row) for what, row in records(lambda path: asked(box, path))]


def _sent(box: RealBox) -> bool:
    """Whether no message of a box waits."""
    outputs = box.ask("/outputs")
    return outputs is not None and outputs["mqtt"]["state"]["waiting"] == 0 and outputs["unwritten"] == 0


def check_events(boxes: Sequence[RealBox], heard: EventsHeard, kills: Mapping[str, float]) -> dict[str, Any]:
    """Events on record, lost and doubled on the way to the broker. `kills`: epoch seconds at which a box was killed;
    beginnings and ends of its last second are left out. Raises TimeoutError."""
    rows = [row for box in boxes for row in rows_of(box)]
    for _ in range(2):  # what was between the records and the queue at the first look is in the queue at the second
        for box in boxes:
            until(lambda b=box: _sent(b), f"{box.name} has sent all messages", 60)  # type: ignore[misc]
        time.sleep(2.0)
    messages = list(heard.messages)
    checked = [
        events_delivered(
            [recorded(r.what, r.row) for r in rows if r.box == box.name], messages, (box.name,),
            [kills[box.name]] if box.name in kills else (),
        )
        for box in boxes
    ]  # fmt: skip
    once = events_once(messages)
    said = [b.said for c in (*checked, once) for b in c.breaks]
    return {
        "on_record": len(rows),
        "beginnings_and_ends": sum(c.checks for c in checked),
        "checked_by_box": {box.name: c.checks for box, c in zip(boxes, checked, strict=True)},
        "messages": len(messages),
        "lost": sum(len(c.breaks) for c in checked),
        "doubled": len(once.breaks),
        "same_message_again": sent_again(messages),
        "said": said[:5],
    }


def seen_twice(boxes: Sequence[RealBox], cameras: Sequence[str]) -> dict[str, int]:
    """Pairs of objects, one of each of two boxes, that began at the same time on one camera: in the overlaps that a box
    marked, and at other times."""
    marked = [o for box in boxes for o in box.status().get("overlaps", ()) if o["camera"] in cameras]
    objects = [row for box in boxes for row in rows_of(box) if row.what == "object" and row.row["camera"] in cameras]
    found = {"in_a_marked_overlap": 0, "elsewhere": 0}
    for one, other in combinations(objects, 2):
        if one.same_as(other):
            at_s, camera = one.row["began_utc_s"], one.row["camera"]
            inside = any(
                o["camera"] == camera and o["start_utc_s"] - _AROUND_S <= at_s <= o["end_utc_s"] + _AROUND_S
                for o in marked
            )
            found["in_a_marked_overlap" if inside else "elsewhere"] += 1
    return found
