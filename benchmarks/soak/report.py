"""The report of a soak: every invariant with its checks and breaks, gaps against bounds, slopes with intervals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from benchmarks.soak import invariants as inv
from benchmarks.soak.mappings import KINDS as MEMORY_KINDS
from benchmarks.soak.schedule import KINDS
from benchmarks.soak.slopes import MEMORY_WARM_UP_S, WARM_UP_S, Slope, minute_medians, slope, verdict
from benchmarks.soak.values import Break, Checked, FaultDone, Gap, MemorySample, ProcessSample, RecordedEvent
from benchmarks.soak.watching import Seen

#: Memory may grow or shrink by so many per cent an hour; threads and open files by one.
FLAT_PERCENT, FLAT_COUNT = 0.5, 1.0
#: Why a process's memory is not flat although nothing leaks: beginnings of names, and the reason.
EXPLAINED: Final[Mapping[str, str]] = {}
_SHOWN = 20


def growth(samples: Sequence[ProcessSample], memory: Sequence[MemorySample] = ()) -> list[dict[str, Any]]:
    """One row for each process that lived for long enough: slopes per hour of memory (per cent of its median), threads
    and open files, each with its 95 % interval and verdict; its memory by minute, from its beginning; and by kind of
    mapping, as `memory` has it."""
    rows = []
    for (name, pid), found in inv.series(samples).items():
        row: dict[str, Any] = {"process": name, "pid": pid, "seconds": round(found[-1].at_s - found[0].at_s)}
        for what, unit in (("memory_mb", FLAT_PERCENT), ("threads", FLAT_COUNT), ("files", FLAT_COUNT)):
            warm_up_s = MEMORY_WARM_UP_S if what == "memory_mb" else WARM_UP_S
            line = slope(minute_medians([(s.at_s, float(getattr(s, what))) for s in found], warm_up_s))
            limit = unit if line is None or what != "memory_mb" else unit / 100.0 * line.median
            row[what] = _slope_row(line, limit, what)
        row["mb_by_minute"] = [round(mb, 1) for _, mb in minute_medians([(s.at_s, s.memory_mb) for s in found], 0.0)]
        looks = [s for s in memory if (s.name, s.pid) == (name, pid)]
        row["mb_by_kind"] = {"minute": [round((s.at_s - found[0].at_s) / 60.0, 1) for s in looks]} | {
            kind: [round(s.mb[kind], 1) for s in looks] for kind in MEMORY_KINDS
        }
        if row["threads"]["verdict"] != "short":
            rows.append(row)
    return sorted(rows, key=lambda row: (row["process"], row["pid"]))


def _slope_row(line: Slope | None, limit: float, what: str) -> dict[str, Any]:
    if line is None:
        return {"verdict": "short"}
    scale = 100.0 / line.median if what == "memory_mb" and line.median else 1.0
    return {
        "verdict": verdict(line, limit),
        "median": round(line.median, 2),
        "per_hour": round(line.per_hour * scale, 3),
        "interval": [round(line.low * scale, 3), round(line.high * scale, 3)],
        "minutes": line.minutes,
    }


def memory_flat(rows: Sequence[Mapping[str, Any]]) -> Checked:
    """No process's memory rises beyond its limit, unless explained. What falls, or is not known well enough, breaks
    nothing: the report names it."""
    explained = [row for row in rows if any(str(row["process"]).startswith(name) for name in EXPLAINED)]
    return _flat("memory_flat", ("memory_mb",), [row for row in rows if row not in explained])


def counts_flat(rows: Sequence[Mapping[str, Any]]) -> Checked:
    """The same of threads and open files."""
    return _flat("counts_flat", ("threads", "files"), rows)


def _flat(name: str, quantities: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Checked:
    breaks, checks = [], 0
    for row in rows:
        for what in quantities:
            checks += row[what]["verdict"] != "short"
            if row[what]["verdict"] == "rising":
                low, high = row[what]["interval"]
                said = f"{row['process']}: {what} rises by {row[what]['per_hour']} ({low} to {high}) an hour"
                breaks.append(Break(name, 0.0, said))
    return Checked(name, checks, tuple(breaks))


def memory_not_judged(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The processes of which none lived for long enough."""
    judged = {row["process"] for row in rows if row["memory_mb"]["verdict"] != "short"}
    return sorted({str(row["process"]) for row in rows} - judged)


def check_all(
    seen: Seen, faults: Sequence[FaultDone], kept: Sequence[RecordedEvent], heard: Sequence[Any],
    destinations: Sequence[str], kills_utc_s: Sequence[float], span_s: tuple[float, float], disk_limit_mb: float,
    rates: Mapping[str, float],
) -> tuple[list[Checked], list[Gap], list[dict[str, Any]]]:  # fmt: skip
    """All invariants, the gaps, and the rows of growth."""
    found = list(inv.gaps(seen.answered, *span_s))
    rows = growth(seen.processes, seen.memory)
    entries = list(seen.in_force.values())
    final = seen.looks[-1].models if seen.looks else {}
    checked = [
        inv.answers_back(found, faults),
        inv.well_again(seen.looks, faults, span_s[1]),
        inv.models_kept(seen.looks, entries),
        inv.promotions_in_force(final, entries),
        inv.events_delivered(kept, heard, destinations, kills_utc_s),
        inv.events_once(heard),
        inv.events_in_order(heard),
        inv.faults_visible(seen.looks, faults),
        inv.requests_add_up(seen.totals, rates),
        inv.nothing_given_up(seen.looks),
        inv.counters_grow(seen.looks),
        inv.earlier_ended(seen.earlier, faults, span_s[1]),
        inv.disk_within(seen.disk_mb, disk_limit_mb),
        memory_flat(rows),
        counts_flat(rows),
    ]
    return checked, found, rows


