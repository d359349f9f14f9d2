"""A retraining window for people: each camera's shares over time, the options, the expected and the real results, and
the reasons, in words. Made from the records alone: the plans in the order in which they took over.

Shares are fractions of one device, times are seconds after the window's start, accuracies 0-1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edge.appliance.answers.read import read
from edge.appliance.answers.windows import PlanAnswer, ProfileAnswer, UsedShare
from edge.core.plan_basis import PlanBasis
from edge.core.plan_faults import PlanFault
from edge.core.plan_reasons import PlanReason
from edge.core.profiles import RetrainingProfile
from edge.core.window import WindowPlan, WindowProblem
from edge.store.values import JobRecord, PlanRecord, ProfileRecord, ShareUsage, WindowDetail
from scheduler.controller import waiting_shares
from scheduler.policies import WINDOW_POLICIES
from scheduler.timeline import Outcome, Step, evaluate

Json = dict[str, Any]

#: Shares under it are rounding, not a part of the device.
_NOTHING = 5e-4
_LAYERS = {"head": "the last layer only", "last_stage": "the last stage", "all": "all layers"}
_GAIN = 0.005  # less than half a point is within the noise of what is measured


@dataclass(frozen=True)
class OtherParts:
    """Shares that no window plan gives out: kept for the control process, the front of served models, labelling, and
    the measuring of windows."""

    control: float
    front: float
    golden: float
    evaluation: float

    @property
    def total(self) -> float:
        """All of them."""
        return self.control + self.front + self.golden + self.evaluation


@dataclass(frozen=True)
class _LivePlan:
    """A recorded plan with its problem; in force from `start_s` to `end_s` (empty if it never took over)."""

    record: PlanRecord
    problem: WindowProblem
    plan: WindowPlan
    outcome: Outcome
    start_s: float
    end_s: float


def explained(detail: WindowDetail, parts: OtherParts, usage: Sequence[ShareUsage] | None = None) -> Json:
    """The window as the page shows it. `usage` stands for what is recorded, while the window is open.

    {"window", "timeline": [{"start_s", "end_s", "plan", "phase", "shares": [{"kind", "camera", "config", "share"}]}],
    "decisions": [{"plan", "at_s", "cause", "cause_code", "cause_camera", "policy", "objective", "whole",
    "cameras": {camera: [words]}, "recorded", "faults"}],
    "cameras": [{"camera", "realised", "frozen", "promised", "predicted", "steps", "options", "jobs", ...}], "configs":
    {id: words}, "usage", "costs", "policies": names that `compared` takes}.
    """
    window = detail.window
    plans = _in_order(detail.plans, window.length_s)
    names = config_words(_configs(detail, plans))
    rows = {c.camera: c for c in window.cameras}
    cameras = sorted(set(rows) | {s.id for p in plans for s in p.problem.streams} | {j.camera for j in detail.jobs})
    return {
        "window": window.to_json(),
        "timeline": timeline([(p.record.id, p.problem, p.plan, p.end_s) for p in plans], parts),
        "decisions": [_decision(p, plans[n - 1] if n else None, names) for n, p in enumerate(plans)],
        "cameras": [_camera(c, rows.get(c), detail, plans, names) for c in cameras],
        "configs": names,
        "usage": [_usage(u) for u in (detail.usage if usage is None else usage)],
        "costs": [c.to_json() for c in detail.costs],
        "policies": list(WINDOW_POLICIES),
    }


def check_plan(record: PlanRecord) -> None:
    """Raises pydantic.ValidationError, InvalidValue, KeyError and the like where `explained` and `compared` could make
    nothing of a recorded plan."""
    read(PlanAnswer, record.to_json())
    evaluate(WindowProblem.from_json(record.problem), WindowPlan.from_json(record.plan).segments)
    if record.basis is not None:
        PlanBasis.from_json(record.basis)


def check_profile(record: ProfileRecord) -> None:
    """Raises where a recorded profile cannot be shown, as `check_plan` does for a plan."""
    read(ProfileAnswer, record.to_json())
    RetrainingProfile.from_json(record.profile)
    for key in ("value", "low", "high"):
        float(record.profile["end_accuracy"][key] + record.profile["gpu_seconds"][key])


def check_usage(record: ShareUsage) -> None:
    """Raises where a recorded share cannot be shown, as `check_plan` does for a plan."""
    read(UsedShare, _usage(record))


def compared(number: int, asked: WindowPlan, record: PlanRecord, parts: OtherParts) -> Json:
    """Another policy's plan for the same problem beside the one that was made: both as timelines,
    with each camera's predicted accuracy and the reasons in words."""
    problem, made = WindowProblem.from_json(record.problem), WindowPlan.from_json(record.plan)
    names = config_words({o.id: o.details for s in problem.streams for o in s.options})

    def side(plan: WindowPlan) -> Json:
        outcome = evaluate(problem, plan.segments)
        return {
            "policy": plan.policy,
            "objective": plan.objective,
            "timeline": timeline([(record.id, problem, plan, problem.window_s)], parts),
            "cameras": {k: round(v, 6) for k, v in outcome.by_stream.items()},
            "lowest": {k: round(v, 6) for k, v in outcome.lowest.items()},
            "reasons": {k: in_words(v, names) for k, v in plan.reasons.items()},
            "faults": [_fault(f) for f in plan.faults],
        }

    return {"window": number, "length_s": problem.window_s, "made": side(made), "asked": side(asked), "configs": names}


