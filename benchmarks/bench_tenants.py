"""The tenants' policies in a closed loop: an arena plays problems against `magpie plan tenants -` and scores them.

    python -m benchmarks.bench_tenants --arena tenant_arena.py --problems FOLDER --own 4 --held-out 5,7,9,11,13 --jobs 2

The arena is an independent program (protocol "tenant-arena/1", docs/tenants.md). Each of the three parts can be played
alone; results/tenants.json keeps the others. FOLDER has the arena's problems (*.json) and stored references
(expected.json): every policy (`--policies`) plays for the objective that it is made for; sw, ew and njc play for their
own objective. With --own N, N problems of each kind of benchmarks.own_tenants are played, of which no stored reference
exists: `ew` is compared with `minerva` there (`--own-policies`). Constants are chosen on those; with --held-out the
problems of these numbers are played, on which no constant was chosen.

The table has medians over seeds beside the reference; the bars that are missed are listed, and the baselines that are
better than their reference, and comparisons that could not be made as a measure is missing. Plays that the results have
already are not played again with --keep, unless they lack the measure that their policy is compared by; --jobs N plays
N at the same time. At the end it says how long it took.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.machine import when_and_where
from benchmarks.own_tenants import KINDS, own_problem
from scheduler.tenants.policies import FOR_PIPELINES, SHARING_POLICIES

RESULTS = Path(__file__).resolve().parent / "results" / "tenants.json"
MEASURES = ("sw", "ew", "njc", "useful", "e2e", "p99_ms")
#: Names in files of stored references, where they are not ours.
STORED = {"sw": "cilantro-sw", "ew": "cilantro-ew", "njc": "cilantro-njc", "e2e": "cilantro-e2e", "evo-e2e": "evo"}
#: The metric of each policy: a baseline must not be more than BASELINE_GAP below its reference on it.
OWN = {"greedy-ew": "ew", "minerva": "ew", "parties": "njc", "miad": "njc", "evo-sw": "sw", "evo-ew": "ew"}
OWN |= {"ernest": "njc", "quasar": "njc", "fair": "njc", "evo-e2e": "e2e"}
BASELINE_GAP, EW_GAP = 0.02, 0.005
#: Policies that know no more than ew: it is never far below them, and above both in the mean.
RIVALS = ("minerva", "cilantro-ew")
#: Tenants report nothing there, and the stored references give them the demand that they declare.
SILENT = "mt20_silent_a"
#: (policy, problem, measure) -> least median. Latency: greatest, in ms, of the second half.
BARS = {
    ("sw", "mt20_a", "sw"): 0.925,
    ("sw", "mt20_drift_a", "sw"): 0.925,
    ("sw", "box5_drift_a", "sw"): 0.975,
    ("sw", "box5_a", "sw"): 0.996,
    ("ew", "mt20_a", "ew"): 0.82,
    ("ew", "mt20_drift_a", "ew"): 0.82,
    ("ew", "box5_drift_a", "ew"): 0.935,
    ("ew", "box5_a", "ew"): 0.98,
    ("njc", "mt20_a", "njc"): 0.985,
    ("njc", "mt20_a", "useful"): 0.975,
    ("njc", "mt20_drift_a", "njc"): 0.985,
    ("njc", "mt20_drift_a", "useful"): 0.975,
    ("e2e", "pipe6_a", "p99_ms"): 320.0,
    ("e2e", "pipe19_a", "p99_ms"): 900.0,
}
MOST_REPLY_S = {"tenants": 0.1, "pipeline": 0.5}

Rows = dict[str, dict[str, dict[str, Any]]]


@dataclass(frozen=True)
class Part:
    """A part of the benchmark: its key in the results ("": beside the keys of the others), problems (name, file, kind),
    policies, and the stored references by problem."""

    key: str
    problems: tuple[tuple[str, Path, str], ...]
    policies: tuple[str, ...]
    stored: Mapping[str, Any]

    def plays(self, seeds: Sequence[str]) -> Iterator[tuple[str, Path, str, str, str]]:
        """(problem, file, kind, policy, seed) of every play."""
        for (name, file, kind), policy, seed in itertools.product(self.problems, self.policies, seeds):
            if _plays(policy, kind):
                yield name, file, kind, policy, seed


def main() -> int:
    """Exit code 0 if every bar that was measured is reached and no play had a fault."""
    args = _arguments()
    began = time.monotonic()
    result = json.loads(args.out.read_text()) if args.out.exists() else {"benchmark": "tenants"}
    missed: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for part in _parts(args, Path(folder)):
            missed += _part(args, part, result)
    for line in missed:
        print(f"missed: {line}")
    print(f"took {time.monotonic() - began:.0f} s with {args.jobs} plays at a time")
    return 1 if missed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arena", type=Path, required=True, help="the arena's program")
    parser.add_argument("--problems", type=Path, help="a folder of tenant-problem/1 files")
    parser.add_argument("--own", type=int, default=0, help="so many problems of our own of each kind")
    parser.add_argument("--held-out", type=_numbers, default=(), help="numbers of problems of our own of each kind")
    parser.add_argument("--policies", default=",".join(SHARING_POLICIES), help="on the arena's problems")
    parser.add_argument("--own-policies", default="ew,minerva", help="on problems of our own (%(default)s)")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--only", default="", help="names of the arena's problems (default: all)")
    parser.add_argument("--keep", action="store_true", help="do not play again what the results have")
    parser.add_argument("--out", type=Path, default=RESULTS, help="results (%(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="so many plays at the same time (%(default)s)")
    args = parser.parse_args()
    if args.problems is None and not args.own and not args.held_out:
        parser.error("--problems, --own or --held-out is needed")
    if args.jobs < 1:
        parser.error("--jobs: at least 1")
    return args


def _parts(args: argparse.Namespace, folder: Path) -> Iterator[Part]:
    """Those that are asked for; problems of our own are written in `folder`."""
    if args.problems is not None:
        references = args.problems / "expected.json"
        stored = json.loads(references.read_text()) if references.exists() else {}
        yield Part("", tuple(_problems(args.problems, args.only)), tuple(args.policies.split(",")), stored)
    for key, numbers in (("own", tuple(range(args.own))), ("held_out", args.held_out)):
        if numbers:
            yield Part(key, tuple(_own_problems(folder, numbers)), tuple(args.own_policies.split(",")), {})


def _part(args: argparse.Namespace, part: Part, result: dict[str, Any]) -> list[str]:
    """Play a part, print it, and write it to the results; what is missed."""
    began = time.monotonic()
    before = result.get(part.key, {}) if part.key else result
    rows: Rows = before.get("plays", {}) if args.keep else {}

    def write(played: Mapping[str, Any]) -> None:
        result.update({part.key: dict(played)} if part.key else played)
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(result, indent=1) + "\n")

    seeds = args.seeds.split(",")
    left = [p for p in part.plays(seeds) if not _played(rows.get(p[0], {}).get(p[3], {}).get(p[4]), p[3], p[2])]
    with ThreadPoolExecutor(args.jobs) as pool:
        running = {pool.submit(_play, args.arena, file, p, int(s)): (n, k, p, s) for n, file, k, p, s in left}
        try:
            for done in as_completed(running):
                name, kind, policy, seed = running[done]
                rows.setdefault(name, {}).setdefault(policy, {})[seed] = {"kind": kind, **done.result()}
                print(f"{name} {policy} {seed}", flush=True)
                write({"plays": rows})
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    ordered = {n: of for n in (*(p[0] for p in part.problems), *rows) if (of := _ordered(rows.get(n, {})))}
    medians = {name: {policy: _median(plays) for policy, plays in of.items()} for name, of in ordered.items()}
    missed = list(_missed_own(medians) if part.key else _missed(medians, part.stored))
    took = {"took_s": round(time.monotonic() - began), "jobs": args.jobs, "played": len(left)}
    write({**when_and_where(), **took, "medians": medians, "missed": missed, "plays": ordered})
    _print(medians, part.stored)
    for line in _above(medians, part.stored):
        print(f"above: {line}")
    for line in _uncompared(medians, part.stored):
        print(f"not compared: {line}")
    return missed


def _compared(policy: str, kind: str) -> str | None:
    """The measure that a baseline is compared by with its reference, on problems of `kind`."""
    own = OWN.get(policy)
    return own if (own == "e2e") == (kind == "pipeline") else None


def _reference(stored: Mapping[str, Any], name: str, policy: str) -> Mapping[Any, Any]:
    """What is stored of a policy, by its name there, on the problem `name`; empty: nothing."""
    found: Mapping[Any, Any] = stored.get(name, {}).get(STORED.get(policy, policy), {})
    return found


def _played(play: Mapping[str, Any] | None, policy: str, kind: str) -> bool:
    """Whether the results have the play with all that it is compared by."""
    own = _compared(policy, kind)
    return play is not None and (own is None or own in play)


def _ordered(of: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Policies and seeds in order, however the plays ended."""
    known = [p for p in (*SHARING_POLICIES, *of) if p in of]
    return {policy: {seed: of[policy][seed] for seed in sorted(of[policy], key=int)} for policy in dict.fromkeys(known)}


