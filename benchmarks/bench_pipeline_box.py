"""Pipelines on gpu-lets: total share with budgets and gpu-lets chosen together, against the even split.

    python -m benchmarks.bench_pipeline_box [--pipelines game,traffic,entrance,street]
        [--parts shares,rates,queues,poisson]

`game` and `traffic` are those of the gpu-let paper (as in bench_serving_planner); `entrance` and `street` are graphs of
five stages, three deep, the first with stages of very unequal length, the second with nearly equal ones. Shares: on the
whole device and on half of it, at rates up to the largest at which the even split has a plan; each plan is replayed
with requests that come evenly (edge.simulation.pipeline_simulation). Rates: the largest at which there is a plan on
four devices, upwards in steps of 10 requests/s until three in a row have none. The even split is planned by `mosaic`,
as the appliance does. Every plan is judged with interference and without tolerance by the law of `scheduler.joint.law`;
the independent checker judges shares, interference and rates. Queues: `traffic` at 100 ms beside `archive`, which asks
two of its models within 1000 ms, at several rates: the total share where each model has one queue, and where a model
may have two, with as many steps as the appliance takes and with many; where two are followed both plans are replayed
with requests by chance at 1 / 1.2 of the planned rates. Poisson: the part of late requests by chance, of `traffic` and
`entrance` planned for 1, 1.1 and 1.2 times their rate, fed in turn and not, and where an earlier stage may use nothing
of the time kept for later ones. A run replaces the rows of its pipelines and parts in the results and keeps the
others. Times are CPU seconds of one plan, the even split's included.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.gpulet_device import with_six_lenets
from benchmarks.machine import when_and_where
from benchmarks.scripts import load_script
from benchmarks.shared_data import shared_data
from edge.core.applications import LENT
from edge.core.serving import DeviceTable, ServingPlan
from edge.simulation.pipeline_simulation import REQUESTS, replayed
from scheduler.gpulets.policies import least_percent, serving_policy, smallest_plan
from scheduler.gpulets.queue_names import ONE_QUEUE_EACH, QueueNames
from scheduler.joint.demand import JointProblem, PipelineLoad, StageLoad
from scheduler.joint.fitting import MOST_STEPS as FOLLOWED_STEPS
from scheduler.joint.law import joint_verdict
from scheduler.joint.planner import MOST_STEPS, JointPlan, plan_jointly
from scheduler.joint.queues import QueuedPlan, plan_with_queues

REPO = Path(__file__).resolve().parent.parent
RESULTS = REPO / "benchmarks" / "results" / "pipeline_box.json"
STEP = 10
#: Capacity of one device: the box and half of it. Devices at which the largest rates are looked for, as in the paper.
SIZES = (1.0, 0.5)
DEVICES = 4
#: Parts of the largest rate of the even split at which shares are compared.
PARTS = (0.2, 0.4, 0.6, 0.8, 1.0)
LEAST_SAVED = 0.07
LEAST_RATE = {"game": 2510, "traffic": 790}
PAUSE = 3
#: Rates at which plans are asked by chance (0.6 of the even split's largest on one device); head-rooms and draws.
BY_CHANCE = {"traffic": 108.0, "entrance": 84.0}
HEADROOMS = (1.0, 1.1, 1.2)
SEEDS = (1, 2, 3)
#: Devices, and requests per second of `traffic` and of `archive`, of the pairs that share models.
PAIRS = (
    *((1, fast, slow) for fast, slow in ((10, 100), (20, 100), (20, 200), (50, 100), (50, 200))),
    *((DEVICES, fast, slow) for fast, slow in ((20, 400), (20, 800), (50, 400), (100, 400), (200, 200))),
)
URGENT_MS = 100.0
SPARE = 1.2
SEED = 1


def game(rate: float) -> PipelineLoad:
    """Six digits and the scene of a streamed game, read at the same time."""
    digits = tuple(StageLoad(f"digit{n}", f"lenet{n}") for n in range(1, 7))
    return PipelineLoad("game", rate, 95.0, (*digits, StageLoad("scene", "resnet50")))


def traffic(rate: float) -> PipelineLoad:
    """Find objects, then look at vehicles and people."""
    after = ("find",)
    stages = (
        StageLoad("find", "ssd-mobilenetv1"),
        StageLoad("vehicle", "googlenet", 1.0, after),
        StageLoad("person", "vgg16", 1.0, after),
    )
    return PipelineLoad("traffic", rate, 136.0, stages)


def entrance(rate: float) -> PipelineLoad:
    """Find people; turn their faces upright and recognise them; read a badge, and look half of them up by text."""
    stages = (
        StageLoad("find", "ssd-mobilenetv1"),
        StageLoad("align", "mobilenet_v2", 1.0, ("find",)),
        StageLoad("recognise", "densenet161", 1.0, ("align",)),
        StageLoad("badge", "lenet", 1.0, ("find",)),
        StageLoad("text", "bert", 0.5, ("badge",)),
    )
    return PipelineLoad("entrance", rate, 200.0, stages)


def street(rate: float) -> PipelineLoad:
    """Find objects; of vehicles the kind and then the plate, of people the clothes and then the pose."""
    stages = (
        StageLoad("find", "ssd-mobilenetv1"),
        StageLoad("vehicle", "googlenet", 1.5, ("find",)),
        StageLoad("person", "vgg16", 0.5, ("find",)),
        StageLoad("plate", "lenet", 1.0, ("vehicle",)),
        StageLoad("pose", "resnet50", 0.5, ("person",)),
    )
    return PipelineLoad("street", rate, 200.0, stages)


def archive(rate: float) -> PipelineLoad:
    """The objects and the kinds of vehicles in recorded pictures: the models of `traffic`, in no hurry."""
    stages = (StageLoad("find", "ssd-mobilenetv1"), StageLoad("vehicle", "googlenet", 1.0, ("find",)))
    return PipelineLoad("archive", rate, 1000.0, stages)


PIPELINES: Mapping[str, Callable[[float], PipelineLoad]] = {
    "game": game,
    "traffic": traffic,
    "entrance": entrance,
    "street": street,
}


def main() -> int:
    """Exit code 0 if every plan passes every judge and every target is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pipelines", default=",".join(PIPELINES))
    parser.add_argument("--parts", default="shares,rates,queues,poisson")
    args = parser.parse_args()
    shared = shared_data()
    if shared is None:
        return 1
    checker = load_script(shared / "check_serving_plan.py")
    raw = with_six_lenets(json.loads((shared / "serving-problems" / "device-rtx2080ti-synthetic.json").read_text()))
    bench = Judged(checker, raw, DeviceTable.from_json(raw))
    result: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    result |= {"benchmark": "pipeline_box"} | when_and_where()
    for name in args.pipelines.split(","):
        if "shares" in args.parts:
            result.setdefault("shares", {})[name] = shares(bench, name)
        if "rates" in args.parts:
            result.setdefault("rates", {})[name] = largest(bench, name)
        RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    if "queues" in args.parts:
        result["queues"] = queues(bench)
        RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    if "poisson" in args.parts:
        result["poisson"] = [by_chance(bench, name) for name in BY_CHANCE]
    result["targets"] = targets(result)
    for words, met in result["targets"].items():
        print(f"{'met   ' if met else 'MISSED'}  {words}")
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if all(result["targets"].values()) else 1


