"""`magpie objects`: objects of a running appliance, found by place, time and stay; a camera's day."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any, Final
from urllib.parse import quote, urlencode

from rich.console import Console
from rich.table import Table

from edge.commands.remote import Remote, add_remote_arguments, remote_of
from edge.commands.times import checked_day, local, utc_s
from edge.core.errors import InvalidValue

_COLUMNS: Final = ("object", "camera", "class", "came", "stay s", "zones", "lines", "attributes", "picture")
_PAGE: Final = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Command line of `magpie objects`."""
    add_remote_arguments(parser)
    what = parser.add_subparsers(dest="what", required=True)
    found = what.add_parser("find", help="objects that were followed, newest first")
    found.add_argument("--camera", action="append", default=[], help="of this camera; may be given several times")
    found.add_argument("--class", dest="classes", action="append", default=[], help="of this class; several times")
    found.add_argument("--zone", help="that were in this zone")
    found.add_argument("--line", help="that crossed this line")
    found.add_argument("--way", choices=("forward", "backward"), help="with --line: in this direction")
    found.add_argument("--from", dest="from_", metavar="TIME", help="that came then or later: 2026-11-26T07:00")
    found.add_argument("--to", metavar="TIME", help="that came before")
    found.add_argument("--least", type=float, metavar="S", help="that were in view for so many seconds at least")
    found.add_argument("--most", type=float, metavar="S", help="and so many at most")
    found.add_argument("--attribute", metavar="NAME:LABEL", help="an application's label: colour:red")
    found.add_argument("--limit", type=int, default=50, help="how many at most (%(default)s)")
    day = what.add_parser("day", help="a camera's day: objects by hour, alarms, retrainings, outages, clips")
    day.add_argument("--camera", required=True, help="id of the camera")
    day.add_argument("--day", metavar="DAY", help="2026-11-26, in the appliance's time zone (today)")


def run(args: argparse.Namespace) -> int:
    """0: done. Raises MagpieError: no such camera, a time that cannot be read, an appliance that does not answer."""
    remote = remote_of(args)
    if args.what == "find":
        _find(remote, args)
    else:
        _day(remote, args.camera, args.day)
    return 0


def _find(remote: Remote, args: argparse.Namespace) -> None:
    if args.limit < 1:
        raise InvalidValue("--limit", args.limit, "1 or more")
    asked = {
        "cameras": args.camera, "classes": args.classes, "zone": args.zone, "line": args.line, "way": args.way,
        "from": _when("--from", args.from_), "to": _when("--to", args.to), "least_s": args.least,
        "most_s": args.most, "attribute": args.attribute,
    }  # fmt: skip
    given = {name: value for name, value in asked.items() if value not in (None, "", [])}
    table, console = Table(*_COLUMNS), Console()
    left, after, back = args.limit, None, None
    while left > 0:
        paging = {"limit": min(left, _PAGE)} | ({} if after is None else {"after": after})
        page = remote.ask("GET", f"/objects/search?{urlencode(given | paging, doseq=True)}")
        for one in page["found"]:
            table.add_row(*map(str, _row(one)))
        left, after, back = left - len(page["found"]), page["next"], page["looked_back_to_utc_s"]
        if after is None:
            break
    console.print(table)
    if after is not None and back is not None:
        console.print(f"The newest that came from {local(back)} on; there may be older ones (--limit).")


def _when(option: str, text: str | None) -> float | None:
    return None if text is None else utc_s(option, text)


def _row(one: Any) -> tuple[object, ...]:
    seen = one["object"]
    ended = seen["ended_utc_s"]
    stay = "there" if ended is None else f"{ended - seen['began_utc_s']:.1f}"
    lines = " ".join(f"{line['line']}:{line['way']}" for line in one["lines"])
    attributes = " ".join(f"{name}:{said['value']}" for name, said in seen["attributes"].items())
    picture = "yes" if seen["picture"] else ""
    came = local(seen["began_utc_s"])
    return seen["id"], seen["camera"], seen["class"], came, stay, " ".join(seen["zones"]), lines, attributes, picture


def _day(remote: Remote, camera: str, day: str | None) -> None:
    asked = {"bucket_s": 3600} | ({} if day is None else {"day": checked_day("--day", day)})
    found = remote.ask("GET", f"/cameras/{quote(camera, safe='')}/timeline?{urlencode(asked)}")
    console, hours = Console(), Table("hour", "objects")
    for mark, bucket in zip(found["hours"], found["buckets"], strict=True):
        hours.add_row(mark["label"], ", ".join(f"{n} {name}" for name, n in bucket["objects"].items()))
    console.print(f"{camera}, {found['day']} (camera: {found['camera_state']})")
    console.print(hours)
    table = Table("when", "what", "until", "about")
    for when, *rest in sorted(_happened(found), key=lambda row: row[0]):
        table.add_row(_of_box(found, when), *rest)
    console.print(table)
    known = found["known_from_utc_s"]
    if known is None:
        console.print("Whether the camera was watched on this day is not known.")
    elif known > found["from_utc_s"]:
        console.print(f"Whether the camera was watched before {_of_box(found, known)} is not known.")
    if found["cut"]:
        console.print(f"Not all of the day are shown, there are too many: {', '.join(found['cut'])}.")


def _happened(found: Any) -> Iterator[tuple[float, str, str, str]]:
    for alarm in found["alarms"]:
        about = f"{alarm['severity']}: {alarm['message']}"
        yield alarm["began_utc_s"], "alarm", _of_box(found, alarm["ended_utc_s"]), about
    for one in found["retrainings"]:
        about = f"window {one['window']}: {'promoted' if one['promoted'] else one['state']}"
        yield one["started_utc_s"], "retraining", _of_box(found, one["ended_utc_s"]), about
    for one in found["outages"]:
        about = " ".join(filter(None, (one["cause"], one["fault"])))
        yield one["from_utc_s"], "not watched", _of_box(found, one["to_utc_s"]), about
    for clip in found["clips"]:
        yield clip["at_utc_s"], "clip", "", f"{clip['id']}: {clip['state']}"


def _of_box(day: Any, at_utc_s: float | None) -> str:
    """A time as the box's clock showed it on this day; "" for none."""
    if at_utc_s is None:
        return ""
    hours = day["hours"]
    hour = next((h for h in reversed(hours) if h["at_utc_s"] <= at_utc_s), hours[0])
    zone = timezone(timedelta(seconds=hour["ahead_s"]))
    return datetime.fromtimestamp(at_utc_s, zone).isoformat(timespec="seconds")