def _numbers(given: str) -> tuple[int, ...]:
    return tuple(int(number) for number in given.split(","))


def _own_problems(folder: Path, numbers: Sequence[int]) -> list[tuple[str, Path, str]]:
    """Problems of our own with these numbers, of each kind, as files."""
    found = []
    for number, kind in itertools.product(numbers, KINDS):
        problem = own_problem(kind, number)
        file = folder / f"{problem['name']}.json"
        file.write_text(json.dumps(problem))
        found.append((problem["name"], file, problem["kind"]))
    return found


def _plays(policy: str, kind: str) -> bool:
    """Whether `policy` is measured on problems of `kind`; evo-e2e could play tenants too, as evo-sw then."""
    return (kind == "pipeline") == (policy in FOR_PIPELINES) or policy == "fair"


def _problems(folder: Path, only: str) -> Iterator[tuple[str, Path, str]]:
    wanted = set(only.split(",")) if only else None
    for file in sorted(folder.glob("*.json")):
        value = json.loads(file.read_text())
        if not isinstance(value, dict) or value.get("format") != "tenant-problem/1":
            continue
        if wanted is None or value["name"] in wanted:
            yield value["name"], file, value["kind"]


def _play(arena: Path, file: Path, policy: str, seed: int) -> dict[str, Any]:
    """The arena's scores for one play."""
    objective = ["--objective", policy] if policy in ("sw", "ew", "njc") else []
    planner = [sys.executable, "-m", "edge.cli", "plan", "tenants", "-", "--policy", policy, "--seed", str(seed)]
    command = [sys.executable, str(arena), str(file), *objective, "--seed", str(seed), "--", *planner]
    # One thread: the matrices are small, and other cores are others' work.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    if not done.stdout.strip():
        raise SystemExit(f"{file.name}, {policy}: the arena said nothing: {done.stderr[-500:]}")
    line = json.loads(done.stdout)
    scores = {key: line[key] for key in MEASURES if key in line}
    if "p99_ms" in line:
        scores["p99_ms"] = line["last_half"]["p99_ms"]
    return {**scores, "faults": line["faults"], "of_oracle": line["of_oracle"], "reply_s": line["reply_s"]["median"]}


