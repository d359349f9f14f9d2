"""The soak's cameras, in a process of their own: each an RTSP server at its own port, with faults on demand.

`python -m benchmarks.soak.cameras SPEC.json` serves {"cameras": [...], "ports": {NAME: PORT}, "user", "password_env"}.
It prints `ready`, takes one order a line from standard input ("NAME gone", "frozen", "password", "damaged", "well"),
answers `done`, and ends with its input.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from edge.demo.cameras import PASSWORD_VARIABLE, USER, source_of
from edge.demo.rtsp_server import RtspServer

#: Of the packets of a damaged stream this part has a wrong byte, and this part is lost.
_CORRUPT, _DROPPED = 0.3, 0.1
#: An order, and the start, take so long at most: on two cores that ten busy processes share.
_ORDER_S = 60.0


class TroubledCamera:
    """One camera at its own port."""

    def __init__(self, about: Mapping[str, Any], port: int, user: str, password: str) -> None:
        self._about, self._port, self._user, self._password = about, port, user, password
        self._server: RtspServer | None = None
        self.well()

    def well(self) -> None:
        """As a camera should be."""
        self._serve(self._password)

    def gone(self) -> None:
        """Switched off: nothing listens."""
        if self._server is not None:
            self._server.stop()
            self._server = None

    def password(self) -> None:
        """Its password was changed."""
        self._serve(secrets.token_urlsafe(12))

    def frozen(self) -> None:
        """It answers and sends no more pictures."""
        assert self._server is not None
        self._server.freeze_media(str(self._about["name"]))

    def damaged(self) -> None:
        """Packets come with wrong bytes, or not at all."""
        assert self._server is not None
        self._server.corrupt_packets(str(self._about["name"]), _CORRUPT)
        self._server.drop_packets(str(self._about["name"]), _DROPPED)

    def _serve(self, password: str) -> None:
        self.gone()
        name = str(self._about["name"])
        source = source_of(dict(self._about))
        self._server = RtspServer("127.0.0.1", self._port, {name: source}, credentials=(self._user, password))
        self._server.start()


class CameraHouse:
    """The process of the cameras, seen from the soak. Use as a context manager."""

    def __init__(self, cameras: Sequence[Mapping[str, Any]], ports: Mapping[str, int], folder: Path) -> None:
        self._about = {"cameras": list(cameras), "ports": dict(ports), "user": USER, "password_env": PASSWORD_VARIABLE}
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> CameraHouse:
        """Start it. Raises RuntimeError, TimeoutError."""
        os.environ[PASSWORD_VARIABLE] = secrets.token_urlsafe(12)
        spec = self._folder / "soak-cameras.json"
        spec.write_text(json.dumps(self._about), encoding="utf-8")
        command = [sys.executable, "-m", "benchmarks.soak.cameras", str(spec)]
        with open(self._folder / "cameras.log", "wb") as log:  # connections that are cut are logged there
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, process_group=0
            )
        try:
            self._expect(self._process, "ready")
        except BaseException:
            self._end(self._process)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._end(self._process)

    def _end(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    def order(self, camera: str, what: str) -> None:
        """Do this to the camera; returns when it is done. Raises RuntimeError, TimeoutError."""
        assert self._process is not None, "only between enter and exit"
        assert self._process.stdin is not None
        self._process.stdin.write(f"{camera} {what}\n")
        self._process.stdin.flush()
        self._expect(self._process, "done")

    def _expect(self, process: subprocess.Popen[str], word: str) -> None:
        assert process.stdout is not None
        if not select.select([process.stdout], [], [], _ORDER_S)[0]:
            raise TimeoutError(f"the cameras said nothing within {_ORDER_S:g} s, not {word!r}")
        said = process.stdout.readline().strip()  # each answer is one line, written at once
        if said != word:
            raise RuntimeError(f"the cameras said {said!r}, not {word!r}")


def main(spec: Path) -> int:
    """Serve until standard input ends."""
    value = json.loads(spec.read_text(encoding="utf-8"))
    password = os.environ[value["password_env"]]
    cameras = {
        c["name"]: TroubledCamera(c, value["ports"][c["name"]], value["user"], password) for c in value["cameras"]
    }
    print("ready", flush=True)
    orders = {"gone", "frozen", "password", "damaged", "well"}
    for line in sys.stdin:
        name, _, what = line.strip().partition(" ")
        if what in orders and name in cameras:
            getattr(cameras[name], what)()
            print("done", flush=True)
        else:
            print(f"cannot {line.strip()}", flush=True)
    for camera in cameras.values():
        camera.gone()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
