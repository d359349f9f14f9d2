"""Rules of a fleet's log that can only be asked at its end: nothing is lost, gaps, replacements, spread, shares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from edge.simulation.fleet_ledger import FleetLedger, Key, TaskStay
from edge.simulation.fleet_scenario import ArrivingJob, CountedTasks, FleetScenario

Breach = tuple[str, str]


def rules_of_the_end(
    scenario: FleetScenario, ledger: FleetLedger, hfs_errors: Mapping[str, float], tolerance_s: float
) -> Iterator[Breach]:
    """(rule, text) of each breach."""
    for arriving in scenario.jobs:
        yield from _job(scenario, ledger, arriving, tolerance_s)
    expect = scenario.expect
    ends = [end for job in ledger.done_s.values() for end in job.values()]
    latest_s, slowest_s = max(ends, default=0.0), max(ledger.replaced_s, default=0.0)
    if expect.deadline_s is not None and latest_s > expect.deadline_s + tolerance_s:
        yield "deadline", f"the last job ended at {latest_s:.1f} s, not by {expect.deadline_s:g} s"
    if expect.replace_s is not None and slowest_s > expect.replace_s + tolerance_s:
        yield "replace", f"a lost task was placed again after {slowest_s:.1f} s, not {expect.replace_s:g} s"
    for holding in ledger.everything():
        if ledger.boxes[holding.box].drained_s is not None:
            yield "drain", f"{holding.box} still holds {holding.key[0]}/{holding.key[1]}"
    if expect.hfs is not None:
        for tenant, error in hfs_errors.items():
            if abs(error) > expect.hfs.max_error:
                yield "hfs", f"{tenant} had {error:+.3f} of the capacity against its fair share"
    for counted in expect.balance:
        on = _tasks_by_box(ledger, counted)
        if max(on) - min(on) > counted.most:
            yield "balance", f"at {counted.at_s:g} s boxes have {min(on)} to {max(on)} tasks of {counted.jobs}*"
    for counted in expect.pack:
        used = sum(1 for n in _tasks_by_box(ledger, counted) if n)
        if used > counted.most:
            yield "pack", f"at {counted.at_s:g} s tasks of {counted.jobs}* are on {used} boxes"


def _job(scenario: FleetScenario, ledger: FleetLedger, arriving: ArrivingJob, tolerance_s: float) -> Iterator[Breach]:
    job = arriving.job
    if job.id not in ledger.submitted_s:
        yield "lost", f"{job.id} was never submitted"
    elif arriving.infeasible and job.id not in ledger.refused:
        yield "lost", f"{job.id} cannot be placed, and no instruction said so"
    elif not arriving.infeasible and job.id in ledger.refused:
        yield "lost", f"{job.id} was refused, although it can be placed"
    elif not arriving.infeasible:
        for task in range(job.tasks):
            if job.duration_s is None:
                yield from _service(scenario, ledger, (job.id, task), tolerance_s)
            elif task not in ledger.done_s[job.id]:
                yield "lost", f"{job.id}/{task} has not ended"


def _service(scenario: FleetScenario, ledger: FleetLedger, key: Key, tolerance_s: float) -> Iterator[Breach]:
    """A service always runs: no gap is too long, and two copies live no longer than a cut and the merge after it."""
    end_s, most_s = ledger.now_s, scenario.expect.max_gap_s
    stays = sorted(ledger.stays[key], key=lambda stay: stay.from_s)
    served_s = ledger.submitted_s[key[0]]
    for stay in stays:
        if most_s is not None and stay.from_s - served_s > most_s + tolerance_s:
            yield "gap", f"{key[0]}/{key[1]} was not served from {served_s:.1f} to {stay.from_s:.1f} s"
        served_s = max(served_s, end_s if stay.to_s is None else stay.to_s)
    if not stays or end_s - served_s > (most_s or 0.0) + tolerance_s:
        yield "lost", f"{key[0]}/{key[1]} does not run at the end"
    yield from _doubles(scenario, ledger, key, stays, tolerance_s)


def _doubles(
    scenario: FleetScenario, ledger: FleetLedger, key: Key, stays: Sequence[TaskStay], tolerance_s: float
) -> Iterator[Breach]:
    for n, stay in enumerate(stays):
        for other in stays[n + 1 :]:
            both_until_s = min(ledger.now_s if s.to_s is None else s.to_s for s in (stay, other))
            healed_s = max(ledger.boxes[s.box].healed_s or 0.0 for s in (stay, other))
            allowed_s = max(other.from_s, healed_s) + scenario.expect.merge_s + tolerance_s
            if both_until_s > other.from_s and both_until_s > allowed_s:
                yield "copies", f"{key[0]}/{key[1]} lives on {stay.box} and {other.box} until {both_until_s:.1f} s"


def _tasks_by_box(ledger: FleetLedger, counted: CountedTasks) -> list[int]:
    """How many tasks of these jobs ran on each box that is up at the end."""
    on: Counter[str] = Counter()
    for (job, _), stays in ledger.stays.items():
        if job.startswith(counted.jobs):
            for stay in stays:
                if stay.from_s <= counted.at_s and (stay.to_s is None or stay.to_s > counted.at_s):
                    on[stay.box] += 1
    return [on[name] for name, box in ledger.boxes.items() if box.up] or [0]
