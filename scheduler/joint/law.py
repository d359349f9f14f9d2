"""How a plan behaves when gpu-lets of one model are fed in turn from its queue, and how it is judged.

Each gpu-let's worst case is that of `scheduler.gpulets.stage_times`. Requests of a model are dealt evenly to its
gpu-lets that are not alike, so each group of alike ones keeps its own worst case at its own rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from edge.core.serving import DeviceTable, QueueId, ServingPlan
from scheduler.gpulets.stage_times import worst_ms
from scheduler.gpulets.verdict import verdict
from scheduler.joint.demand import JointProblem

#: Longer than any objective: the older law must not count the wait, which is counted here.
_NO_OBJECTIVE_MS = 1e12
_EPS = 1e-6


@dataclass(frozen=True)
class JointVerdict:
    """`faults` in words, none when the plan holds. `worst_ms` per model (placed ones only), bursts included;
    `throughput` requests per second per model; `path_ms` the longest path of each pipeline with requests."""

    faults: tuple[str, ...]
    worst_ms: Mapping[str, float]
    throughput: Mapping[str, float]
    path_ms: Mapping[str, float]


def joint_verdict(problem: JointProblem, table: DeviceTable, plan: ServingPlan) -> JointVerdict:
    """Judge `plan` with interference on both sides and without tolerance."""
    asked = problem.served({})
    endless = replace(asked, models=tuple(replace(m, slo_ms=_NO_OBJECTIVE_MS) for m in asked.models))
    judged = verdict(endless, table, plan, slack=0.0)
    faults = list(judged.faults)
    bursts = {QueueId(model): late for model, late in problem.burst_ms.items()}
    worst = {queue.model: took for queue, took in worst_ms(judged.timings, bursts).items()}
    paths: dict[str, float] = {}
    for pipeline in problem.busy:
        if any(stage.model not in worst for stage in pipeline.stages):
            continue  # the missing rate is a fault already
        took, path = pipeline.longest({s.name: worst[s.model] for s in pipeline.stages})
        paths[pipeline.name] = took
        if took > pipeline.slo_ms + _EPS:
            names = " > ".join(path)
            faults.append(
                f"{pipeline.name}: {names} takes up to {took:.2f} ms, the objective is {pipeline.slo_ms:g} ms"
            )
    return JointVerdict(tuple(faults), worst, judged.throughput, paths)