def longest_gaps(found: Sequence[Gap], faults: Sequence[FaultDone]) -> dict[str, dict[str, Any]]:
    """Of each subject the longest gap, its bound, and the fault that it met; and the gap that came nearest to its
    bound."""
    by_subject: defaultdict[str, list[Gap]] = defaultdict(list)
    for gap in found:
        by_subject[gap.subject].append(gap)
    out = {}
    for subject, its in sorted(by_subject.items()):
        long = max(its, key=lambda g: g.length_s)
        allowed_s, reasons = inv.excused(long, faults)
        out[subject] = {
            "longest_s": round(long.length_s, 1), "bound_s": round(allowed_s, 1),
            "at_s": round(long.from_s, 1), "fault": reasons[-1].fault if reasons else "",
        }  # fmt: skip
    return out


def back_after(faults: Sequence[FaultDone], found: Sequence[Gap]) -> list[dict[str, Any]]:
    """Each fault with the seconds from its end to the end of the longest gap in answers that met it, of the subjects
    that it could stop."""
    rows = []
    longest_of: dict[int, Gap] = {}
    for gap in found:
        if inv.later_s(gap.subject):
            continue  # results may be absent while a model says so
        for fault in inv.excused(gap, faults)[1]:
            before = longest_of.get(fault.number)
            if before is None or gap.length_s > before.length_s:
                longest_of[fault.number] = gap
    for fault in faults:
        longest = longest_of.get(fault.number)
        rows.append(
            {k: round(v, 1) if isinstance(v, float) else v for k, v in asdict(fault).items()}
            | {
                "back_s": None if longest is None else round(max(0.0, longest.to_s - fault.ended_s), 1),
                "gap_s": None if longest is None else round(longest.length_s, 1),
                "bound_s": KINDS[fault.fault].back_s,
            }
        )
    return rows


def never_checked(checked: Sequence[Checked]) -> list[str]:
    """Invariants that nothing was seen of: that they hold is not known."""
    return [c.name for c in checked if not c.checks]


def checked_rows(checked: Sequence[Checked]) -> list[dict[str, Any]]:
    """Each invariant with its checks, its breaks, and the first of them in words."""
    return [
        {"invariant": c.name, "checks": c.checks, "breaks": len(c.breaks),
         "first": [{"at_s": round(b.at_s, 1), "said": b.said} for b in c.breaks[:_SHOWN]]}
        for c in checked
    ]  # fmt: skip


def summary(report: Mapping[str, Any]) -> str:
    """The report for people, in Markdown."""
    lines = [
        f"# Endurance: {report['minutes']:g} minutes, seed {report['seed']}, {report['machine']}", "",
        f"{report['faults_done']} faults; {report['broken']} of {len(report['invariants'])} invariants broken; "
        f"never checked: {', '.join(report['never_checked']) or 'none'}.", "",
        "| invariant | checks | breaks |", "|---|---|---|",
        *(f"| {c['invariant']} | {c['checks'] or 'never checked'} | {c['breaks']} |" for c in report["invariants"]), "",
    ]  # fmt: skip
    for c in report["invariants"]:
        lines += [f"* {c['invariant']}: at {b['at_s']} s: {b['said']}" for b in c["first"][:5]]
    lines += ["", "| subject | longest gap | its bound | fault |", "|---|---|---|---|"]
    lines += [f"| {s} | {g['longest_s']} s | {g['bound_s']} s | {g['fault']} |" for s, g in report["gaps"].items()]
    lines += [
        "",
        "| process | minutes | memory, MB | per cent an hour | verdict | threads | files |",
        "|---|---|---|---|---|---|---|",
        *map(_growth_line, report["growth"]),
        "",
        f"Memory not judged, as none lived for long enough: {', '.join(report['memory_not_judged']) or 'none'}. "
        f"Faults that no look came after: {report['not_looked_for'] or 'none'}.",
    ]
    by_kind: defaultdict[str, list[float]] = defaultdict(list)
    for fault in report["faults"]:
        if fault["tried"] and fault["back_s"] is not None:
            by_kind[fault["fault"]].append(fault["back_s"])
    lines += ["", "| fault | times | answers back after, at most | bound |", "|---|---|---|---|"]
    lines += [f"| {k} | {len(v)} | {max(v)} s | {KINDS[k].back_s:g} s |" for k, v in sorted(by_kind.items())]  # type: ignore[index]
    lines += ["", "| model | requests by how they ended |", "|---|---|"]
    lines += [f"| {m} | {', '.join(f'{k} {n}' for k, n in c.items())} |" for m, c in report["requests"].items()]
    unwell = [
        f"{f['began_s']} s {f['fault']} {f['camera']}: {f['note']}"
        for f in report["faults"]
        if "not yet well" in f["note"]
    ]
    lines += ["", *(f"* {words}" for words in unwell)]
    left_out = [f"{f['fault']}: {f['note']}" for f in report["faults"] if not f["tried"]]
    left_out += [f"{k}: {v}" for k, v in report["not_possible"].items()]
    lines += ["", "Left out: " + ("; ".join(left_out) or "nothing") + "."]
    return "\n".join(lines)


def _growth_line(row: Mapping[str, Any]) -> str:
    m, name, minutes = row["memory_mb"], row["process"], len(row["mb_by_minute"])
    rest = f"| {m['verdict']} | {row['threads']['verdict']} | {row['files']['verdict']} |"
    if m["verdict"] == "short":
        return f"| {name} | {minutes} | {row['mb_by_minute'][-1]} | - {rest}"
    low, high = m["interval"]
    return f"| {name} | {minutes} | {m['median']} | {m['per_hour']} ({low} to {high}) {rest}"