def timeline(plans: Iterable[tuple[int, WindowProblem, WindowPlan, float]], parts: OtherParts) -> list[Json]:
    """The stretches of constant shares, in order, from (id, problem, plan, end of its time) of the plans as they took
    over. Before the first plan cameras only answer, and profiling has the rest."""
    out: list[Json] = []
    for number, problem, plan, end_s in plans:
        begins = plan.segments[0].start_s
        if not out and begins > 0:
            waiting = waiting_shares(problem.num_gpus, {s.id: s.inference_profile for s in problem.streams})
            shares = [_share("inference", s, camera) for camera, s in waiting.items()]
            spare = max(0.0, problem.num_gpus - sum(waiting.values()))
            shares.append(_share("profiling", spare + parts.evaluation))
            out.append(_stretch(0.0, begins, None, "preparing", shares, problem, parts))
        for n, segment in enumerate(plan.segments):
            start = segment.start_s
            end = min(end_s, plan.segments[n + 1].start_s if n + 1 < len(plan.segments) else end_s)
            if end - start <= 1e-6:
                continue
            shares = [_share("inference", a.inference_share, c) for c, a in sorted(segment.streams.items())]
            shares += [
                _share("retraining", a.retraining_share, c, a.retrain_config)
                for c, a in sorted(segment.streams.items())
                if a.retrain_config is not None and a.retraining_share > 0
            ]
            shares.append(_share("profiling", parts.evaluation))
            out.append(_stretch(start, end, number, "running", shares, problem, parts))
    return out


