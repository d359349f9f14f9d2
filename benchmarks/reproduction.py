"""What `benchmarks/reproduce_*.py` found: the papers' tables and figures redone, their results as frozen values and as
files, and the page docs/reproduction.md, which is made of nothing else.

    python -m benchmarks.reproduction            # writes the page from benchmarks/results/reproduce_*.json
    python -m benchmarks.reproduction --check    # exit code 1 when the page is not what would be written

A script builds a `Reproduction` and gives it to `finish`, which prints it, writes its result and writes the page.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import statistics
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

from benchmarks.machine import machine

FORMAT = "magpie-reproduction/1"
REPO = Path(__file__).resolve().parent.parent
RESULTS = REPO / "benchmarks" / "results"
PAGE = REPO / "docs" / "reproduction.md"
#: Sections of the page: name of the result file and of the script, the paper's title. In this order.
PAPERS: Mapping[str, str] = {
    "ekya": "Ekya: continuous learning of video analytics models on edge servers",
    "gpulets": "gpu-lets: multi-model inference serving with spatial partitions of a GPU",
    "harpagon": "Harpagon: serving pipelines of models at the least cost",
    "cilantro": "Cilantro: shares for tenants from their own performance",
    "escher": "ESCHER: schedulers of applications on one matcher of named quantities",
}

#: Whether the published algorithm, run here, leads to the paper's conclusion.
Verdict = Literal["agrees", "partly", "differs"]
#: Why an exhibit is not redone. device: it measures a GPU or a cluster that this machine lacks. missing: its picture is
#: not in the text that we have and the text around it names too little. data: it needs a data set that is not published
#: or not here. drawing: it is a diagram, a list or an algorithm and measures nothing. program: it measures a program of
#: others, not an algorithm.
Cause = Literal["device", "missing", "data", "drawing", "program"]
CAUSES: Mapping[Cause, str] = {
    "device": "needs a GPU or a cluster",
    "missing": "picture missing from the text",
    "data": "needs data that is not here",
    "drawing": "measures nothing",
    "program": "measures a program of others",
}
Cell = str | int | float | None


@dataclass(frozen=True)
class Redone:
    """A table or figure that was redone.

    Rows are as long as `columns`; one column or row each says what the paper says, what the published algorithm does
    here, and what ours does. `paper` is the paper's statement with its numbers, in our words; `on` the traces or
    workloads; `why` the reason for a difference, or what follows. Raises ValueError that names the field.
    """

    id: str
    title: str
    paper: str
    on: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    verdict: Verdict
    why: str

    def __post_init__(self) -> None:
        for name in ("id", "title", "paper", "on", "why"):
            _said(self.id, name, getattr(self, name))
        if self.verdict not in get_args(Verdict):
            raise ValueError(f"{self.id}: verdict: {self.verdict!r}; allowed: {', '.join(get_args(Verdict))}")
        if not self.rows:
            raise ValueError(f"{self.id}: rows: none given; at least one is needed")
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"{self.id}: rows: {row!r} has {len(row)} cells; allowed: {len(self.columns)}")
            for cell in row:
                if isinstance(cell, float) and not math.isfinite(cell):
                    raise ValueError(f"{self.id}: rows: {cell!r} in {row!r}; allowed: finite numbers, text, None")

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "title": self.title,
            "redone": True,
            "paper": self.paper,
            "on": self.on,
            "columns": list(self.columns),
            "rows": [list(row) for row in self.rows],
            "verdict": self.verdict,
            "why": self.why,
        }


@dataclass(frozen=True)
class NotRedone:
    """A table or figure that is not redone here, with the reason in words. Raises ValueError that names the field."""

    id: str
    title: str
    cause: Cause
    reason: str

    def __post_init__(self) -> None:
        for name in ("id", "title", "reason"):
            _said(self.id, name, getattr(self, name))
        if self.cause not in CAUSES:
            raise ValueError(f"{self.id}: cause: {self.cause!r}; allowed: {', '.join(CAUSES)}")

    def to_json(self) -> dict[str, Any]:
        return {"id": self.id, "title": self.title, "redone": False, "cause": self.cause, "reason": self.reason}


Exhibit = Redone | NotRedone


@dataclass(frozen=True)
class Reproduction:
    """All tables and figures of one paper, in the paper's order.

    `name` is a key of `PAPERS`, `command` what makes the result again, `date` UTC as ISO 8601, `seeds` those of the
    chance in it, `source` the `source_of` the scripts that made it (None: not stored). Raises ValueError for an unknown
    name, no exhibits, or one exhibit twice.
    """

    name: str
    command: str
    date: str
    machine: str
    seeds: tuple[int, ...]
    exhibits: tuple[Exhibit, ...]
    source: str | None = None

    def __post_init__(self) -> None:
        if self.name not in PAPERS:
            raise ValueError(f"name: {self.name!r}; allowed: {', '.join(PAPERS)}")
        if not self.exhibits:
            raise ValueError(f"{self.name}: exhibits: none given; at least one is needed")
        for identity, count in Counter(e.id for e in self.exhibits).items():
            if count > 1:
                raise ValueError(f"{self.name}: exhibits: {identity!r} is given {count} times; allowed: once")

    @property
    def redone(self) -> tuple[Redone, ...]:
        return tuple(e for e in self.exhibits if isinstance(e, Redone))

    @property
    def not_redone(self) -> tuple[NotRedone, ...]:
        return tuple(e for e in self.exhibits if isinstance(e, NotRedone))

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "name": self.name,
            "paper": PAPERS[self.name],
            "command": self.command,
            "date": self.date,
            "machine": self.machine,
            "seeds": list(self.seeds),
            **({} if self.source is None else {"source": self.source}),
            "exhibits": [e.to_json() for e in self.exhibits],
        }


def source_of(name: str) -> str:
    """SHA-256 of a paper's scripts: `reproduce_<name>.py` and the `<name>_*.py` (`gpulet_*.py`) beside it. What they
    import from the product is not in it."""
    folder = REPO / "benchmarks"
    files = [folder / f"reproduce_{name}.py", *sorted(folder.glob(f"{name.removesuffix('s')}_*.py"))]
    return hashlib.sha256(b"".join(f.name.encode() + f.read_bytes() for f in files)).hexdigest()


#: By paper, when this process began: a script that is edited while it runs is not what made its result.
SOURCES: Mapping[str, str] = {name: source_of(name) for name in PAPERS}


def reproduction(name: str, seeds: Sequence[int], exhibits: Sequence[Exhibit], *, began: datetime) -> Reproduction:
    """The exhibits with where and when they were made. `began` is in UTC."""
    return Reproduction(
        name,
        f"python -m benchmarks.reproduce_{name} --seeds {len(seeds)}",
        began.strftime("%Y-%m-%dT%H:%M:%SZ"),
        machine(),
        tuple(seeds),
        tuple(exhibits),
        SOURCES[name],
    )


def seeds_asked(description: str | None, *, default: int = 3) -> tuple[int, ...]:
    """Reads the command line of a script: `--seeds N` means the seeds 0 to N - 1."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=default, help=f"how many seeds, from 0 (default: {default})")
    count = parser.parse_args().seeds
    if count < 1:
        parser.error(f"--seeds: {count}; allowed: 1 or more")
    return tuple(range(count))


