"""The latency reassigner: it gives the latency left over to the tuples behind the first (Harpagon, section III-C)."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.pipelines.dispatch import CLOSE, SLACK, Tuples, cost, worst_case
from scheduler.pipelines.scheduling import ModuleRules, schedule
from scheduler.pipelines.splitting import Modules
from scheduler.pipelines.steps import CountedSteps


def reassigned(
    modules: Modules, plan: Sequence[Tuples], rules: ModuleRules, most: int | None, steps: CountedSteps
) -> list[Tuples]:
    """The plan after at most `most` modules (None: any number) were scheduled again with the latency that the others
    leave them: all tuples but the first, or the only one where that is a part machine. The largest saving comes
    first, until none is left. A module whose last tuple holds dummies stays as it is."""
    now = list(plan)
    latencies = [worst_case(tuples, modules.dispatch) for tuples in now]
    done = 0
    while most is None or done < most:
        limits = modules.graph.limits(latencies, modules.objective)
        best: tuple[float, int, Tuples] | None = None
        if not steps.take(len(now)):
            break
        for m, tuples in enumerate(now):
            again = _again(modules, m, tuples, limits[m], rules)
            saved = 0.0 if again is None else cost(tuples) - cost(again)
            if again is not None and saved > CLOSE and (best is None or saved > best[0]):
                best = saved, m, again
        if best is None:
            break
        _, m, now[m] = best
        latencies[m] = worst_case(now[m], modules.dispatch)
        done += 1
    return now


def _again(modules: Modules, m: int, tuples: Tuples, limit: float, rules: ModuleRules) -> Tuples | None:
    """The module with its rest scheduled again, or None where there is no rest or no way."""
    kept = tuples[:1] if tuples[0].machines >= 1 - SLACK else ()
    rest = tuples[len(kept) :]
    if not rest or rest[-1].dummy > 0 or len(rest) == len(tuples) > 1:
        return None
    found = schedule(modules.configs[m], sum(t.rate for t in rest), limit, rules)
    if found is None:
        return None
    # With more latency the rest may be cheaper per request than the first tuple: then it comes first in the dispatch.
    again = tuple(sorted((*kept, *found), key=lambda t: t.configuration.unit_cost))
    return again if worst_case(again, modules.dispatch) <= limit + CLOSE else None
