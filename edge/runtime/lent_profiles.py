"""Trials as another box gets them, and their profiles back, as JSON.

Costs are CPU seconds over the borrower's cores, wherever they were measured: the profiles count as measured here.
"""

from __future__ import annotations

import json
from typing import Any

from edge.core import checks
from edge.core.configs import RetrainingConfig, check_region
from edge.core.errors import InvalidValue
from edge.core.lending import LentProfiles, LentProfiling, LentWork
from edge.core.profiles import RetrainingProfile
from edge.runtime import messages as m
from edge.runtime.lending_folder import WorkFolders, WorkInput
from edge.runtime.lent_work import WorkPacking, placed_student, placed_window
from microprofiler.history import ProfilerHistory


def packed_profiling(
    name: str, job: m.Profile, choice: LentProfiles, place: int, hand_in_s: float | None
) -> tuple[LentWork, WorkInput]:
    """Trials for another box. Pictures that are gone are left out. Blocks. Raises InvalidValue where they are too
    large, OSError where a student cannot be read."""
    packing = WorkPacking()
    data = packing.window(job.data)
    profiling = LentProfiling(
        tuple(config.to_json() for config in job.space), job.budget_s, job.cores, job.history, hand_in_s
    )
    work = LentWork(
        name, job.data.camera, choice.share, data, packing.named(job.student.path),
        "" if job.download is None else packing.named(job.download.path), {}, {}, job.region, job.seed, packing.sizes,
        profiling, job.budget_s * job.cores, place,
    )  # fmt: skip
    return work, WorkInput(choice.box, packing.paths)


def unpacked_profiling(work: LentWork, name: str, folders: WorkFolders, age_s: float) -> m.LentProfile:
    """The trials on the lender, `age_s` seconds after they were asked for. Raises InvalidValue for what is none."""
    asked = work.profiling
    if asked is None:
        raise InvalidValue("profiling", None, "the trials to run")
    try:
        space = tuple(RetrainingConfig.from_json(dict(config)) for config in asked.space)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidValue("profiling.space", type(error).__name__, f"configurations: {error}") from None
    history = None if asked.history is None else ProfilerHistory.from_json(dict(asked.history)).to_json()
    profile = m.Profile(
        placed_window(work, name, folders), placed_student(work.parent, name, folders), space, asked.budget_s, history,
        asked.cores, work.seed, placed_student(work.download, name, folders) if work.download else None,
        check_region("region", work.region),
    )  # fmt: skip
    left_s = None if asked.hand_in_s is None else max(0.0, asked.hand_in_s - age_s)
    return m.LentProfile(name, profile, left_s)


def packed_profiles(done: m.ProfileDone) -> bytes:
    """Profiles for the borrower."""
    found = {
        "profiles": [p.to_json() for p in done.profiles],
        "start_accuracy": done.start_accuracy,
        "device_seconds": done.device_seconds,
        "history": done.history,
        "pruned": done.pruned,
        "note": done.note,
        "trials": done.trials,
        "setup_s": done.setup_s,
        "handed_in": done.handed_in,
    }
    return json.dumps(found).encode()


def unpacked_profiles(content: bytes, job: m.Profile, box: str) -> m.ProfileDone:
    """The profiles that `box` made for `job`. Raises InvalidValue for what is none, or of other configurations."""
    try:
        found: dict[str, Any] = json.loads(content)
        profiles = tuple(RetrainingProfile.from_json(p) for p in found["profiles"])
        history = ProfilerHistory.from_json(found["history"]).to_json()
        pruned = {str(k): str(v) for k, v in found["pruned"].items()}
        trials, handed_in = int(found["trials"]), bool(found["handed_in"])
        start, seconds, setup_s = found["start_accuracy"], float(found["device_seconds"]), float(found["setup_s"])
        note = str(found["note"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidValue("profiles", type(error).__name__, f"profiles of a camera: {error}") from None
    known = {config.id for config in job.space}
    for profile in profiles:
        checks.one_of("profiles[].config", profile.config.id, tuple(sorted(known)))
    if start is not None:
        checks.in_range("start_accuracy", start, 0.0, 1.0)
    checks.in_range("device_seconds", seconds, 0.0, 1e9)
    checks.in_range("setup_s", setup_s, 0.0, 1e9)
    return m.ProfileDone(
        job.data.camera, job.data.window, profiles, start, seconds, history, pruned, note, trials, setup_s, handed_in,
        box,
    )  # fmt: skip
