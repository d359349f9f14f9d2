"""`magpie clips`: clips of a running appliance: list, make, get."""

from __future__ import annotations

import argparse
import hashlib
import time
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from rich.console import Console
from rich.table import Table

from edge.commands.remote import Remote, add_remote_arguments, remote_of
from edge.commands.times import local
from edge.core.errors import Conflict, MagpieError, StoreError
from edge.files import os_errors, whole_file

_COLUMNS: Final = ("clip", "camera", "moment", "state", "seconds", "codec", "MB", "alarms", "asked by")
_LOOK_S: Final = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Command line of `magpie clips`."""
    add_remote_arguments(parser)
    what = parser.add_subparsers(dest="what", required=True)
    listed = what.add_parser("list", help="clips, newest first")
    listed.add_argument("--camera", help="only of this camera")
    listed.add_argument("--limit", type=int, default=50, help="how many at most (%(default)s)")
    made = what.add_parser("make", help="make a clip around now; waits until it is there")
    made.add_argument("--camera", required=True, help="id of the camera")
    made.add_argument("--before", type=float, metavar="S", help="seconds before now (the camera's)")
    made.add_argument("--after", type=float, metavar="S", help="seconds after now (the camera's)")
    made.add_argument("--output", type=Path, metavar="FILE", help="write it there, too")
    got = what.add_parser("get", help="download a clip and compare its SHA-256")
    got.add_argument("clip", type=int, help="id of the clip")
    got.add_argument("--output", type=Path, metavar="FILE", help="(CAMERA-CLIP.mp4)")


def run(args: argparse.Namespace) -> int:
    """0: done. Raises MagpieError: no such clip or camera, a clip that could not be made, a file that is damaged."""
    remote = remote_of(args)
    if args.what == "list":
        _list(remote, args)
    elif args.what == "make":
        _make(remote, args)
    else:
        _get(remote, args.clip, args.output)
    return 0


def _list(remote: Remote, args: argparse.Namespace) -> None:
    asked = {"limit": args.limit} | ({} if args.camera is None else {"camera": args.camera})
    table = Table(*_COLUMNS)
    for clip in remote.ask("GET", f"/clips?{urlencode(asked)}"):
        when, video, failure = local(clip["at_utc_s"]), clip["video"], clip["failure"]
        state = clip["state"] if failure is None else f"{clip['state']}: {failure['fault']}"
        about = ("", "", "") if video is None else (video["seconds"], video["codec"], f"{video['bytes'] / 1e6:.1f}")
        alarms = " ".join(map(str, clip["alarms"]))
        table.add_row(*map(str, (clip["id"], clip["camera"], when, state, *about, alarms, clip["asked_by"])))
    Console().print(table)


def _make(remote: Remote, args: argparse.Namespace) -> None:
    wanted = {"camera": args.camera, "before_s": args.before, "after_s": args.after}
    clip = remote.ask("POST", "/clips", {k: v for k, v in wanted.items() if v is not None})
    while clip["state"] == "making":
        time.sleep(_LOOK_S)
        clip = remote.ask("GET", f"/clips/{clip['id']}")
    if clip["state"] != "kept":
        raise Conflict(f"clip {clip['id']} could not be made: {clip['failure']['fault']}")
    console, video = Console(), clip["video"]
    console.print(f"clip {clip['id']}: {video['seconds']:g} s, {video['codec']}, SHA-256 {video['sha256']}")
    for words, missing in (("begins", "missing_before_s"), ("ends", "missing_after_s")):
        if video[missing]:
            console.print(
                f"it {words} {video[missing]:g} s {'late' if words == 'begins' else 'early'} ({video['end']})"
            )
    if args.output is not None:
        _get(remote, clip["id"], args.output)


def _get(remote: Remote, number: int, output: Path | None) -> None:
    clip: Any = remote.ask("GET", f"/clips/{number}")
    if clip["state"] != "kept":
        raise MagpieError(f"clip {number} has no video: it is {clip['state']}")
    digest = clip["video"]["sha256"]
    path = output or Path(f"{clip['camera']}-{number}.mp4")
    with os_errors(path), whole_file(path) as stream:
        remote.fetch(f"/clips/{number}/download", stream.write)
        stream.seek(0)
        if hashlib.file_digest(stream, "sha256").hexdigest() != digest:
            raise StoreError(f"clip {number} is damaged: its SHA-256 is not {digest}")
    Console().print(f"{path}: {path.stat().st_size} bytes, SHA-256 {digest}")
