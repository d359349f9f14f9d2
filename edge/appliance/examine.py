"""Looks at the machine: the shares that it can enforce, why not more, and whether the appliance can run. Blocking."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import psutil

from edge.core.errors import MagpieError
from edge.core.learning import LEARNED_DOCUMENT, BudgetProblem
from edge.fleet.engine_check import check_engine
from edge.fleet.engine_messages import EngineCost
from edge.fleet.folder import FleetFolder
from edge.settings import FleetSettings
from edge.shares import report_devices
from scheduler.learning.budget import decide
from scheduler.learning.windows import choose_window

Outcome = Literal["good", "warning", "bad"]

_GIB = 2**30
#: Memory that must be free to start (forkserver with torch, a teacher, four cameras), and that is comfortable.
_MEMORY_NEEDED, _MEMORY_COMFORTABLE = 1 * _GIB, 3 * _GIB
_DISK_NEEDED, _DISK_COMFORTABLE = _GIB // 4, 5 * _GIB
_PACKAGES = ("torch", "torchvision", "av", "opencv-python-headless", "onnxruntime", "numpy")


@dataclass(frozen=True)
class Check:
    """One check of this machine and site. `hint` says what to do when it is not good."""

    name: str
    outcome: Outcome
    said: str
    hint: str = ""


def examine(
    data_dir: Path, url: str, host: str, port: int, cores: float | None = None, fleet: FleetSettings | None = None
) -> dict[str, Any]:
    """Look at everything; nothing that was made for it stays. Keys: can_run, checks, devices, notes."""
    shares = report_devices(cores)
    checks = [
        _system(),
        _cores(cores),
        _memory(),
        _disk(data_dir),
        *_packages(),
        _guarded("video", _video),
        _cuda(shares),
        _guarded("database", lambda: _database(url, data_dir)),
        _port(host, port),
        _shares(shares),
        _guarded("learning", lambda: _learning(url, data_dir)),
    ]
    if fleet is not None:
        checks.append(_guarded("fleet engine", lambda: _engine(fleet, data_dir)))
    return {
        "can_run": all(c.outcome != "bad" for c in checks),
        "checks": [asdict(c) for c in checks],
        "devices": shares["devices"],
        "notes": shares["notes"],
    }


def _guarded(name: str, check: Callable[[], Check]) -> Check:
    """A check that may fail in ways of its own libraries: the failure is its result."""
    try:
        return check()
    except MagpieError as error:
        return Check(name, "bad", error.message, error.hint)
    except (OSError, ImportError, RuntimeError) as error:
        return Check(name, "bad", f"{type(error).__name__}: {error}")


def _system() -> Check:
    good = sys.version_info >= (3, 11) and sys.platform == "linux"
    said = f"{platform.system()} {platform.release()} {platform.machine()}, Python {platform.python_version()}"
    return Check("system", "good" if good else "bad", said, "" if good else "Linux and Python 3.11 or newer are needed")


def _cores(cores: float | None) -> Check:
    from edge.shares.cgroup import available_cores

    have = available_cores()
    if cores is not None and cores > have:
        return Check("cores", "warning", f"{cores:g} are configured, {have:g} may be used", "lower `machine.cores`")
    few = have < 2
    return Check(
        "cores",
        "warning" if few else "good",
        f"{have:g} may be used ({os.cpu_count()} in the machine)",
        "one core keeps few cameras" if few else "",
    )


def _memory() -> Check:
    memory = psutil.virtual_memory()
    said = f"{memory.available / _GIB:.1f} GiB free of {memory.total / _GIB:.1f} GiB"
    if memory.available < _MEMORY_NEEDED:
        return Check("memory", "bad", said, f"{_MEMORY_NEEDED / _GIB:g} GiB must be free")
    if memory.available < _MEMORY_COMFORTABLE:
        return Check("memory", "warning", said, "few cameras will fit")
    return Check("memory", "good", said)


def _existing(path: Path) -> Path:
    """The path or its nearest ancestor that exists."""
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path


def _disk(data_dir: Path) -> Check:
    at = _existing(data_dir)
    try:
        free = shutil.disk_usage(at).free
        with tempfile.TemporaryFile(dir=at):
            pass
    except OSError as error:
        return Check("data folder", "bad", f"{data_dir}: {error.strerror}", "choose a folder that can be written")
    said = f"{data_dir}: writable, {free / _GIB:.1f} GiB free"
    if free < _DISK_NEEDED:
        return Check("data folder", "bad", said, f"{_DISK_NEEDED / _GIB:g} GiB must be free")
    if free < _DISK_COMFORTABLE:
        return Check("data folder", "warning", said, "recording keeps fewer windows")
    return Check("data folder", "good", said)


def _packages() -> list[Check]:
    said, missing = [], []
    for package in _PACKAGES:
        try:
            said.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            missing.append(package)
    checks = [Check("packages", "good", ", ".join(said))] if said else []
    if missing:
        checks.append(Check("packages", "bad", f"missing: {', '.join(missing)}", "pip install magpie-edge"))
    return checks


def _video() -> Check:
    import av

    missing = []
    for name in ("h264", "hevc", "mjpeg"):
        try:
            av.codec.Codec(name, "r")
        except ValueError:
            missing.append(name)
    versions = ", ".join(f"{k} {'.'.join(map(str, v))}" for k, v in sorted(av.library_versions.items()) if "codec" in k)
    if missing:
        return Check("video", "bad", f"FFmpeg in av {av.__version__} has no decoder for {', '.join(missing)}")
    return Check("video", "good", f"av {av.__version__} ({versions}), decoders for H.264, H.265 and MJPEG")


def _cuda(shares: dict[str, Any]) -> Check:
    gpus = [d for d in shares["devices"] if d["kind"] != "cpu"]
    if not gpus:
        return Check("CUDA", "good", "no NVIDIA GPU is seen: inference and training run on the CPU")
    try:
        from torch.version import cuda
    except ImportError:
        cuda = None
    names = ", ".join(d["name"] for d in gpus)
    if cuda is None:
        return Check(
            "CUDA", "warning", f"{names}, but this torch is built without CUDA", "install a CUDA build of torch"
        )
    return Check("CUDA", "good", f"{names}; torch is built for CUDA {cuda}")


def _database(url: str, data_dir: Path) -> Check:
    import sqlalchemy as sa

    from edge.store import database as db
    from edge.store.store import default_url

    database = db.Database(url or default_url(data_dir), busy_timeout_ms=1000)
    try:
        if database.sqlite:
            file = Path(str(database.url.database))
            if not file.exists():
                try:
                    with tempfile.TemporaryFile(dir=_existing(file.parent)):
                        pass
                except OSError as error:
                    return Check("database", "bad", f"{file.parent}: {error.strerror}", "choose another database")
                return Check("database", "good", f"{database.name}: will be made at the first start")
        with database.write() as connection:
            connection.execute(sa.text("CREATE TEMPORARY TABLE magpie_doctor (x INTEGER)"))
            connection.execute(sa.text("DROP TABLE magpie_doctor"))
        now = db.current(database)
        if now is None:
            return Check("database", "good", f"{database.name}: writable, empty")
        if now != db.head():
            return Check("database", "warning", f"{database.name}: schema {now}", "it is upgraded at the next start")
        return Check("database", "good", f"{database.name}: writable, schema {now}")
    finally:
        database.close()


def _learning(url: str, data_dir: Path) -> Check:
    """This box's learning budget, from the appliance's last measurements here."""
    found = _learned(url, data_dir)
    if found is None:
        said = "not measured yet: labels, trials and retrainings are timed in the first windows"
        return Check("learning", "good", said)
    problem = BudgetProblem.from_json(found)
    budget, choice = decide(problem), choose_window(problem)
    each = f"{problem.cameras} camera{'' if problem.cameras == 1 else 's'}"
    said = (
        f"per camera and window of {problem.window_s:g} s ({each}): {budget.labels} labels, {budget.trials} trials, "
        f"{budget.retraining_s:.1f} device seconds of retraining; it would choose {choice.window_s:g} s"
    )
    if budget.late:
        hint = f"set retraining.window_s to {choice.window_s:g}, or give Magpie more of the machine"
        return Check("learning", "warning", said + "; labels and profiles are not ready in time here", hint)
    return Check("learning", "good", said)


def _learned(url: str, data_dir: Path) -> Any:
    """The budget problem of the last window that taught something; None: there is none (no database, no window)."""
    import sqlalchemy as sa

    from edge.store import database as db
    from edge.store.store import default_url
    from edge.store.tables import settings

    database = db.Database(url or default_url(data_dir), busy_timeout_ms=1000)
    try:
        if database.sqlite and not Path(str(database.url.database)).is_file():
            return None
        with database.read() as c:
            row = c.execute(sa.select(settings.c.value).where(settings.c.name == LEARNED_DOCUMENT)).first()
    except (MagpieError, sa.exc.SQLAlchemyError):
        return None  # the check of the database tells
    finally:
        database.close()
    return None if row is None else dict(row[0]).get("problem")


def _engine(fleet: FleetSettings, data_dir: Path) -> Check:
    """The engine of the fleet's jobs: whether it can be opened here, and what it costs while it runs no task."""
    name, kind = "fleet engine", fleet.engine.kind
    check_engine(fleet.engine)
    if kind == "local":
        said = "local: no process and no thread while there is no job; jobs run on the head's own box only"
        return Check(name, "good", said)
    measured = FleetFolder(data_dir).read("engine_cost.json", EngineCost)
    if measured is None:
        where = "as the head's" if kind == "kubernetes" else "here"
        return Check(name, "good", f"{kind}: its cost is not measured yet: it has not been idle {where} for a minute")
    said = (
        f"{kind}: idle it costs {measured.processes} processes, {measured.memory_mb:.0f} MB of memory and "
        f"{measured.cpu_s_per_minute:.1f} CPU s per minute, measured on this box"
    )
    return Check(name, "good", said)


def _port(host: str, port: int) -> Check:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family, socket.SOCK_STREAM) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return Check("port", "bad", f"{host}:{port}: {reason}", "stop what listens there, or choose another port")
    return Check("port", "good", f"{host}:{port} is free" if port else f"{host}: any free port is taken")


def _shares(shares: dict[str, Any]) -> Check:
    kinds = {d["device"]: d["shares"]["kind"] for d in shares["devices"] if d["shares"]}
    if "cpu" not in kinds:
        return Check("shares", "bad", "no share kind works on the CPU")
    said = ", ".join(f"{device}: {kind}" for device, kind in kinds.items())
    if kinds["cpu"] == "coop":
        return Check(
            "shares", "warning", said, "nothing stops a worker that does not obey; the CPU's `no` lines say why"
        )
    return Check("shares", "good", said)