def config_words(configs: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Retraining configurations by id in words: layers trained, how long, on how much; the rest where it differs."""
    known = {k: c for k, c in configs.items() if c.get("epochs") and c.get("layers")}
    more = {
        "batch_size": "batches of {}",
        "learning_rate": "learning rate {:g}",
        "last_layer_width": "last layer {} wide",
    }
    differing = [k for k in more if len({c.get(k) for c in known.values()}) > 1]
    out = {}
    for name, c in configs.items():
        if name not in known:
            out[name] = name
            continue
        words = [
            _LAYERS.get(c["layers"], str(c["layers"])),
            f"{c['epochs']} {'epoch' if c['epochs'] == 1 else 'epochs'}",
            f"{100 * c.get('data_fraction', 1.0):.0f} % of the data",
        ]
        words += [more[k].format(c[k]) for k in differing if c.get(k)]
        out[name] = ", ".join(words)
    return out


def in_words(reasons: Sequence[PlanReason], names: Mapping[str, str]) -> list[str]:
    """Reasons as sentences, with configurations in words (`names`) instead of ids."""
    parts = [r.words(names) for r in reasons]
    return [p[0].upper() + p[1:] for p in parts if p]


def _in_order(records: Sequence[PlanRecord], length_s: float) -> list[_LivePlan]:
    """The plans with the time in which each was in force: until the next one took over."""
    read = [(r, WindowProblem.from_json(r.problem), WindowPlan.from_json(r.plan)) for r in records]
    read = [r for r in read if r[2].segments]
    starts = [plan.segments[0].start_s for _, _, plan in read]
    out = []
    for n, (record, problem, plan) in enumerate(read):
        # A plan that was made at the same instant as a later one never took over.
        end = min((s for s in starts[n + 1 :]), default=length_s)
        out.append(_LivePlan(record, problem, plan, evaluate(problem, plan.segments), starts[n], max(starts[n], end)))
    return out


def _configs(detail: WindowDetail, plans: Sequence[_LivePlan]) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {o.id: o.details for p in plans for s in p.problem.streams for o in s.options}
    return found | {p.config: p.profile["config"] for p in detail.profiles}


def _share(kind: str, share: float, camera: str | None = None, config: str | None = None) -> Json:
    return {"kind": kind, "camera": camera, "config": config, "share": round(share, 6)}


def _stretch(
    start: float,
    end: float,
    plan: int | None,
    phase: str,
    shares: list[Json],
    problem: WindowProblem,
    parts: OtherParts,
) -> Json:
    # Served models held the part of the device that cameras and the parts above did not have.
    served = max(0.0, 1.0 - parts.total - problem.num_gpus)
    shares += [_share("golden", parts.golden), _share("serving", served)]
    shares += [_share("front", parts.front), _share("control", parts.control)]
    kept = [s for s in shares if s["share"] > _NOTHING]
    return {"start_s": round(start, 3), "end_s": round(end, 3), "plan": plan, "phase": phase, "shares": kept}


def _cause(p: _LivePlan, before: _LivePlan | None) -> str:
    if p.record.cause_code == "capacity_changed" and before is not None:
        then, now = before.problem.num_gpus, p.problem.num_gpus
        if abs(now - then) > _NOTHING:
            return f"served models left the cameras {100 * now:.0f} % of the device instead of {100 * then:.0f} %"
    return p.record.cause


def _decision(p: _LivePlan, before: _LivePlan | None, names: Mapping[str, str]) -> Json:
    return {
        "plan": p.record.id,
        "at_s": round(p.start_s, 3),
        "until_s": round(p.end_s, 3),
        "cause": _cause(p, before),
        "cause_code": p.record.cause_code,
        "cause_camera": p.record.cause_camera,
        "policy": p.record.policy,
        "objective": p.record.objective,
        "decision_s": p.plan.decision_seconds,
        "whole": in_words(_coded(p.plan.reasons.get("", ())), names),
        "cameras": {s.id: in_words(_coded(p.plan.reasons.get(s.id, ())), names) for s in p.problem.streams},
        "recorded": in_words([r for rs in p.plan.reasons.values() for r in rs if r.code == "recorded"], names),
        "faults": [_fault(f) for f in p.plan.faults],
    }


def _coded(reasons: Sequence[PlanReason]) -> list[PlanReason]:
    return [r for r in reasons if r.code != "recorded"]


def _camera(camera: str, row: Any, detail: WindowDetail, plans: Sequence[_LivePlan], names: Mapping[str, str]) -> Json:
    own = [p for p in plans if camera in p.outcome.steps]
    steps = [s for n, p in enumerate(own) for s in _in_force(p, camera, first=n == 0)]
    covered = sum(s.end_s - s.start_s for s in steps)
    area = sum(s.momentary * (s.end_s - s.start_s) for s in steps)
    # A plan made before the profiles were there promised nothing of them.
    promising = next((p for p in own if any(s.id == camera and s.options for s in p.problem.streams)), None)
    promising = promising or (own[0] if own else None)
    return {
        "camera": camera,
        "realised": None if row is None or row.realised is None else row.realised.get("value"),
        "frozen": None if row is None or row.frozen is None else row.frozen.get("value"),
        "download": None if row is None else row.details.get("download", {}).get("value"),
        "frames_labelled": 0 if row is None else row.frames_labelled,
        "promised": None if promising is None else round(promising.outcome.by_stream[camera], 6),
        "predicted": round(area / covered, 6) if covered > 0 else None,
        "steps": [[round(s.start_s, 3), round(s.end_s, 3), round(s.momentary, 6)] for s in steps],
        "options": _options(camera, detail, own, names),
        "jobs": [_job(j, detail, names) for j in detail.jobs if j.camera == camera],
        "losses": {} if row is None else {k: v for k, v in row.losses.items() if v},
        "labelling_delay_s": None if row is None else row.labelling_delay_s,
        "profiling_delay_s": None if row is None else row.profiling_delay_s,
    }


def _in_force(p: _LivePlan, camera: str, first: bool) -> list[Step]:
    """The camera's predicted steps in the time in which the plan was in force; the first plan tells what was before."""
    begin = 0.0 if first else p.start_s
    clipped = (
        Step(max(s.start_s, begin), min(s.end_s, p.end_s), s.accuracy, s.factor) for s in p.outcome.steps[camera]
    )
    return [s for s in clipped if s.end_s > s.start_s]


def _options(camera: str, detail: WindowDetail, own: Sequence[_LivePlan], names: Mapping[str, str]) -> list[Json]:
    """The micro-profiler's estimates for the camera, the best gain first, and the fate of each."""
    trained = {j.config for j in detail.jobs if j.camera == camera}
    scheduled = {
        g.streams[camera].retrain_config
        for p in own
        for g in p.plan.segments
        if camera in g.streams and g.streams[camera].retraining_share > 0
    }
    choosing = next((p for p in own if any(s.id == camera and s.options for s in p.problem.streams)), None)
    out = []
    for record in detail.profiles:
        if record.camera != camera:
            continue
        profile = RetrainingProfile.from_json(record.profile)
        gain, work = profile.end_accuracy.value - profile.start_accuracy, profile.device_seconds.value
        chosen = record.config in trained or record.config in scheduled
        out.append(
            {
                "config": record.config,
                "words": names.get(record.config, record.config),
                "start_accuracy": profile.start_accuracy,
                "end_accuracy": profile.end_accuracy.to_json(),
                "device_seconds": profile.device_seconds.to_json(),
                "gain_per_device_second": None if work <= 0 else round(gain / work, 6),
                "chosen": chosen,
                "verdict": _verdict(profile, record.config in trained, chosen, choosing),
            }
        )
    return sorted(out, key=lambda o: -o["end_accuracy"]["value"])


def _verdict(profile: RetrainingProfile, trained: bool, chosen: bool, choosing: _LivePlan | None) -> str:
    if trained:
        return "chosen and trained"
    if chosen:
        return "planned, but not begun"
    if profile.end_accuracy.value - profile.start_accuracy < _GAIN:
        return "would not gain"
    if choosing is not None:
        stream = next((s for s in choosing.problem.streams for o in s.options if o.id == profile.config.id), None)
        option = None if stream is None else next(o for o in stream.options if o.id == profile.config.id)
        speed = 0.0 if option is None else option.speed(min(1.0, choosing.problem.num_gpus))
        left = choosing.problem.window_s - choosing.start_s
        if option is not None and (speed <= 0 or option.device_seconds / speed > left):
            return "would not be done before the window ends"
    return "worth less to the site than the option chosen"


def _job(job: JobRecord, detail: WindowDetail, names: Mapping[str, str]) -> Json:
    expected = next((p.profile for p in detail.profiles if p.camera == job.camera and p.config == job.config), None)
    if job.promoted:
        outcome = "promoted"
    elif job.state == "completed" or (job.state == "stopped" and job.accuracy_after is not None):
        outcome = "refused"
    else:
        outcome = job.state
    return {
        "job": job.to_json(),
        "words": names.get(job.config, job.config),
        "outcome": outcome,
        "started_s": round(job.started_utc_s - detail.window.start_utc_s, 3),
        "ended_s": None if job.ended_utc_s is None else round(job.ended_utc_s - detail.window.start_utc_s, 3),
        "expected": None
        if expected is None
        else {"accuracy": expected["end_accuracy"], "device_seconds": expected["gpu_seconds"]},
    }


def _usage(u: ShareUsage) -> Json:
    return {
        "worker": u.worker,
        "kind": u.role,
        "camera": u.camera,
        "asked": u.asked,
        "granted": u.granted,
        "used": u.used,
        "device_seconds": u.device_seconds,
        "wall_s": u.wall_s,
        "throttled_fraction": u.throttled_fraction,
    }


def _fault(fault: PlanFault) -> Json:
    return {"code": fault.code, "camera": fault.camera, "message": fault.what}
