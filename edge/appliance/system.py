"""The system's state: devices, shares, workers, disk, losses and versions, in words where people read
them. Functions of what was looked up; only `memory` and `versions` look at the machine."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType
from typing import Any, Final

import psutil

from edge.appliance.answers.serving import Serving
from edge.appliance.service import Json
from edge.core.shares import ShareCaps

_PACKAGES: Final = ("torch", "torchvision", "av", "onnxruntime", "numpy", "sqlalchemy")
#: A share kind's promise, by the way it is enforced.
_PROMISES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "reserve": "A worker's share is its own: no other worker can use it.",
        "cap": "A worker cannot use more than its share: the kernel or the driver holds it back. Nothing is set aside "
        "for it.",
        "coop": "Workers keep to their shares by themselves. Nothing stops one that does not obey, or another program.",
    }
)
#: Losses that cameras count, in words for one and for many.
_OF_CAMERA: Final[Mapping[str, str]] = MappingProxyType(
    {
        "frames_damaged": "pictures came damaged and were not used",
        "frames_replaced": "pictures were passed over because a newer one had come (normal where the camera sends more "
        "than its share answers)",
        "packets_dropped": "packets were skipped to catch up with the present",
        "stalls": "times the camera sent nothing for its stall time",
        "reconnects": "times the connection had to be made again",
        "frames_without_answer": "pictures were due for an answer and got none in time",
        "samples_lost": "pictures drawn for the sample could not be kept",
        "frames_lost_in_swaps": "pictures got no answer while a new model took over",
        "answers_not_tracked": "answers were not followed as objects, so rules did not see them",
        "clip_packets_lost": "packets of video could not be kept for clips",
        "answers_not_fed": "answers did not reach the applications that the camera feeds",
    }
)
_OF_LABELS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "unreadable": "sampled pictures could not be read again, and were not labelled",
        "given_up": "sampled pictures were given up after the golden model failed on them",
        "missed": "sampled pictures were not labelled in time for their window",
    }
)
_OF_ALARMS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "records": "records of objects and alarms could not be kept",
        "pictures_not_taken": "pictures of objects and alarms could not be taken",
        "pictures_not_kept": "pictures of objects and alarms could not be kept",
        "objects_not_followed": "objects were not followed: there were too many at once",
        "alarms_refused": "alarms were not raised: too many went on at once",
    }
)
_OF_SERVING: Final[Mapping[str, str]] = MappingProxyType(
    {
        "late": "requests were answered after their objective",
        "dropped": "requests were dropped because they would have been too late",
        "rejected": "requests were refused because the queue was full",
        "failed": "requests failed",
    }
)


def shares(caps: ShareCaps, kept: Mapping[str, float]) -> Json:
    """The share kind in force, its promises, its probe's result, and the shares kept for Magpie's own work."""
    change = "while a worker runs" if caps.resize == "live" else "by a new process in the worker's place"
    step = "any size" if caps.step is None else f"steps of {100 * caps.step:g} %"
    return caps.to_json() | {
        "promise": _PROMISES[caps.enforced],
        "limits": [
            f"the smallest share is {100 * caps.min_share:g} %, {step}",
            f"shares change {change}",
            "memory is limited, too" if caps.memory_limit else "memory is not limited by it",
            "a fault ends one worker only"
            if caps.fault_domain == "worker"
            else "a fault of the device ends every worker on it; they are started again",
        ],
        "kept": dict(kept),
    }


def workers(found: Iterable[Json], usage: Iterable[Json], bytes_of: Mapping[int, int]) -> list[Json]:
    """Workers with what they asked, were given and used in this window (shares 0-1, or None) and their memory (bytes,
    or None). `camera` is that of a worker that works for one alone, also while that camera is being removed."""
    used = {str(u["worker"]): u for u in usage if u.get("running", True)}
    out = []
    for worker in found:
        one = used.get(str(worker["name"]), {})
        out.append(
            worker
            | {
                "asked": one.get("asked"),
                "granted": one.get("granted"),
                "used": one.get("used_share"),
                "memory_bytes": bytes_of.get(worker["pid"] or 0),
            }
        )
    return out


def memory(pids: Iterable[int | None]) -> dict[int, int]:
    """Bytes of memory of the processes that are still there (resident set; pages that they share count in each)."""
    found = {}
    for pid in pids:
        if pid is None:
            continue
        try:
            found[pid] = int(psutil.Process(pid).memory_info().rss)
        except psutil.Error:  # it has ended meanwhile
            continue
    return found


def losses(
    overview: Json,
    serving: Serving | None,
    retention_failures: int,
    outputs: Iterable[Json] = (),
    records_unreadable: int = 0,
) -> list[Json]:
    """Every counter of something lost: {"code", "camera", "subject", "count", "words", "since"}. `since` is "appliance"
    or "worker": counted since that was started. `outputs`: the counts of messages, by destination."""
    out = []

    def add(
        code: str, count: Any, words: str, since: str = "appliance", camera: str | None = None, of: str = ""
    ) -> None:
        out.append(
            {"code": code, "camera": camera, "subject": of, "count": int(count or 0), "words": words, "since": since}
        )

    for camera in overview["cameras"]:
        for code, words in _OF_CAMERA.items():
            since = "appliance" if code == "frames_lost_in_swaps" else "worker"
            add(code, camera["state"]["losses"].get(code), words, since, str(camera["id"]))
    counted = overview["losses"]
    for code, words in _OF_LABELS.items():
        add(f"labels_{code}", counted["labels"].get(code), words)
    for code, words in _OF_ALARMS.items():
        add(code, counted.get("alarms", {}).get(code), words)
    lost = sum(sum(o["lost_by"].values()) for o in outputs)
    add("outputs", lost, "messages to the broker or webhooks were lost")
    add("journal", counted.get("journal"), "journal entries could not be kept")
    add("clips", counted.get("clips"), "clips that were asked for could not be made")
    add("live_pictures", counted.get("live_pictures"), "live pictures were passed over for viewers that were too slow")
    add("retention", retention_failures, "files could not be deleted by retention; it tries again")
    words = "records of the database could not be read by this release, and are left out of lists; the log names them"
    add("records_unreadable", records_unreadable, words)
    for worker in overview["workers"]:
        if worker.get("messages_lost"):
            words = "commands or reports were lost"
            add("messages", worker["messages_lost"], words, "worker", worker["camera"], str(worker["name"]))
    for model in () if serving is None else serving.models:
        for code, words in _OF_SERVING.items():
            add(f"requests_{code}", getattr(model.total, code), words, of=model.name)
    return out


def versions(magpie: str, schema: str | None, database: str) -> Json:
    """The versions that run here."""
    found = {"magpie": magpie, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    return found | {"database": database, "schema": schema or "", "system": system}
