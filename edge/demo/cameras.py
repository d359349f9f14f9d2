"""The demo's cameras, in a process of their own: `python -m edge.demo.cameras SPEC.json` serves them over RTSP.

The specification is {"port": 0, "user", "password_env", "cameras": [{"name", "kind": "scene"|"clips"|"stills", ...}]}.
It prints `ready PORT` when they can be watched, and ends when its standard input is closed (so it never outlives the
demo). It has a process group of its own: an interrupt of the terminal reaches the demo only, which ends the cameras
last.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge.core.errors import InvalidValue, MagpieError, Unavailable
from edge.demo.rtsp_server import RtspServer
from edge.demo.scene import Scene, SceneSpec
from edge.demo.video_sources import FileSource, RenderedSource, StillsSource, VideoSource

#: The user of the served cameras, and the variable that holds their password.
USER, PASSWORD_VARIABLE = "demo", "MAGPIE_DEMO_CAMERA_PASSWORD"
VIDEO_SUFFIXES = (".mp4", ".avi", ".mkv", ".mov", ".ts", ".m4v")
PICTURE_SUFFIXES = (".jpg", ".jpeg", ".png")


class _Drawing:
    """A scene camera's picture at a stream time."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def __call__(self, t_s: float) -> NDArray[np.uint8]:
        return np.asarray(self._scene.render(t_s)[0], np.uint8)


def source_of(camera: dict[str, Any]) -> VideoSource:
    """The source that a camera of the specification plays."""
    kind = camera["kind"]
    if kind == "scene":
        spec = SceneSpec(
            seed=camera["seed"],
            character=camera["character"],
            width=camera["width"],
            height=camera["height"],
            fps=camera["fps"],
            day_s=camera["day_s"],
            start_phase=camera["start_phase"],
        )
        scene = Scene(spec)
        return RenderedSource(_Drawing(scene), spec.width, spec.height, fps=spec.fps, bitrate=camera["bitrate"])
    paths = [Path(p) for p in camera["paths"]]
    if kind == "stills":
        return StillsSource(paths[0], seconds_per_picture=camera["seconds_per_picture"], fps=camera["fps"])
    if kind == "clips":
        return FileSource(*paths)
    raise InvalidValue("cameras[].kind", kind, "scene, clips, stills")


def find_clips(folder: Path, limit: int | None) -> list[dict[str, Any]]:
    """Cameras of a folder: each video file is one, each sub-folder of videos is one that plays them in turn, each
    sub-folder of pictures is a slow stream. Sorted by name. Raises MagpieError if there are none."""
    if not folder.is_dir():
        raise MagpieError(f"{folder} is no folder", "give a folder of video files or of folders with pictures")
    found: list[dict[str, Any]] = []
    for entry in sorted(folder.iterdir()):
        if entry.is_file() and entry.suffix.lower() in VIDEO_SUFFIXES:
            found.append({"kind": "clips", "paths": [str(entry)]})
        elif entry.is_dir():
            videos = sorted(str(p) for p in entry.iterdir() if p.suffix.lower() in VIDEO_SUFFIXES)
            pictures = any(p.suffix.lower() in PICTURE_SUFFIXES for p in entry.iterdir())
            if videos:
                found.append({"kind": "clips", "paths": videos})
            elif pictures:
                found.append({"kind": "stills", "paths": [str(entry)]})
        if found and "name" not in found[-1]:
            found[-1]["name"] = camera_name(entry.stem, len(found))
    if not found:
        raise MagpieError(f"{folder} holds no video file and no folder of pictures")
    return found[:limit]


def camera_name(stem: str, number: int) -> str:
    """A camera id from a file's name."""
    clean = "".join(c if c.isalnum() else "-" for c in stem.lower()).strip("-")[:40]
    return clean if clean and clean[0].isalnum() and clean.isascii() else f"camera-{number}"


@contextmanager
def serve_cameras(cameras: list[dict[str, Any]], data: Path) -> Iterator[int]:
    """Serve the cameras from a process of their own, with a fresh password; yields the port. Raises Unavailable."""
    os.environ[PASSWORD_VARIABLE] = secrets.token_urlsafe(12)
    spec = data / "demo-cameras.json"
    spec.write_text(
        json.dumps({"port": 0, "user": USER, "password_env": PASSWORD_VARIABLE, "cameras": cameras}), encoding="utf-8"
    )
    command = [sys.executable, "-m", "edge.demo.cameras", str(spec)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        line = process.stdout.readline().strip()
        word, _, rest = line.partition(" ")
        if word != "ready":
            raise Unavailable(f"the demo's cameras did not start: {rest or 'no answer'}")
        yield int(rest)
    finally:
        process.stdin.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()


def main(arguments: list[str]) -> int:
    """Serve until standard input ends."""
    value = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    credentials = None
    if value.get("user"):
        credentials = (value["user"], os.environ[value["password_env"]])
    try:
        sources = {c["name"]: source_of(c) for c in value["cameras"]}
        server = RtspServer("127.0.0.1", value["port"], sources, credentials=credentials)
        server.start()
    except MagpieError as error:
        sys.stdout.write(f"failed {error}\n")
        return 1
    sys.stdout.write(f"ready {server.port}\n")
    sys.stdout.flush()
    sys.stdin.read()
    server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
