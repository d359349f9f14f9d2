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

from edge.appliance.answers.discovery import FoundCamera, FoundCameras, FoundStream, NeedAnswer
from edge.appliance.answers.read import plain
from edge.appliance.discovery import found_cameras, searched
from edge.appliance.stream_needs import read_need
from edge.core.discovery import PROPOSALS, DeviceFault, Verdict
from edge.core.errors import InvalidValue
from edge.ingest.secrets import Secret, resolve_secret
from edge.settings import CameraSearch, parse

_FAULTS: Final[dict[DeviceFault, str]] = {
    "unreachable": "no device answers there",
    "unknown_name": "this name leads nowhere",
    "tls": "its TLS cannot be used, or it has none",
    "silent": "no answer in time",
    "not_asked": "not asked: the time of the search was over",
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
    "no_size": "does not say how large its picture is",
    "codec": "neither H.264 nor H.265",
    "too_small": "picture too small",
    "too_slow": "too few pictures a second",
    "no_address": "gives no RTSP address",
    "elsewhere": "its address is of another host",
    "password_in_address": "a password is in its address",
    "refused": "its address wants another user name or password",
    "silent": "its address did not come in time",
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
    if args.password_from and not args.user:
        raise InvalidValue("--password-from", "(not shown)", "only with --user")
    asked = {"addresses": args.address, "network": args.network, "username": args.user, "fps": args.fps}
    asked["student"] = {"model": args.student}
    wanted = parse(CameraSearch, asked)
    need = read_need(wanted)
    found = found_cameras(searched(wanted, _password(args)), need)
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
    console.print(Text(_wanted(found.need)))
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


def _wanted(need: NeedAnswer) -> str:
    size, rate = f"{need.width} x {need.height}", f"{need.fps:g} times a second"
    if need.fixed:
        return f"wanted: a picture that fills {size}, {rate}"
    return f"wanted: a picture that fills an input of its own proportions, as large as {size}, {rate}"
