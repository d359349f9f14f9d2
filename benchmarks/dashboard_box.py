"""A whole appliance in processes of its own, as operators have it: drawn RTSP cameras, served models, users, alarms.

The browser tests, the screenshots and the dashboard's benchmark use it. Nothing in it is faked: `magpie run` on a site
file, the first admin by the set-up link that it prints, everything else by REST.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import yaml

from benchmarks.make_applications import write_applications
from benchmarks.waiting import PATIENCE_S
from edge.demo.cameras import PASSWORD_VARIABLE, USER, serve_cameras
from edge.demo.site import demo_site, scene_cameras
from edge.settings import SiteSettings

REPO = Path(__file__).resolve().parents[1]
#: Measured latencies of the small models on two cores.
TABLE = REPO / "configs" / "tables" / "small-models-epyc-2-cores.json"
#: Names and passwords of the people; `guard` sees the first camera only.
ADMIN, OPERATOR, GUARD = "ada", "olga", "gus"
PASSWORDS = {ADMIN: "pebble-orchid-lantern-42", OPERATOR: "walnut-harbour-kite-77", GUARD: "copper-meadow-violin-19"}
#: Small enough for two shared cores.
SMALL: Mapping[str, Any] = {
    "label_budget": 8,
    "golden_share": 0.2,
    "space": {"epochs": [2, 4], "layers": ["head"], "data_fractions": [1.0], "batch_sizes": [8]},
}


def until(condition: Callable[[], Any], what: str, timeout_s: float = PATIENCE_S) -> Any:
    """Wait for a condition and return its value. Raises TimeoutError that says `what` did not come."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.2)
    raise TimeoutError(f"not within {timeout_s:g} s: {what}")


def make_models(folder: Path, applications: Mapping[str, Mapping[str, Any]] | None = None) -> Path:
    """The small models, written in a process of its own: this one never loads torch. And applications that ask them."""
    command = [sys.executable, "-m", "benchmarks.make_models", str(folder)]
    subprocess.run(command, cwd=REPO, check=True, stdout=subprocess.DEVNULL)
    write_applications(folder, applications or {})
    return folder


def make_site(
    cameras: Sequence[Mapping[str, Any]], port: int, data: Path, models: Path | None, window_s: float, **retraining: Any
) -> SiteSettings:
    """The demo's site for these cameras (served at `port`), with all that is in the folder `models` beside them if it
    is given."""
    site = demo_site(
        [dict(c) for c in cameras], f"rtsp://127.0.0.1:{port}", USER, f"env:{PASSWORD_VARIABLE}", data,
        window_s=window_s, policy="relay", task="mixed", teacher=None, classes=(), class_map={}, port=0,
        overrides={**SMALL, **retraining},
    )  # fmt: skip
    if models is None:
        return site
    serving = {
        "folder": str(models), "http": {"port": 0}, "grpc": {"port": 0}, "tables": [str(TABLE)], "measure": False,
        "planning": {"models": {"lenet": {"rate": 5}, "vehicles": {"rate": 4}, "shufflenet": {"rate": 2}}},
        "load": sorted(file.parent.name for file in models.glob("*/model.yaml")),
    }  # fmt: skip
    return SiteSettings.model_validate(site.model_dump(mode="json") | {"serving": serving})


@dataclass(frozen=True)
class Person:
    """A client that is logged in: `rest` sends the session's cookie and CSRF header."""

    name: str
    role: str
    rest: httpx.Client

    @property
    def cookie(self) -> dict[str, str]:
        """The session's cookie, as a browser keeps it."""
        (found,) = [c for c in self.rest.cookies.jar if c.name.startswith("magpie_session")]
        return {"name": found.name, "value": found.value or ""}


