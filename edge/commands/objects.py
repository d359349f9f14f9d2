"""`magpie objects`: objects of a running appliance, found by place, time and stay; a camera's day."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from datetime import date, datetime
from typing import Any, Final
from urllib.parse import quote, urlencode

from rich.console import Console
from rich.table import Table

from edge.commands.remote import Remote
from edge.core.errors import InvalidValue
from edge.ingest.secrets import resolve_secret

_COLUMNS: Final = ("object", "camera", "class", "came", "stay s", "zones", "lines", "attributes", "picture")
_PAGE: Final = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Command line of `magpie objects`."""
    parser.add_argument("--url", default="http://127.0.0.1:8080", help="a running appliance (%(default)s)")
    parser.add_argument("--token-from", default="", metavar="REF", help="env:NAME or file:/path[#key], an API token")
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
    remote = Remote(args.url, resolve_secret(args.token_from, "--token-from"))
    if args.what == "find":
        _find(remote, args)
    else:
        _day(remote, args.camera, args.day)
    return 0


def _find(remote: Remote, args: argparse.Namespace) -> None:
    asked = {
        "cameras": ",".join(args.camera), "classes": ",".join(args.classes), "zone": args.zone, "line": args.line,
        "way": args.way, "from": _utc_s("--from", args.from_), "to": _utc_s("--to", args.to), "least_s": args.least,
        "most_s": args.most, "attribute": args.attribute,
    }  # fmt: skip
    given = {name: value for name, value in asked.items() if value not in (None, "")}
    table = Table(*_COLUMNS)
    for one in _found(remote, given, args.limit):
        table.add_row(*map(str, _row(one)))
    Console().print(table)


def _found(remote: Remote, asked: dict[str, Any], limit: int) -> Iterator[Any]:
    """The newest `limit` objects, over as many pages as that takes."""
    left, after = limit, None
    while left > 0:
        paging = {"limit": min(left, _PAGE)} | ({} if after is None else {"after": after})
        page = remote.ask("GET", f"/objects/search?{urlencode(asked | paging)}")
        yield from page["found"]
        left, after = left - len(page["found"]), page["next"]
        if after is None:
            return


def _row(one: Any) -> tuple[object, ...]:
    seen = one["object"]
    ended = seen["ended_utc_s"]
    stay = "there" if ended is None else f"{ended - seen['began_utc_s']:.1f}"
    lines = " ".join(f"{line['line']}:{line['way']}" for line in one["lines"])
    attributes = " ".join(f"{name}:{said['value']}" for name, said in seen["attributes"].items())
    picture = "yes" if seen["picture"] else ""
    came = _local(seen["began_utc_s"])
    return seen["id"], seen["camera"], seen["class"], came, stay, " ".join(seen["zones"]), lines, attributes, picture


def _day(remote: Remote, camera: str, day: str | None) -> None:
    asked = {"bucket_s": 3600} | ({} if day is None else {"day": _checked_day(day)})
    found = remote.ask("GET", f"/cameras/{quote(camera, safe='')}/timeline?{urlencode(asked)}")
    console, hours = Console(), Table("hour", "objects")
    for mark, bucket in zip(found["hours"], found["buckets"], strict=True):
        hours.add_row(mark["label"], ", ".join(f"{n} {name}" for name, n in bucket["objects"].items()))
    console.print(f"{camera}, {found['day']} (camera: {found['camera_state']})")
    console.print(hours)
    table = Table("when", "what", "until", "about")
    for when, *rest in sorted(_happened(found), key=lambda row: row[0]):
        table.add_row(_local(when), *rest)
    console.print(table)


def _happened(found: Any) -> Iterator[tuple[float, str, str, str]]:
    for alarm in found["alarms"]:
        yield alarm["began_utc_s"], "alarm", _local(alarm["ended_utc_s"]), f"{alarm['severity']}: {alarm['message']}"
    for one in found["retrainings"]:
        about = f"window {one['window']}: {'promoted' if one['promoted'] else one['state']}"
        yield one["started_utc_s"], "retraining", _local(one["ended_utc_s"]), about
    for one in found["outages"]:
        about = " ".join(filter(None, (one["cause"], one["fault"])))
        yield one["from_utc_s"], "not watched", _local(one["to_utc_s"]), about
    for clip in found["clips"]:
        yield clip["at_utc_s"], "clip", "", f"{clip['id']}: {clip['state']}"


def _local(utc_s: float | None) -> str:
    """A time of this machine's zone; "" for none."""
    return "" if utc_s is None else datetime.fromtimestamp(utc_s).astimezone().isoformat(timespec="seconds")


def _utc_s(option: str, text: str | None) -> float | None:
    """A time of ISO 8601; without a zone it is one of this machine's."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).astimezone().timestamp()
    except (ValueError, OverflowError, OSError):
        raise InvalidValue(option, text, "a time as 2026-11-26, 2026-11-26T07:00 or 2026-11-26T07:00+01:00") from None


def _checked_day(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise InvalidValue("--day", text, "a day as 2026-11-26") from None