def spread(values: Sequence[float], digits: int = 1) -> str:
    """Mean and, where the values differ, least and largest: `71.2 (69.8 to 72.4)`. Raises ValueError for no values."""
    if not values:
        raise ValueError("values: none given; at least one is needed")
    mean, least, most = (f"{v:.{digits}f}" for v in (statistics.fmean(values), min(values), max(values)))
    return mean if least == most else f"{mean} ({least} to {most})"


def judged(holds: bool, close: bool) -> Verdict:
    """`holds`: the paper's conclusion (who wins) does; `close`: by about how much does too."""
    return "agrees" if holds and close else "partly" if holds or close else "differs"


def about(here: float, there: float) -> bool:
    """Whether a number here is half to twice the paper's."""
    return there / 2 <= here <= 2 * there


def finish(done: Reproduction) -> None:
    """Prints the paper's section, writes its result, and writes the page from all results."""
    print("\n".join(_section(done)))
    path = RESULTS / f"reproduce_{done.name}.json"
    path.write_text(json.dumps(done.to_json(), indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(page(results()))
    took = (datetime.now(UTC) - datetime.fromisoformat(done.date)).total_seconds()
    print(f"\n{path.relative_to(REPO)} and {PAGE.relative_to(REPO)} written, {took:.0f} s after the start")


def results(folder: Path = RESULTS) -> tuple[Reproduction, ...]:
    """The results in the folder, in the order of `PAPERS`. Raises ValueError that names the file and the field."""
    found = (folder / f"reproduce_{name}.json" for name in PAPERS)
    return tuple(_read(path) for path in found if path.exists())


def page(done: Sequence[Reproduction]) -> str:
    """The text of docs/reproduction.md."""
    lines = [
        "# The papers' tables and figures, redone",
        "",
        "Made by `python -m benchmarks.reproduction` from `benchmarks/results/reproduce_*.json`; a test fails when it",
        "is not what these results give. Each section's command makes its result again, without a GPU, and this page.",
        "",
        "*Agrees* means that the published algorithm, as implemented here, leads to the paper's conclusion on our "
        "traces:",
        "the same wins, by half to twice as much. *Partly* means that the same wins, by less or more than that, or "
        "that",
        "one of two conclusions holds; the reason is given. Ours is beside it everywhere, also where it is worse.",
        "Absolute numbers are those of our traces and tables, not of the papers' machines.",
        "",
        *_summary(done),
    ]
    for one in done:
        lines += ["", *_section(one)]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Writes the page; with --check, exit code 1 when it is another."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when the page is stale")
    check = parser.parse_args().check
    text = page(results())
    if not check:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        print(f"{PAGE.relative_to(REPO)} is not what the results give: run python -m benchmarks.reproduction")
        return 1
    return 0


def _summary(done: Sequence[Reproduction]) -> list[str]:
    """A row for each paper, and their sum."""
    heads = ("paper", "tables and figures", "redone", "agree", "partly", "differ", "not redone: why")
    rows: list[tuple[Cell, ...]] = []
    total: Counter[str] = Counter()
    for one in done:
        counts = _counts(one)
        total += counts
        rows.append(_summary_row(f"[{PAPERS[one.name].split(':')[0]}](#{one.name})", counts))
    if len(done) > 1:
        rows.append(_summary_row("**all**", total))
    return _table(heads, rows)


def _counts(one: Reproduction) -> Counter[str]:
    """Exhibits by verdict and by cause."""
    return Counter([*(e.verdict for e in one.redone), *(e.cause for e in one.not_redone)])


def _summary_row(name: str, counts: Counter[str]) -> tuple[Cell, ...]:
    verdicts = [counts[v] for v in get_args(Verdict)]
    causes = [f"{counts[c]} {words}" for c, words in CAUSES.items() if counts[c]]
    return (name, counts.total(), sum(verdicts), *verdicts, "; ".join(causes) or "–")


def _section(one: Reproduction) -> list[str]:
    seeds = f"seeds {', '.join(str(s) for s in one.seeds)}" if one.seeds else "no chance in it"
    lines = [
        f'<a id="{one.name}"></a>',
        f"## {PAPERS[one.name]}",
        "",
        f"`{one.command}`; {one.date[:10]}, {one.machine}, {seeds}.",
    ]
    for exhibit in one.exhibits:
        lines += ["", f"### {exhibit.id}: {exhibit.title}", ""]
        if isinstance(exhibit, NotRedone):
            lines.append(f"Not redone ({CAUSES[exhibit.cause]}): {exhibit.reason}")
            continue
        lines += [f"**Paper:** {exhibit.paper}", "", f"**On:** {exhibit.on}", ""]
        lines += _table(exhibit.columns, exhibit.rows)
        lines += ["", f"**{exhibit.verdict.capitalize()}.** {exhibit.why}"]
    return lines


def _table(heads: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[str]:
    lines = [f"| {' | '.join(_cell(h) for h in heads)} |", "|" + "---|" * len(heads)]
    return lines + [f"| {' | '.join(_cell(c) for c in row)} |" for row in rows]


def _cell(value: Cell) -> str:
    return "–" if value is None else str(value).replace("|", "\\|").replace("\n", " ")


def _read(path: Path) -> Reproduction:
    try:
        given = json.loads(path.read_text())
        if given["format"] != FORMAT:
            raise ValueError(f"format: {given['format']!r}; allowed: {FORMAT!r}")
        exhibits = tuple(_exhibit(e) for e in given["exhibits"])
        return Reproduction(
            given["name"],
            given["command"],
            given["date"],
            given["machine"],
            tuple(given["seeds"]),
            exhibits,
            given.get("source"),
        )
    except KeyError as missing:
        raise ValueError(f"{path.name}: {missing} is missing") from None
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None


def _exhibit(given: Mapping[str, Any]) -> Exhibit:
    if not given["redone"]:
        return NotRedone(given["id"], given["title"], given["cause"], given["reason"])
    return Redone(
        given["id"],
        given["title"],
        given["paper"],
        given["on"],
        tuple(given["columns"]),
        tuple(tuple(row) for row in given["rows"]),
        given["verdict"],
        given["why"],
    )


def _said(exhibit: str, field: str, value: object) -> None:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{exhibit}: {field}: {value!r}; allowed: text that is not empty")


if __name__ == "__main__":
    sys.exit(main())
