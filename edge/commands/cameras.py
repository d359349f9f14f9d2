"""`magpie cameras discover`: cameras on this machine's networks and the streams that they offer."""

from __future__ import annotations

import argparse
import getpass
import json
import sys
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from edge.appliance.answers.discovery import FoundCamera, FoundCameras, FoundStream
from edge.appliance.answers.read import plain
from edge.appliance.discovery import found_cameras
from edge.core.discovery import PROPOSALS, DeviceFault, StreamNeed, Verdict
from edge.core.errors import InvalidValue
from edge.ingest.secrets import Secret, resolve_secret
from edge.runtime.students import input_of
from edge.settings import CameraSearch, parse

_FAULTS: Final[dict[DeviceFault, str]] = {
    "unreachable": "nobody answers there",
    "silent": "no answer in time",
    "refused": "wants another user name or password",
    "elsewhere": "names another host, which was not asked",
    "redirected": "sends elsewhere, which was not followed",
    "too_large": "an answer is too long",
    "unreadable": "no answer of an ONVIF device",
    "no_profiles": "offers no stream",
}
_VERDICTS: Final[dict[Verdict, str]] = {
    "proposed": "proposed",
    "nearest": "proposed: nearest to what is wanted",
    "dearer": "good, but dearer",
    "no_encoder": "no video",
    "codec": "neither H.264 nor H.265",
    "too_small": "picture too small",
    "too_slow": "too few pictures a second",
    "no_address": "gives no RTSP address",
    "elsewhere": "its address is of another host",
    "password_in_address": "a password is in its address",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Command line of `magpie cameras`."""
    what = parser.add_subparsers(dest="what", required=True)
    found = what.add_parser("discover", help="search this machine's networks, or ask given addresses")
    found.add_argument(
        "--address", action="append", default=[], metavar="HOST",
        help="ask this device alone: host, host:port or http://host:port/path; again for more",
    )  # fmt: skip
    found.add_argument("--network", default="", metavar="CIDR", help="search this network of the machine's alone")
    found.add_argument("--user", default="", help="user name at the cameras; the password is asked for")
    found.add_argument("--password-from", default="", metavar="REF", help="env:NAME or file:/path[#key] instead")
    found.add_argument("--fps", type=float, default=5.0, help="pictures a second that are wanted (%(default)g)")
    found.add_argument("--student", default="", help="the student whose input the picture should fill")
    found.add_argument("--json", action="store_true", help="as REST answers it")


def run(args: argparse.Namespace) -> int:
    """0: done, also where nothing was found. Raises InvalidValue(s)."""
    asked = {"addresses": args.address, "network": args.network, "username": args.user, "fps": args.fps}
    wanted = parse(CameraSearch, asked)
    need = StreamNeed(*input_of(args.student), wanted.fps)
    found = found_cameras(wanted, _password(args), need)
    if args.json:
        sys.stdout.write(json.dumps(plain(FoundCameras, found), indent=2) + "\n")
    else:
        _show(found)
    return 0


def _password(args: argparse.Namespace) -> Secret:
    if args.password_from:
        return resolve_secret(args.password_from, "--password-from")
    if not args.user:
        return Secret()
    if not sys.stdin.isatty():
        raise InvalidValue("--password-from", "", "env:NAME or file:/path[#key]: there is no terminal to ask at")
    return Secret(getpass.getpass(f"Password of {args.user}: "))


def _show(found: FoundCameras) -> None:
    table = Table("camera", "name", "stream", "codec", "picture", "fps", "kbit/s", "", "address")
    for camera in found.cameras:
        first = (camera.address, camera.name)
        for stream in camera.streams:
            table.add_row(*map(Text, (*first, *_cells(stream))))
            first = ("", "")
        if not camera.streams:
            table.add_row(*map(Text, (*first, "", "", "", "", "", _why(camera), "")))
    console = Console()
    console.print(table)
    need = found.need
    console.print(f"wanted: a picture that fills {need.width} x {need.height}, {need.fps:g} times a second")
    lost = {"from another network": found.outside, "unreadable": found.unreadable, "beyond the limits": found.over}
    for words, count in lost.items():
        if count:
            console.print(f"{count} answers not used: {words}")
    for camera in found.cameras:
        if camera.streams_lost:
            console.print(Text(f"{camera.address}: {camera.streams_lost} streams not used"))


def _why(camera: FoundCamera) -> str:
    words = "" if camera.fault is None else _FAULTS[camera.fault]
    return f"{words}: {camera.elsewhere}" if camera.elsewhere else words


def _cells(stream: FoundStream) -> tuple[str, ...]:
    size = f"{stream.width} x {stream.height}" if stream.width else ""
    mark = "* " if stream.verdict in PROPOSALS else ""
    fps, kbps = (f"{n:g}" if n else "" for n in (stream.fps, stream.bitrate_kbps))
    return stream.name or stream.token, stream.codec, size, fps, kbps, mark + _VERDICTS[stream.verdict], stream.url