class Judged:
    """Plans, each judged by all that there is."""

    def __init__(self, checker: ModuleType, raw: dict[str, Any], table: DeviceTable) -> None:
        self._checker, self._raw, self.table = checker, raw, table

    def even(self, problem: JointProblem) -> ServingPlan:
        """The even split's plan."""
        return smallest_plan(problem.served({}), self.table, serving_policy("mosaic"))

    def joint(self, problem: JointProblem) -> JointPlan:
        """Budgets and gpu-lets together. Ends the benchmark where a judge refuses the plan."""
        answer = plan_jointly(problem, self.table)
        self._judge(problem, self.table, self._raw, answer.plan)
        return answer

    def queued(self, problem: JointProblem, steps: int) -> QueuedPlan:
        """With one queue for each model, or two. Ends the benchmark where a judge refuses the plan."""
        answer = plan_with_queues(problem, self.table, most_steps=steps)
        table = answer.names.table(self.table)
        self._judge(problem, self.table, self._raw, answer.one.plan)
        self._judge(answer.problem, table, table.to_json(), answer.plan.plan)
        return answer

    def _judge(self, problem: JointProblem, table: DeviceTable, raw: dict[str, Any], plan: ServingPlan) -> None:
        if not plan.schedulable:
            return
        faults = list(joint_verdict(problem, table, plan).faults)
        asked = problem.served({})
        # The checker knows no gpu-lets that are fed in turn: it judges everything but the worst case.
        endless = replace(asked, models=tuple(replace(m, slo_ms=1e9) for m in asked.models))
        faults += self._checker.check(raw, endless.to_json(), json.loads(json.dumps(plan.to_json())))[0]
        if faults:
            raise SystemExit(f"refused: {faults} for {problem}")