def _median(plays: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    first = next(iter(plays.values()))
    keys = [key for key in (*MEASURES, "of_oracle", "reply_s") if all(key in p for p in plays.values())]
    out: dict[str, Any] = {key: round(statistics.median(p[key] for p in plays.values()), 4) for key in keys}
    out["spread"] = {key: [min(p[key] for p in plays.values()), max(p[key] for p in plays.values())] for key in keys}
    out["faults"], out["kind"] = sum(p["faults"] for p in plays.values()), first["kind"]
    out["seeds"] = len(plays)
    return out


def _missed(medians: Mapping[str, Mapping[str, Any]], stored: Mapping[str, Any]) -> Iterator[str]:
    for (policy, name, measure), bar in BARS.items():
        got = medians.get(name, {}).get(policy, {}).get(measure)
        if got is not None and (got > bar if measure == "p99_ms" else got < bar):
            yield f"{policy} on {name}: {measure} {got}, bar {bar}"
    for name, policies in medians.items():
        for policy, row in policies.items():
            if row["faults"]:
                yield f"{policy} on {name}: {row['faults']} faults"
            if row["reply_s"] > MOST_REPLY_S[row["kind"]]:
                yield f"{policy} on {name}: median reply {row['reply_s']} s, bar {MOST_REPLY_S[row['kind']]} s"
            own, reference = _compared(policy, row["kind"]), _reference(stored, name, policy)
            if own in row and own in reference and row[own] < reference[own] - BASELINE_GAP:
                yield f"{policy} on {name}: {own} {row[own]}, reference {reference[own]}"
    yield from _missed_by_ew(medians, stored)
    for policy in ("sw", "ew", "njc"):
        got = medians.get(SILENT, {}).get(policy, {}).get(policy)
        declared = stored.get(SILENT, {}).get(f"cilantro-{policy}", {}).get(policy)
        if got is not None and declared is not None and got < declared:
            yield f"{policy} on {SILENT}: {got}, with declared demands {declared}"


def _missed_own(medians: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """On problems of our own, Minerva's plays are the reference."""
    yield from _missed_by_ew(medians, {name: {"minerva": of.get("minerva", {})} for name, of in medians.items()})
    for name, policies in medians.items():
        for policy, row in policies.items():
            if row["faults"]:
                yield f"{policy} on {name}: {row['faults']} faults"


def _missed_by_ew(medians: Mapping[str, Mapping[str, Any]], stored: Mapping[str, Any]) -> Iterator[str]:
    """Where ew is below a rival by more than EW_GAP, or not above it in the mean over the problems."""
    for rival in RIVALS:
        pairs = {
            name: (of["ew"]["ew"], stored[name][rival]["ew"])
            for name, of in medians.items()
            if "ew" in of.get("ew", {}) and "ew" in stored.get(name, {}).get(rival, {})
        }
        for name, (ours, theirs) in pairs.items():
            if ours < theirs - EW_GAP:
                yield f"ew on {name}: {ours}, {rival} {theirs}"
        if pairs:
            ours, theirs = (statistics.mean(p[k] for p in pairs.values()) for k in (0, 1))
            print(f"ew in the mean of {len(pairs)} problems: {ours:.4f}, {rival} {theirs:.4f}")
            if ours <= theirs:
                yield f"ew in the mean of {len(pairs)} problems: {ours:.4f}, {rival} {theirs:.4f}"


def _above(medians: Mapping[str, Mapping[str, Any]], stored: Mapping[str, Any]) -> Iterator[str]:
    """Baselines that are better than their reference by more than BASELINE_GAP: docs/decisions/tenants.md says why."""
    for name, policies in medians.items():
        for policy, row in policies.items():
            own, reference = _compared(policy, row["kind"]), _reference(stored, name, policy)
            if own in row and own in reference and row[own] > reference[own] + BASELINE_GAP:
                yield f"{policy} on {name}: {own} {row[own]}, reference {reference[own]}"


def _uncompared(medians: Mapping[str, Mapping[str, Any]], stored: Mapping[str, Any]) -> Iterator[str]:
    """Baselines with a reference whose measure is missing in their plays or in the reference."""
    for name, policies in medians.items():
        for policy, row in policies.items():
            own, reference = _compared(policy, row["kind"]), _reference(stored, name, policy)
            lacking = [of for of, has in (("its plays", row), ("its reference", reference)) if own not in has]
            if own is not None and reference and lacking:
                yield f"{policy} on {name}: no {own} in {' and '.join(lacking)}"


def _print(medians: Mapping[str, Mapping[str, Any]], stored: Mapping[str, Any]) -> None:
    for name, policies in medians.items():
        print(f"\n{name}: median (reference)")
        for policy, row in policies.items():
            reference = _reference(stored, name, policy)
            cells = []
            for key in (key for key in MEASURES if key in row):
                old = reference.get("last_half", {}).get(key) if key == "p99_ms" else reference.get(key)
                cells.append(f"{key} {row[key]:g} ({'-' if old is None else f'{old:g}'})")
            print(f"  {policy:10} {'  '.join(cells)}  reply {row['reply_s']:g} s")


if __name__ == "__main__":
    sys.exit(main())