class Box:
    """`magpie run` on a site file. Use as `with Box(site, folder) as box`; `stop` (or `kill`) and `start` in between as
    needed. `environment` is added to that of its processes; a start takes `start_s` at most."""

    def __init__(
        self,
        site: SiteSettings,
        folder: Path,
        nice: int = 0,
        environment: Mapping[str, str] | None = None,
        start_s: float = 90.0,
    ) -> None:
        self.site, self._folder, self._nice = site, folder, nice
        self._environment, self._start_s = {**os.environ, **(environment or {})}, start_s
        self._file = folder / "site.yaml"
        self._process: subprocess.Popen[str] | None = None
        self._lines: list[str] = []
        self._reader: threading.Thread | None = None
        self.url = ""

    def __enter__(self) -> Box:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def file(self) -> Path:
        """The site file."""
        return self._file

    @property
    def pid(self) -> int:
        """The control process. Raises RuntimeError while it is stopped."""
        if self._process is None:
            raise RuntimeError("the appliance is stopped")
        return self._process.pid

    @property
    def output(self) -> str:
        """The process's prints, this time and before."""
        return "\n".join(self._lines)

    def start(self) -> None:
        """Start it, at the same address as before; returns when it answers. Raises TimeoutError."""
        self._file.write_text(yaml.safe_dump(self.site.model_dump(mode="json")), encoding="utf-8")
        said = len(self._lines)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "edge.cli", "run", str(self._file), "--log-level", "WARNING"],
            cwd=REPO, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
            preexec_fn=(lambda: os.nice(self._nice)) if self._nice else None, env=self._environment,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()

        def up() -> str | None:
            if self._process is None or self._process.poll() is not None:
                raise RuntimeError(f"the appliance did not start:\n{self.output}")
            found = re.search(r"Magpie is up: (\S+)", "\n".join(self._lines[said:]))
            return found[1].rstrip("/") if found else None

        self.url = until(up, "the appliance is up", self._start_s)
        web = self.site.web.model_copy(update={"port": urlsplit(self.url).port})
        self.site = self.site.model_copy(update={"web": web})

    def stop(self) -> None:
        """End it as a service manager does. Safe to call twice."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._reader is not None:
            self._reader.join(5)

    def kill(self, everything: bool) -> None:
        """End it without warning: the control process alone, or all of its processes at once."""
        process, self._process = self._process, None
        if process is None:
            return
        if everything:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        process.wait()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._lines.append(line.rstrip())

    def setup_token(self) -> str:
        """The token of the one-time set-up link that the first start prints. Raises TimeoutError."""
        found = until(lambda: re.search(r"#/setup\?token=([\w.~-]+)", self.output), "a set-up link is printed")
        return str(found[1])

    def client(self) -> httpx.Client:
        """REST without a login."""
        return httpx.Client(base_url=f"{self.url}/api/v1", timeout=60.0)

    def set_up(self) -> Person:
        """Make the first admin by the set-up link, and log in."""
        rest = self.client()
        body = {"token": self.setup_token(), "name": ADMIN, "password": PASSWORDS[ADMIN]}
        return _person(rest, rest.post("/setup", json=body))

    def login(self, name: str, password: str | None = None) -> Person:
        """Log in with name and password (by default one of PASSWORDS)."""
        rest = self.client()
        return _person(rest, rest.post("/login", json={"name": name, "password": password or PASSWORDS[name]}))

    def add_person(self, admin: Person, name: str, role: str, cameras: list[str] | None = None) -> Person:
        """A user whom the administrator adds, who then chooses a password as the page asks; logged in."""
        first = f"{name}-starts-with-this-1"
        good(admin.rest.post("/users", json={"name": name, "role": role, "cameras": cameras, "password": first}))
        person = self.login(name, first)
        good(person.rest.post("/me/password", json={"current": first, "new": PASSWORDS[name]}))
        return self.login(name)


def _person(rest: httpx.Client, answer: httpx.Response) -> Person:
    answer.raise_for_status()
    me = answer.json()
    rest.headers["x-csrf-token"] = me["csrf"]
    return Person(me["name"], me["role"], rest)


def good(answer: httpx.Response) -> Any:
    """The JSON of an answer, None if it is empty. Raises RuntimeError with the appliance's own words."""
    if answer.is_error:
        raise RuntimeError(f"{answer.request.method} {answer.request.url}: {answer.status_code} {answer.text}")
    return answer.json() if answer.content else None


def live(admin: Person) -> bool:
    """True if every enabled camera answers."""
    cameras = good(admin.rest.get("/cameras"))
    return all(c["state"]["inference"]["answers"] > 0 for c in cameras if c["settings"]["enabled"])


@contextmanager
def drawn_cameras(count: int, folder: Path, **properties: Any) -> Iterator[tuple[list[dict[str, Any]], int]]:
    """Drawn street cameras over RTSP, in a process of their own: (their descriptions, the port). `properties` (width,
    height, fps ...) instead of the demo's."""
    described = [camera | properties for camera in scene_cameras(count, seed=3, cycle_s=240.0)]
    with serve_cameras(described, folder) as port:
        yield described, port