def shares(bench: Judged, name: str) -> list[dict[str, Any]]:
    """Total share at the same rates."""
    rows = []
    for capacity in SIZES:
        most = _largest_even(bench, name, 1, capacity)
        for part in PARTS:
            rate = round(most * part, 1)
            problem = JointProblem((PIPELINES[name](rate),), 1, capacity)
            cpu = time.process_time()
            answer = bench.joint(problem)
            cpu = time.process_time() - cpu
            if not answer.even.schedulable:
                continue
            tried = {r.split: r.share for r in answer.rounds}
            row = {
                "capacity": capacity,
                "rate": rate,
                "even": round(answer.even.total_share, 2),
                "from_even": min((s for split, s in tried.items() if split.startswith("even") and s), default=None),
                "joint": round(answer.plan.total_share, 2),
                "saved": round(1 - answer.plan.total_share / answer.even.total_share, 4),
                "steps": answer.steps,
                "complete": answer.complete,
                "cpu_s": round(cpu, 2),
                "replayed": {
                    f"{which}, {feeding}": replayed(problem, bench.table, plan, feeding)
                    for which, plan in (("even", answer.even), ("joint", answer.plan))
                    for feeding in ("in turn", "pull")
                },
            }
            rows.append(row)
            print(name, row, flush=True)
    return rows


def _least(bench: Judged, name: str, rate: float, devices: int) -> int:
    """Percent of each device without which no plan holds."""
    return least_percent(JointProblem((PIPELINES[name](rate),), devices).served({}), bench.table)


def _largest_even(bench: Judged, name: str, devices: int, capacity: float) -> int:
    """The largest rate, in steps, at which the even split has a plan, before three in a row that have none. Looked for
    from where more than half of the devices are needed by every plan."""
    rate, missed, best = 0, 0, 0
    step = STEP if devices > 1 else STEP // 2
    while _least(bench, name, rate + step, devices) <= 50 * capacity:
        rate += step
    while missed < PAUSE:
        rate += step
        found = bench.even(JointProblem((PIPELINES[name](rate),), devices, capacity)).schedulable
        best, missed = (rate, 0) if found else (best, missed + 1)
    return best


def largest(bench: Judged, name: str) -> dict[str, int]:
    """The largest rate on four devices, with the even split and together."""
    even = _largest_even(bench, name, DEVICES, 1.0)
    rate, missed, best = even - STEP, 0, 0
    while missed < PAUSE:
        rate += STEP
        found = bench.joint(JointProblem((PIPELINES[name](rate),), DEVICES)).plan.schedulable
        best, missed = (rate, 0) if found else (best, missed + 1)
    print(name, "largest rate: even split", even, "together", best, flush=True)
    return {"even": even, "joint": best}


