"""The leaf parts of a runtime, for tests of a part that is made with them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from edge.core import events as ev
from edge.core.clock import ManualClock
from edge.core.shares import ShareCaps, ideal_caps
from edge.runtime.complaints import Complaints
from edge.runtime.device_shares import DeviceShares
from edge.runtime.golden_model import GoldenModel
from edge.runtime.golden_worker import GoldenWorkerSpec
from edge.runtime.leaf_parts import LeafParts
from edge.runtime.learning import Learning
from edge.runtime.profilers import Profilers
from edge.runtime.store_thread import StoreThread
from edge.runtime.window_in_force import WindowInForce
from edge.settings import RetrainingSettings, SiteSettings
from scheduler.controller import WindowController

#: A part that is not asked for anything here.
UNASKED: Any = None


def ignored(*_: Any, **__: Any) -> None:
    """Stands where a note, an event or a message goes that the test does not look at."""


class NoWorkers:
    """Stands where the supervisor is: no worker was started."""

    def workers(self) -> list[dict[str, Any]]:
        return []

    def usage(self) -> list[Any]:
        return []

    def has(self, name: str) -> bool:
        return False

    def ready(self, name: str) -> bool:
        return False

    def send(self, name: str, message: Any) -> bool:
        return False

    def resize(self, name: str, share: float) -> None: ...


def leaf_parts(
    folder: Path = Path("data"),
    retraining: RetrainingSettings | None = None,
    caps: ShareCaps | None = None,
    **given: Any,
) -> LeafParts:
    """Real ones with data in `folder`, on an ideal device where no `caps` are named. Those that are `given` stand in
    their places; there are workers and a store only where they are given."""
    clock = given.setdefault("clock", ManualClock())
    site = given.setdefault("site", SiteSettings(data_dir=str(folder), retraining=retraining or RetrainingSettings()))
    partitioner: Any = SimpleNamespace(caps=caps or ideal_caps())
    window = given.setdefault("window", WindowInForce(site.retraining, clock))
    complaints = given.setdefault("complaints", Complaints(clock, ignored))
    supervisor = given.setdefault("supervisor", NoWorkers())
    teacher = GoldenWorkerSpec(Path("teacher.yaml"), "demo")
    golden = given.setdefault("golden", GoldenModel(supervisor, teacher, lambda: 0.5, ignored, ignored))
    learning = given.setdefault("learning", Learning(ignored))
    shares = given.setdefault(
        "shares",
        DeviceShares(
            site, partitioner, lambda: golden.started, lambda: learning.golden_share(window.settings),
            lambda: learning.evaluation_share(window.settings),
        ),
    )  # fmt: skip
    if "profilers" not in given:
        given["profilers"] = Profilers(
            supervisor, shares.cores, lambda share: shares.quantized(share), lambda job: learning.urgency(job),
            ignored, ignored,
        )  # fmt: skip
    settings = ev.WindowSettings(window.settings.window_s, None, "thief", True, 0.05)
    given.setdefault("controller", WindowController(settings, 1.0))
    rest = {"store": UNASKED, "fact": ignored, "cameras": {}, "records": StoreThread(complaints.add)}
    return LeafParts(**(rest | given))
