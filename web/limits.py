"""What is left of an answer for somebody who may see some cameras only. Pure functions of the caller and the answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from edge.core.access import Principal
from edge.core.errors import Forbidden
from edge.core.secrecy import without_credentials

Json = Mapping[str, Any]

#: Settings of a camera that reach into the network or the file system, or name a secret: an admin's.
REACHING: Final = ("url", "transport", "username", "password_from", "student.weights", "student.model")
_ABSENT: Final = object()


def overview(caller: Principal, whole: Json) -> Json:
    """`StateService.overview`."""
    if caller.sees_all:
        return whole
    plan = whole.get("plan")
    if plan is not None:
        plan = dict(plan) | {"reasons": _keys(caller, plan.get("reasons", {}))}
    return dict(whole) | {
        "plan": plan,
        "shares": _keys(caller, whole["shares"]),
        "cameras": [c for c in whole["cameras"] if caller.may_see(c["id"])],
        "jobs": [j for j in whole["jobs"] if caller.may_see(j["camera"])],
        "complaints": told(caller, whole["complaints"], (c["id"] for c in whole["cameras"])),
        "workers": [w for w in whole["workers"] if caller.may_see(w["camera"])],
        "usage": [u for u in whole["usage"] if caller.may_see(u["camera"])],
    }


def told(caller: Principal, said: Iterable[Json], cameras: Iterable[str]) -> list[Json]:
    """Complaints and reasons ({"message", "camera"?}) of what the caller may see, and that name no other one of
    `cameras`."""
    ids = tuple(cameras)
    return [s for s in said if caller.may_see(s.get("camera")) and not names_other(caller, s.get("message"), ids)]


def names_other(caller: Principal, text: object, cameras: Iterable[str]) -> bool:
    """Whether the text names one of `cameras` that the caller may not see, also inside a worker's or a model's name.
    Where one id is in another, the longer one is meant."""
    ids = sorted(cameras, key=len, reverse=True)
    found = re.findall("|".join(map(re.escape, ids)), str(text)) if ids else []
    return not all(map(caller.may_see, found))


def metrics(caller: Principal, whole: Json) -> Json:
    """`StateService.metrics`."""
    if caller.sees_all:
        return whole
    ids = [c["id"] for c in whole["overview"]["cameras"]]
    counts, health = whole["counts"], whole["health"]
    alarms = whole["alarms"]
    objects = {key: _keys(caller, alarms[key]) for key in ("objects", "objects_now")}
    counted = {key: _keys(caller, counts[key]) for key in ("cameras", "retraining_device_s") if key in counts}
    return dict(whole) | {
        "health": dict(health) | {"reasons": told(caller, health["reasons"], ids)},
        "overview": overview(caller, whole["overview"]),
        "expected_accuracy": _keys(caller, whole["expected_accuracy"]),
        "counts": dict(counts) | counted,
        "alarms": dict(alarms) | objects,
        "live_pictures": _keys(caller, whole.get("live_pictures", {})),
        "truth": _keys(caller, whole.get("truth", {})),
    }


def health(caller: Principal | None, whole: Json, cameras: Iterable[str]) -> dict[str, Any]:
    """`StateService.health`; to whoever is not logged in, code words only. `cameras`: the ids of all."""
    if caller is None:
        codes = sorted({str(reason["code"]) for reason in whole["reasons"]})
        return {"live": whole["live"], "ready": whole["ready"], "reasons": [{"code": code} for code in codes]}
    if caller.sees_all:
        return dict(whole)
    return dict(whole) | {"reasons": told(caller, whole["reasons"], cameras)}


def window(caller: Principal, row: Json) -> Json:
    """One of `WindowsService.recent`."""
    if caller.sees_all:
        return row
    mine = [c for c in row["cameras"] if caller.may_see(c["camera"])]
    return dict(row) | {"cameras": mine, "details": {}}


def window_detail(caller: Principal, detail: Json) -> Json:
    """`WindowsService.one`. Plans are of all cameras together, so their problems and shares are left out."""
    if caller.sees_all:
        return detail

    def plan(record: Json) -> dict[str, Any]:
        # Whom a cause is about of which only words are kept is not known.
        hidden: dict[str, Any] = {"problem": {}, "plan": {}, "basis": None}
        if record["cause_code"] == "recorded" or not caller.may_see(record["cause_camera"]):
            hidden |= {"cause": "another camera", "cause_camera": None}
        return dict(record) | hidden

    out = dict(detail) | {
        "window": window(caller, detail["window"]),
        "plans": [plan(p) for p in detail["plans"]],
        "usage": [u for u in detail["usage"] if caller.may_see(u["camera"])],
    }
    for part in ("profiles", "jobs", "costs"):
        out[part] = [row for row in detail[part] if caller.may_see(row.get("camera"))]
    return out


def event(caller: Principal, entry: Json) -> Json | None:
    """A journal entry; None: not for the caller. Of what concerns no one camera it is told that it happened."""
    if caller.sees_all:
        return entry
    if entry["camera"] is not None:
        return entry if caller.may_see(entry["camera"]) else None
    return entry if entry["kind"] == "events.lost" else dict(entry) | {"data": {}}


def camera(caller: Principal, row: Json) -> Json:
    """One of `CamerasService.all`; who does not set where its stream comes from sees no password in it."""
    if caller.may("admin"):
        return row
    settings = dict(row["settings"]) | {"url": without_credentials(row["settings"]["url"])}
    return dict(row) | {"settings": settings}


def camera_patch(caller: Principal, patch: Json, before: Json) -> None:
    """Raises Forbidden if the patch changes what only an admin may change; `before`: the settings in force."""
    if caller.may("admin"):
        return
    for path in REACHING:
        given, now = _at(patch, path), _at(before, path)
        if given is not _ABSENT and given != now:
            raise Forbidden(f"the role admin is needed to change {path}; {caller.name} is {caller.role}")


def _at(value: Any, path: str) -> Any:
    for part in path.split("."):
        if not isinstance(value, Mapping):
            return value
        value = value.get(part, _ABSENT)
    return value


def _keys(caller: Principal, by_camera: Json) -> dict[str, Any]:
    return {camera: value for camera, value in by_camera.items() if caller.may_see(camera)}