def queues(bench: Judged) -> list[dict[str, Any]]:
    """Total share with one queue for each model, and where a model may have two."""
    rows = []
    for devices, fast, slow in PAIRS:
        problem = JointProblem((replace(traffic(fast), slo_ms=URGENT_MS), archive(slow)), devices)
        row: dict[str, Any] = {"devices": devices, "traffic": fast, "archive": slow}
        for steps in (FOLLOWED_STEPS, MOST_STEPS):
            cpu = time.process_time()
            answer = bench.queued(problem, steps)
            found = {
                "cpu_s": round(time.process_time() - cpu, 1),
                "one": _share(answer.one.plan),
                "two": [{"model": t.cut.model, "share": t.share} for t in answer.tried],
                "followed": _share(answer.plan.plan),
                "models": [cut.model for cut in answer.cuts],
                "steps": [answer.one.steps, answer.steps],
            }
            if answer.cuts and answer.one.plan.schedulable:
                found["late_one"] = _late(problem, bench.table, answer.one.plan, ONE_QUEUE_EACH)
                found["late_two"] = _late(answer.problem, bench.table, answer.plan.plan, answer.names)
            row[f"{steps} steps"] = found
        rows.append(row)
        print("queues", row, flush=True)
    return rows


def _share(plan: ServingPlan) -> float | None:
    return round(plan.total_share, 2) if plan.schedulable else None


def _late(problem: JointProblem, table: DeviceTable, plan: ServingPlan, names: QueueNames) -> float:
    """The part of requests that come too late, by chance at a part of the rates that the plan is for."""
    fewer = tuple(replace(p, rate=p.rate / SPARE) for p in problem.pipelines)
    return replayed(replace(problem, pipelines=fewer), table, plan, "in turn", SEED, names)["late"]


def by_chance(bench: Judged, name: str) -> dict[str, Any]:
    """The part of late requests of a plan on one device, by the head-room that it has over the rate."""
    rate = BY_CHANCE[name]
    problem = JointProblem((PIPELINES[name](rate),), 1, 1.0)
    plan = plan_jointly(problem, bench.table, most_steps=FOLLOWED_STEPS).plan

    def late(headroom: float, feeding: str = "in turn", lent: float = LENT) -> float:
        fewer = tuple(replace(p, rate=p.rate / headroom) for p in problem.pipelines)
        asked = replace(problem, pipelines=fewer)
        found = [replayed(asked, bench.table, plan, feeding, seed, lent=lent)["late"] for seed in SEEDS]
        return round(statistics.fmean(found), 5)

    row = {
        "pipeline": name,
        "planned_rate": rate,
        "requests": len(SEEDS) * REQUESTS,
        "late, in turn": {f"{h:g}": late(h) for h in HEADROOMS},
        "late, pull": {f"{h:g}": late(h, "pull") for h in HEADROOMS},
        "late, in turn, nothing lent": {f"{SPARE:g}": late(SPARE, lent=0.0)},
    }
    print(row)
    return row


def targets(result: dict[str, Any]) -> dict[str, bool]:
    """The targets by name, and whether they are met."""
    out: dict[str, bool] = {}
    rows = [row for name in result.get("shares", {}) for row in result["shares"][name]]
    if rows:
        mean = statistics.mean(row["saved"] for row in rows)
        words = f"{100 * mean:.1f} % less share than the even split, mean of {len(rows)}; at least 7 %"
        out[words] = mean >= LEAST_SAVED
        by_name = {name: statistics.mean(row["saved"] for row in given) for name, given in result["shares"].items()}
        result["saved"] = {name: round(value, 4) for name, value in by_name.items()}
        above = sum(row["joint"] > row["even"] + 1e-6 for row in rows)
        out[f"{above} plans with more share than the even split's; none"] = above == 0
        late = sum(row["replayed"]["joint, in turn"]["late"] > 0 for row in rows)
        out[f"{late} of {len(rows)} replayed plans with a late request, fed in turn; none"] = late == 0
    pairs = [found for row in result.get("queues", ()) for key, found in row.items() if key.endswith("steps")]
    if pairs:
        above = sum(found["one"] is not None and found["followed"] > found["one"] for found in pairs)
        out[f"{above} of {len(pairs)} plans with more share than with one queue for each model; none"] = above == 0
    for name, least in LEAST_RATE.items():
        if name in result.get("rates", {}):
            best = result["rates"][name]["joint"]
            out[f"{name}: {best} requests/s on four devices, at least {least}"] = best >= least
    return out


if __name__ == "__main__":
    sys.exit(main())
