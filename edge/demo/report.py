"""The demo's report: each camera's accuracy by its students, against the frozen ones, and its cost."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from edge.store.store import Store
from edge.store.values import WindowDetail

FORMAT = "magpie-demo-report/1"


def window_report(detail: WindowDetail) -> dict[str, Any]:
    """One window: per camera the realised accuracy and the frozen student's, plan, shares, costs, losses."""
    cameras = {}
    for row in detail.window.cameras:
        usage = [u for u in detail.usage if u.camera == row.camera]
        cameras[row.camera] = {
            "realised_accuracy": _value(row.realised),
            "frozen_accuracy": _value(row.frozen),
            "download_accuracy": _value(row.details.get("download")),
            "download_whole_accuracy": _value(row.details.get("download_whole")),
            "realised": row.realised,
            "frozen": row.frozen,
            "model_version": row.model_version,
            "frames_labelled": row.frames_labelled,
            "objects_labelled": row.objects_labelled,
            "labelling_delay_s": row.labelling_delay_s,
            "losses": row.losses,
            "quality": row.details.get("quality", {}),
            "class_counts": row.details.get("class_counts", {}),
            "shares": [
                {
                    "role": u.role,
                    "asked": u.asked,
                    "given": u.granted,
                    "used": u.used,
                    "device_seconds": u.device_seconds,
                }
                for u in usage
            ],
        }
    return {
        "window": detail.window.id,
        "start_utc_s": detail.window.start_utc_s,
        "length_s": detail.window.length_s,
        "policy": detail.window.policy,
        "cameras": cameras,
        "plans": [
            {
                "at_utc_s": p.at_utc_s,
                "cause": p.cause,
                "cause_camera": p.cause_camera,
                "policy": p.policy,
                "objective": p.objective,
                "problem": p.problem,
                "plan": p.plan,
            }
            for p in detail.plans
        ],
        "jobs": [j.to_json() for j in detail.jobs],
        "profiles": [p.to_json() for p in detail.profiles],
        "shared_workers": [
            {"worker": u.worker, "role": u.role, "asked": u.asked, "given": u.granted, "used": u.used}
            for u in detail.usage
            if u.camera is None
        ],
        "costs": [c.to_json() for c in detail.costs],
    }


def build_report(store: Store, numbers: Sequence[int], about: dict[str, Any]) -> dict[str, Any]:
    """The whole run; `summary` is over windows 2 to the last, in points (hundredths of accuracy)."""
    windows = [window_report(store.windows.window(n)) for n in numbers]
    return {"format": FORMAT, **about, "windows": windows, "summary": summary(windows)}


def summary(windows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means over windows 2 to the last (the first has nothing to retrain on); gains in points: over the frozen student,
    under "over_download" over the published detector left alone but looking where the student in force does, and under
    "over_download_whole" over the same at the whole picture, where students began as one."""
    out = _gains(windows, "frozen")
    for against in ("download", "download_whole"):
        gains = _gains(windows, against)
        out[f"over_{against}"] = gains if gains["cameras"] else None
    return out


def _gains(windows: Sequence[dict[str, Any]], against: str) -> dict[str, Any]:
    pairs: dict[str, list[tuple[float, float]]] = {}
    for window in windows[1:]:
        for camera, row in window["cameras"].items():
            if row["realised_accuracy"] is not None and row[f"{against}_accuracy"] is not None:
                pairs.setdefault(camera, []).append((row["realised_accuracy"], row[f"{against}_accuracy"]))
    cameras = {
        camera: {
            "realised": statistics.fmean(r for r, _ in values),
            against: statistics.fmean(f for _, f in values),
            "gain_points": 100 * statistics.fmean(r - f for r, f in values),
            "windows": len(values),
        }
        for camera, values in sorted(pairs.items())
    }
    gains = [c["gain_points"] for c in cameras.values()]
    every = [p for values in pairs.values() for p in values]
    return {
        "windows": [w["window"] for w in windows[1:]],
        "cameras": cameras,
        "realised": statistics.fmean(r for r, _ in every) if every else None,
        against: statistics.fmean(f for _, f in every) if every else None,
        "gain_points": statistics.fmean(gains) if gains else None,
        "worst_camera_points": min(gains) if gains else None,
        "best_camera_points": max(gains) if gains else None,
    }


def _value(accuracy: dict[str, Any] | None) -> float | None:
    return None if accuracy is None else accuracy["value"]
