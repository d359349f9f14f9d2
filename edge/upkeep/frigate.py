"""A Frigate configuration as a Magpie site: the parts that can be carried over, and a list of the others. Pure.

The shape of the file is that of Frigate's reference configuration (0.14 to 0.17): `cameras.NAME.ffmpeg.inputs` with
`path` and `roles`, `detect`, `objects.track`, global sections that a camera may override, `{FRIGATE_NAME}` in paths for
environment variables, and `rtsp://127.0.0.1:8554/NAME` for a stream of the `go2rtc` section.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from edge.core.errors import InvalidValue, InvalidValues
from edge.settings import CameraSettings, ZoneSettings, parse

Json = dict[str, Any]
_RESTREAM = re.compile(r"rtsps?://(?:[^/@]*@)?(?:127\.0\.0\.1|localhost|go2rtc|frigate):8554/([^?#]+)")
_VARIABLE = re.compile(r"\{(FRIGATE_[A-Za-z0-9_]+)\}")
#: Any other name in braces, as go2rtc writes variables, too. Frigate fills in none but those above.
_OTHER = re.compile(r"\$?\{(?!FRIGATE_[A-Za-z0-9_]+\})[^{}]*\}")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:@/]+)(:\d+)?")
_DEFAULT_TRACK = ("person",)
#: Sections of a camera (or of the whole file) that say what Magpie does otherwise or not at all.
_USED = frozenset({"ffmpeg", "detect", "objects", "enabled", "friendly_name", "name", "zones"})
_WHY: Mapping[str, str] = {
    "motion": "Magpie looks at whole pictures; motion masks and thresholds have no place",
    "record": "Magpie is no recorder: keep yours",
    "snapshots": "Magpie keeps pictures for retraining only",
    "detectors": "Magpie finds and shares its devices itself",
    "model": "each camera has a student of its own",
    "mqtt": "set up outputs in Magpie",
    "go2rtc": "cameras are read from their own addresses; streams for other programs are not given",
    "audio": "sound is not used",
}


@dataclass(frozen=True)
class Imported:
    """`site`: the configuration as plain YAML values; `secrets`: entries for the file that its `password_from` name;
    `left`: the parts not carried over, as (path in the Frigate file, why)."""

    site: Json
    secrets: Mapping[str, str]
    left: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class _Address:
    url: str
    username: str = ""
    password_from: str = ""
    secret: tuple[str, str] | None = None
    unknown: tuple[str, ...] = ()  # variables of which no value is known


def import_frigate(config: Any, secrets_file: str, variables: Mapping[str, str] | None = None) -> Imported:
    """Carry cameras over. `secrets_file`: the path under which the passwords will be found. `variables` are Frigate's
    environment variables (`FRIGATE_...`), as far as they are known: they stand in addresses and user names.

    Raises InvalidValue for what is not a Frigate configuration, or one without a camera that can be read.
    """
    root = _mapping(config, "(file)")
    cameras = _mapping(root.get("cameras"), "cameras")
    if not cameras:
        raise InvalidValue("cameras", config.get("cameras"), "at least one camera")
    left = [(key, _WHY.get(key, "not known to Magpie")) for key in root if key not in (*_USED, "cameras", "version")]
    made: list[Json] = []
    secrets: dict[str, str] = {}
    taken: set[str] = set()
    for name, value in cameras.items():
        path = f"cameras.{name}"
        camera = _mapping(value, path)
        if str(name).startswith("."):
            continue  # a YAML anchor's holder
        identity = _identity(str(name), taken)
        found, words = _camera(identity, str(name), camera, root, secrets_file, variables or {})
        left += [(f"{path}.{inner}" if inner else path, why) for inner, why in words]
        if found is None:
            continue
        settings, secret = found
        taken.add(identity)
        parse(CameraSettings, settings, path)  # `magpie run` takes the file written here
        made.append(settings)
        if secret is not None:
            secrets[secret[0]] = secret[1]
    if not made:
        why = "; ".join(f"{where}: {words}" for where, words in left if where.startswith("cameras."))
        raise InvalidValue("cameras", ", ".join(map(str, cameras)), f"a camera with an rtsp:// input ({why})")
    return Imported({"cameras": made}, secrets, tuple(left))


def _camera(
    identity: str, name: str, camera: Json, root: Json, secrets_file: str, variables: Mapping[str, str]
) -> tuple[tuple[Json, tuple[str, str] | None] | None, list[tuple[str, str]]]:
    left = [(key, _WHY.get(key, "not known to Magpie")) for key in camera if key not in _USED]
    source, more = _source(camera, root)
    left += more
    if source is None:
        return None, left
    address = _address(source, identity, secrets_file, variables)
    if address.unknown:
        names = ", ".join(dict.fromkeys(address.unknown))
        return None, [*left, ("ffmpeg.inputs", f"{names} has no value here: set it and import again, or write it in")]
    if not re.match(r"^rtsps?://", address.url):
        scheme = source.partition(":")[0][:20]
        return None, [*left, ("ffmpeg.inputs", f"{scheme}: addresses are not read; give its rtsp:// stream")]
    detect = _overlaid(root, camera, "detect")
    objects = _overlaid(root, camera, "objects")
    settings: Json = {"id": identity, "name": str(camera.get("friendly_name") or name)[:120], "url": address.url}
    if address.username:
        settings["username"] = address.username
    if address.password_from:
        settings["password_from"] = address.password_from
    if camera.get("enabled", True) is False:
        settings["enabled"] = False
    settings["classes"] = _classes(objects, left)
    fps = _number(detect.get("fps"))
    if fps is not None:
        settings["inference"] = {
            "frame_rates": sorted({min(fps, 60.0), *(r for r in (2.5, 1.0) if r < fps)}, reverse=True)
        }
    zones = _zones(camera, settings["classes"], detect, left)
    if zones:
        settings["zones"] = zones
    student = _student_size(detect, left)
    if student:
        settings["student"] = student
    left += [(f"detect.{k}", "no such setting") for k in detect if k in _mapping(camera.get("detect"), "detect")
             and k not in ("fps", "width", "height", "enabled")]  # fmt: skip
    if detect.get("enabled") is False:
        left.append(
            ("detect.enabled", "false in Frigate; Magpie's students answer on every camera that is switched on")
        )
    for key in ("mask", "filters"):
        if objects.get(key):
            left.append((f"objects.{key}", "answers are not filtered by place, size or score of each object"))
    if address.password_from.startswith("env:"):
        left.append(("ffmpeg.inputs", "its password is read from the environment variable that Frigate used: set it"))
    return (settings, address.secret), left


def _source(camera: Json, root: Json) -> tuple[str | None, list[tuple[str, str]]]:
    """The address to detect on: the input with that role, else the only one, else the first; streams of go2rtc are
    followed to the camera."""
    ffmpeg = _mapping(camera.get("ffmpeg"), "ffmpeg")
    inputs = [_mapping(i, "ffmpeg.inputs") for i in ffmpeg.get("inputs") or ()]
    left = [(f"ffmpeg.{key}", "Magpie decodes without FFmpeg's options") for key in ffmpeg if key != "inputs"]
    if not inputs:
        return None, [*left, ("ffmpeg.inputs", "no input")]
    chosen = next((i for i in inputs if "detect" in _roles(i)), inputs[0])
    for number, other in enumerate(inputs):
        if other is not chosen:
            left.append(
                (f"ffmpeg.inputs[{number}]", f"only the detect stream is read (roles: {', '.join(_roles(other))})")
            )
        elif set(_roles(other)) - {"detect"}:
            roles = sorted(set(_roles(other)) - {"detect"})
            left.append((f"ffmpeg.inputs[{number}].roles", f"not done by Magpie: {', '.join(roles)}"))
    path = str(chosen.get("path") or "")
    restream = _RESTREAM.fullmatch(path.strip())
    if restream is not None:
        streams = _mapping(_mapping(root.get("go2rtc"), "go2rtc").get("streams"), "go2rtc.streams")
        stream = streams.get(restream[1])
        candidates = [stream] if isinstance(stream, str) else list(stream or ())
        direct = next((str(s) for s in candidates if re.match(r"^rtsps?://", str(s))), None)
        if direct is not None:
            path = direct.partition("#")[0]
        else:
            left.append(("ffmpeg.inputs", "reads go2rtc's own stream: that program must go on running"))
    return (path.strip() or None), left


def _filled_in(text: str, variables: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """`text` with the values of its variables, and those without one."""
    unknown = tuple(dict.fromkeys(name for name in _VARIABLE.findall(text) if name not in variables))
    return _VARIABLE.sub(lambda m: variables.get(m[1], m[0]), text), unknown


def _address(source: str, identity: str, secrets_file: str, variables: Mapping[str, str]) -> _Address:
    """Credentials out of the address; a password becomes an entry of the secrets file, or the variable that it was."""
    given, credentials = _without_credentials(source)
    url, unknown = _filled_in(given, variables)
    unknown = (*_OTHER.findall(source), *unknown)
    if not credentials:  # they may have been in a variable
        url, credentials = _without_credentials(url)
    elif _VARIABLE.fullmatch(credentials):
        credentials, unknown_both = _filled_in(credentials, variables)
        unknown += unknown_both
    user, _, password = credentials.partition(":")
    name, unknown_user = _filled_in(unquote(user), variables)
    unknown += unknown_user
    # A value may name a variable, which Frigate does not fill in either.
    unknown += tuple(_VARIABLE.findall(url + name))
    if not password:
        return _Address(url, name, unknown=unknown)
    variable = _VARIABLE.fullmatch(password)
    if variable is not None:
        return _Address(url, name, f"env:{variable[1]}", unknown=unknown)
    # The value of a variable stands as it is; the parts of the address are percent-encoded.
    secret, unknown_part = _filled_in(unquote(password), variables)
    unknown += (*unknown_part, *_VARIABLE.findall(secret))
    return _Address(url, name, f"file:{secrets_file}#{identity}", (identity, secret), unknown)


def _without_credentials(source: str) -> tuple[str, str]:
    """(address, user:password or nothing)."""
    match = re.match(r"^(rtsps?://)(.*)$", source, re.S)
    if match is None:
        return source, ""
    scheme, rest = match[1], match[2]
    authority = rest.partition("/")[0]
    if "@" in authority and _HOST.fullmatch(authority.rpartition("@")[2]):
        # A password may have an @ that was not encoded: the host begins after the last one before the path.
        credentials, _, host = authority.rpartition("@")
        return scheme + host + rest[len(authority) :], credentials
    if "@" in rest and not _HOST.fullmatch(authority):
        # ... or a slash: the text before the first one is not a host. Nothing can read such an address, but nothing
        # of the password may stay in it.
        credentials, _, after = rest.rpartition("@")
        return scheme + after, credentials
    return source, ""


def _classes(objects: Json, left: list[tuple[str, str]]) -> list[str]:
    track = [str(t) for t in objects.get("track") or _DEFAULT_TRACK]
    kept = [name for name in dict.fromkeys(track) if 0 < len(name) <= 60]
    if len(kept) != len(set(track)):
        left.append(("objects.track", "names of more than 60 characters"))
    return kept or list(_DEFAULT_TRACK)


def _zones(camera: Json, classes: list[str], detect: Json, left: list[tuple[str, str]]) -> list[Json]:
    """Zones whose coordinates Magpie takes, too: fractions of the picture, or pixels of the detect stream."""
    out: list[Json] = []
    for name, value in _mapping(camera.get("zones"), "zones").items():
        path, zone = f"zones.{name}", _mapping(value, f"zones.{name}")
        polygon = _polygon(zone.get("coordinates"), _number(detect.get("width")), _number(detect.get("height")))
        identity = _identity(name, {z["name"] for z in out})
        given = zone.get("objects") or ()
        of = [str(o) for o in ([given] if isinstance(given, str) else given)]
        made: Json = {"name": identity, "polygon": polygon or ()}
        if kept := [o for o in dict.fromkeys(of) if o in classes]:
            made["classes"] = kept
        try:
            parse(ZoneSettings, made, path)
        except InvalidValues as error:
            left.append((path, f"draw it again: {error.problems[0].path.removeprefix(path + '.')}: "
                               f"{error.problems[0].allowed}"))  # fmt: skip
            continue
        if of and not kept:
            left.append((path, f"for objects that the camera does not track: {', '.join(of)}"))
            continue
        out.append(made)
        left += [(f"{path}.objects", f"not tracked by the camera: {o}") for o in of if o not in classes]
        if zone.get("loitering_time"):
            left.append((f"{path}.loitering_time", f"make a rule with dwell_s: {zone['loitering_time']}"))
        known = ("coordinates", "objects", "loitering_time")
        left += [(f"{path}.{key}", "no such setting") for key in zone if key not in known]
    return out


def _polygon(coordinates: Any, width: float | None, height: float | None) -> list[list[float]] | None:
    """Points in fractions of the picture; None for anything but a list of them."""
    text = ",".join(map(str, coordinates)) if isinstance(coordinates, list | tuple) else str(coordinates or "")
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        return None
    if len(numbers) % 2:
        return None
    points = [[x, y] for x, y in zip(numbers[::2], numbers[1::2], strict=True)]
    if any(v > 1 for v in numbers):  # as before Frigate 0.14
        if width is None or height is None:
            return None
        points = [[x / width, y / height] for x, y in points]
    # A point may lie on the picture's far edge.
    return [[min(1.0, round(v, 4)) if v <= 1.01 else v for v in point] for point in points]


def _student_size(detect: Json, left: list[tuple[str, str]]) -> Json:
    """The student's input in the shape of the detect stream, about as large as the student's usual one."""
    width, height = _number(detect.get("width")), _number(detect.get("height"))
    if width is None or height is None:
        return {}
    factor = min(1.0, 320.0 / width, 320.0 / height)
    size = {
        "input_height": max(32, round(height * factor / 32) * 32),
        "input_width": max(32, round(width * factor / 32) * 32),
    }
    seen = f"{size['input_width']} by {size['input_height']}"
    left.append(("detect.width, height", f"pictures come in the stream's size; the student sees {seen}"))
    return size


def _overlaid(root: Json, camera: Json, section: str) -> Json:
    """A section of the whole file with the camera's own over it."""
    return _mapping(root.get(section), section) | _mapping(camera.get(section), section)


def _roles(stream: Json) -> list[str]:
    return [str(r) for r in stream.get("roles") or ()]


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None


def _mapping(value: Any, path: str) -> Json:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidValue(path, type(value).__name__, "a mapping, as in a Frigate configuration")
    return {str(k): v for k, v in value.items()}


def _identity(name: str, taken: set[str]) -> str:
    """A lower-case id like the name; numbered where two names would be the same."""
    base = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_")[:56] or "camera"
    return next(i for i in _numbered(base) if i not in taken)


def _numbered(base: str) -> Iterator[str]:
    yield base
    number = 2
    while True:
        yield f"{base}-{number}"
        number += 1
