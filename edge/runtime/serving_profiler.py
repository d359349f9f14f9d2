"""The serving profiler's owner: runs models in worker processes under their shares and writes the device's table.

Workers belong to a Supervisor, so the same code runs in the appliance (at set-up, and when a table no longer fits) and
behind `magpie profile`. All methods are called from the event loop.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from edge.core import checks
from edge.core.clock import Clock
from edge.core.errors import WorkerFailed
from edge.core.front_messages import ServedVersion
from edge.core.serving import DeviceTable, Utilisation
from edge.core.shares import ShareCaps
from edge.runtime.measured_table import MeasuredModel, Measurement, measured_table
from edge.runtime.serving_pairs import BESIDE_MODELS, fitted_interference
from edge.runtime.serving_profiler_process import ProfilerProcess
from edge.runtime.serving_profiler_worker import Subject
from edge.runtime.supervisor import Supervisor
from edge.serving.profiling import (
    Effort,
    OtherLoad,
    Runs,
    Side,
    Together,
    affordable,
    batch_grid,
    complete,
    default_shares,
    pairs_to_measure,
    pressure,
    share_grid,
)
from edge.serving.stressors import CACHE, STREAM, STRESSORS

#: Loading a model and starting its process takes about so long, for the estimate of the time.
_LOAD_S = 1.5


@dataclass(frozen=True)
class ProfileOptions:
    """How much is measured. `shares` (percent) are those of the table (empty: `default_shares`); none above
    `most_share` is used, so that cameras beside it keep theirs. `budget_s` is for all models together; `pairs` bounds
    the pairs run together (0: no interference is measured). `quantile` of repeated runs is the latency. Stressors lean
    on a last cache of `cache_bytes` (None: of the size that the machine tells)."""

    shares: tuple[int, ...] = ()
    most_share: int = 100
    budget_s: float = 170.0
    effort: Effort = field(default_factory=Effort)
    quantile: float = 0.95
    pairs: int = 18
    pair_seconds: float = 0.6
    cache_bytes: int | None = None

    def __post_init__(self) -> None:
        for share in self.shares:
            checks.in_range("shares", share, 1, 100)
        checks.in_range("most_share", self.most_share, 1, 100)
        checks.in_range("budget_s", self.budget_s, 1.0, 86_400.0)
        checks.in_range("quantile", self.quantile, 0.5, 1.0)
        checks.in_range("pairs", self.pairs, 0, 10_000)
        checks.in_range("pair_seconds", self.pair_seconds, 0.05, 600.0)
        if self.cache_bytes is not None:
            checks.in_range("cache_bytes", self.cache_bytes, 1, 2**40)

    @staticmethod
    def quick(most_share: int = 100) -> ProfileOptions:
        """A rough table in about a third of the time, without interference."""
        return ProfileOptions(
            most_share=most_share, budget_s=45.0, effort=Effort(0.25, 5, 200, 1), pairs=0, pair_seconds=0.4
        )


class ServingProfiler:
    """Measures models on the device of `caps`. `report` gets a line for people now and then."""

    def __init__(
        self,
        supervisor: Supervisor,
        caps: ShareCaps,
        clock: Clock,
        options: ProfileOptions | None = None,
        report: Callable[[str], None] = lambda line: None,
        prefix: str = "serving-profiler",
    ) -> None:
        self.supervisor, self.caps, self.clock = supervisor, caps, clock
        self.options = options or ProfileOptions()
        self._report, self._prefix = report, prefix
        self.others = OtherLoad()
        #: Models that the last `profile` could not measure, and why.
        self.failed: dict[str, str] = {}
        #: Share of the device that one thread can use: beyond it a model on a CPU gains nothing.
        self._one_unit = min(1.0, 1.0 / caps.units) if caps.device == "cpu" else 1.0
        wanted = self.options.shares or default_shares(self._one_unit)
        #: A share below the smallest that the device grants cannot be measured.
        self._shares = tuple(p for p in wanted if caps.quantize(p / 100.0) > 0.0)
        checks.not_empty(f"shares of {caps.device} ({caps.kind}: at least {100 * caps.min_share:g} %)", self._shares)

    async def profile(self, versions: Sequence[ServedVersion], base: DeviceTable | None = None) -> DeviceTable:
        """The table of all `versions`; models that only `base` knows are kept from it as they are.

        A model that cannot be loaded or run is left out, with its reason in `failed` and in the table's notes; so is
        interference, where measuring it fails. Raises WorkerFailed where nothing can be measured.
        """
        checks.not_empty("models", versions)
        self.failed = {}
        began = self.clock.monotonic()
        options = self.options
        plan = _Plan(options, versions)
        self._report(f"{len(versions)} models on {self.caps.device} ({self.caps.kind}); about {plan.seconds:.0f} s")
        found: dict[str, MeasuredModel] = {}
        for version in versions:
            try:
                found[version.model] = await self._one(version, plan.cells_s)
            except WorkerFailed as error:
                if version is versions[-1] and not found:
                    raise
                self.failed[version.model] = str(error)
        versions = [v for v in versions if v.model in found]
        notes = [f"{model} cannot be measured: {reason}" for model, reason in self.failed.items()]
        utilisation: dict[str, dict[int, Utilisation]] = {}
        together: tuple[Together, ...] = ()
        if options.pairs:
            batches = {model: tuple(sorted({b for _, b in m.runs})) for model, m in found.items()}
            try:
                utilisation, together = await self.beside(versions, batches)
            except WorkerFailed as error:
                notes.append(f"interference was not measured: {error}")
        interference = fitted_interference(found, utilisation, together, base)
        took = self.clock.monotonic() - began
        table = measured_table(
            self.caps,
            Measurement(found, interference, self.clock.utc(), took, options.quantile, self.others.cores, tuple(notes)),
            base,
        )
        self._report(f"done in {took:.0f} s")
        for note in table.details["measured"]["notes"]:
            self._report(f"note: {note}")
        return table

    # -- one model

    async def _one(self, version: ServedVersion, budget_s: float) -> MeasuredModel:
        """Latency by batch and share, and memory."""
        options = self.options
        shares = [p for p in self._shares if p <= options.most_share] or [options.most_share]
        grid = share_grid(shares, self._one_unit)
        top = grid[-1]
        runs: dict[tuple[int, int], Runs] = {}
        notes: list[str] = []
        memory = 0.0
        async with self.process(Subject(version), top) as seat:
            began = self.clock.monotonic()
            for batch in batch_grid(version.max_batch):
                try:
                    sampled = await seat.sample(batch, self._effort(runs.get((top, 1)), batch))
                except WorkerFailed as error:
                    if not runs:
                        raise
                    notes.append(f"{version.model}: batch {batch} cannot be run ({error})")
                    break
                assert sampled.runs is not None
                runs[top, batch] = sampled.runs
                memory = max(memory, sampled.memory_mb)
            alone = {batch: r.mean_cycle_ms for (_, batch), r in runs.items()}
            spent = self.clock.monotonic() - began
            used = min(self._one_unit, top / 100.0)
            cells, left = affordable(
                alone, grid[:-1], used, options.effort, budget_s - spent, max(2.0 * version.slo_ms, 50.0)
            )
            self._report(
                f"{version.model}: batch {max(alone)} takes {alone[max(alone)]:.1f} ms at {top} %;"
                f" {len(cells)} more cells, about {sum(c.seconds for c in cells):.0f} s"
            )
            await seat.restart_if_lost()
            for cell in cells:
                await seat.share(cell.share)
                sampled = await seat.sample(cell.batch, options.effort)
                assert sampled.runs is not None
                runs[cell.share, cell.batch] = sampled.runs
                memory = max(memory, sampled.memory_mb)
        largest = max(alone)
        value = complete({c: r.latency_ms(options.quantile) for c, r in runs.items()}, self._shares, largest)
        busy = complete({c: _quantile(r.run_ms, options.quantile) for c, r in runs.items()}, self._shares, largest)
        typical = complete({c: r.typical_run_ms for c, r in runs.items()}, self._shares, largest)
        if left:
            notes.append(f"{version.model}: {len(left)} long cells were extrapolated (share, batch): {_some(left)}")
        return MeasuredModel(
            value.rows,
            busy.rows,
            typical.rows,
            value.origin,
            runs,
            round(memory, 1),
            value.smoothed,
            tuple(notes),
        )

    def _effort(self, first: Runs | None, batch: int) -> Effort:
        """The usual effort; for batches that will take long as few runs as do."""
        effort = self.options.effort
        if first is not None and effort.least * first.mean_cycle_ms * batch > 3000.0 * effort.seconds:
            return replace(effort, least=max(3, effort.least // 2), skip=1)
        return effort

    # -- interference

    async def beside(
        self, versions: Sequence[ServedVersion], batches: Mapping[str, Sequence[int]]
    ) -> tuple[dict[str, dict[int, Utilisation]], tuple[Together, ...]]:
        """How much each model presses on the shared cache and on memory, at some of its `batches`; and how much longer
        models take beside each other and beside the stressors than alone. Raises WorkerFailed."""
        some = {model: _ends_and_middle(sorted(sizes)) for model, sizes in batches.items()}
        utilisation, pressed = await self.utilisation(versions, some)
        return utilisation, pressed + await self.together(versions, some)

    async def utilisation(
        self, versions: Sequence[ServedVersion], batches: Mapping[str, Sequence[int]]
    ) -> tuple[dict[str, dict[int, Utilisation]], tuple[Together, ...]]:
        """By the slowdown of calibrated probes beside each model, each on as much as one thread can use; and how much
        the probes slow the models. The stressors themselves are in both, under their names in BESIDE_MODELS."""
        share = max(1, min(self.options.most_share // 2, round(100 * self._one_unit)))
        subjects: dict[str, tuple[Subject, tuple[int, ...]]] = {
            BESIDE_MODELS[name]: (self._stressor(name), (1,)) for name in STRESSORS
        }
        subjects |= {v.model: (Subject(v), tuple(batches[v.model])) for v in versions}
        felt: dict[str, dict[str, dict[int, float]]] = {label: {} for label in subjects}
        pressed: list[Together] = []
        for name in STRESSORS:
            own = Side(BESIDE_MODELS[name], 1, share)
            async with self.process(self._stressor(name), share, "probe") as probe:
                for label, (subject, sizes) in subjects.items():
                    felt[label][name] = {}
                    async with self.process(subject, share, "pressure") as other:
                        for batch in sizes:
                            felt[label][name][batch], back = await self._slowdowns(probe, other, batch)
                            pressed += [Together(own, Side(label, batch, share), felt[label][name][batch])]
                            pressed += [Together(Side(label, batch, share), own, back)]
            self._report(f"probe {name}: {felt[own.model][name][1]:.2f} times as long beside its like")
        full = {name: felt[BESIDE_MODELS[name]][name][1] for name in STRESSORS}
        used = {
            label: {
                batch: Utilisation(pressure(by[CACHE][batch], full[CACHE]), pressure(by[STREAM][batch], full[STREAM]))
                for batch in by[CACHE]
            }
            for label, by in felt.items()
        }
        return used, tuple(pressed)

    def _stressor(self, name: str) -> Subject:
        return Subject(stressor=name, cache_bytes=self.options.cache_bytes)

    async def _slowdowns(self, probe: ProfilerProcess, other: ProfilerProcess, batch: int) -> tuple[float, float]:
        """How many times as long the probe takes beside `other` as right before and after, alone; and `other` beside
        the probe."""
        effort = Effort(self.options.pair_seconds / 2, 8, 100_000, 1)
        before, solo = await probe.runs(1, effort), await other.runs(batch, effort)
        beside, pressed = await asyncio.gather(probe.runs(1, effort), other.runs(batch, effort))
        after = await probe.runs(1, effort)
        alone = 0.5 * (self._cost_ms(before) + self._cost_ms(after))
        return self._cost_ms(beside) / alone, self._cost_ms(pressed) / self._cost_ms(solo)

    def _cost_ms(self, runs: Runs) -> float:
        """The cost that neighbours raise: CPU time on a CPU, the cycle on a GPU (its time does not show in the
        host's)."""
        return runs.mean_cpu_ms if self.caps.device == "cpu" else runs.mean_cycle_ms

    async def together(
        self, versions: Sequence[ServedVersion], batches: Mapping[str, Sequence[int]]
    ) -> tuple[Together, ...]:
        """Slowdowns of models run side by side. The time of each alone is measured right before."""
        most = self.options.most_share
        splits = [(most // 2, most // 2), (most * 3 // 10, most * 7 // 10), (most * 7 // 10, most * 3 // 10)]
        splits = [(p, q) for p, q in splits if all(self.caps.quantize(side / 100.0) > 0.0 for side in (p, q))]
        by_name = {v.model: v for v in versions}
        larger = {model: sizes[-2:] for model, sizes in batches.items()}
        pairs = pairs_to_measure(larger, splits, self.options.pairs)
        results: list[Together] = []
        for a, b in sorted({(one.model, two.model) for one, two in pairs}):
            chosen = [(one, two) for one, two in pairs if (one.model, two.model) == (a, b)]
            chosen.sort(key=lambda pair: (pair[0].share, pair[1].share))  # another share may be another process
            self._report(f"{a} beside {b}: {len(chosen)} pairs")
            async with (
                self.process(Subject(by_name[a]), chosen[0][0].share, "one") as left,
                self.process(Subject(by_name[b]), chosen[0][1].share, "two") as right,
            ):
                for one, two in chosen:
                    results += await self._pair(left, right, one, two)
        return tuple(results)

    async def _pair(self, left: ProfilerProcess, right: ProfilerProcess, one: Side, two: Side) -> list[Together]:
        await left.share(one.share)
        await right.share(two.share)
        effort = Effort(self.options.pair_seconds / 2, 4, 100_000, 1)
        alone = [await left.runs(one.batch, effort), await right.runs(two.batch, effort)]
        longest = max(runs.mean_cycle_ms for runs in alone)
        # Both go on for the same time, so that neither has the device to itself at its end.
        effort = Effort(max(self.options.pair_seconds, 6.0 * longest / 1000.0), 3, 100_000, 1)
        both = await asyncio.gather(left.runs(one.batch, effort), right.runs(two.batch, effort))
        factors = [self._cost_ms(b) / self._cost_ms(a) for a, b in zip(alone, both, strict=True)]
        return [Together(one, two, factors[0]), Together(two, one, factors[1])]

    def process(self, subject: Subject, percent: int, suffix: str = "") -> ProfilerProcess:
        """A process for `subject` at a share of `percent`, to be started with `async with`. One without a suffix runs
        alone: then what other processes of this machine do is counted in `others`."""
        name, others = (f"{self._prefix}-{suffix}", None) if suffix else (self._prefix, self.others)
        return ProfilerProcess(self.supervisor, self.caps, self.clock, name, subject, percent, others)


class _Plan:
    """The time that profiling will take, for people, and how much of it is for the latency of each model."""

    def __init__(self, options: ProfileOptions, versions: Sequence[ServedVersion]) -> None:
        count = len(versions)
        beside = 0.0
        if options.pairs:
            kinds = count * (count + 1) // 2
            probes = 2 * (_LOAD_S * (3 + count) + options.pair_seconds * 2.0 * (2 + 3 * count))
            beside = probes + options.pairs * 2.2 * options.pair_seconds + kinds * 2 * _LOAD_S
        # Latencies come first: they have half of the time at least.
        self.cells_s = max(4.0, max(options.budget_s - beside, options.budget_s / 2) / count - _LOAD_S)
        # Four shares; long batches take longer than the usual time.
        usual = [4 * len(batch_grid(v.max_batch)) * 1.5 * options.effort.seconds for v in versions]
        self.seconds = sum(min(self.cells_s, seconds) + _LOAD_S for seconds in usual) + beside


async def resize_seconds(profiler: ServingProfiler, version: ServedVersion, percents: Sequence[int]) -> dict[str, Any]:
    """How long it takes until a batch has run under another share: live, or by a new process ("respawn")."""
    effort = Effort(0.0, 1, 1, 0)
    seconds = []
    async with profiler.process(Subject(version), percents[-1]) as seat:
        await seat.sample(1, effort)
        for percent in percents:
            began = profiler.clock.monotonic()
            await seat.share(percent)
            await seat.sample(1, effort)
            seconds.append(round(profiler.clock.monotonic() - began, 4))
    return {"how": profiler.caps.resize, "seconds": seconds, "percents": list(percents)}


def _quantile(values: Sequence[float], quantile: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(quantile * len(ordered)) - 1)]


def _ends_and_middle(batches: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted({batches[0], batches[len(batches) // 2], batches[-1]}))


def _some(cells: Sequence[tuple[int, int]], most: int = 6) -> str:
    shown = ", ".join(f"{p} % {b}" for p, b in cells[:most])
    return shown + (f" and {len(cells) - most} more" if len(cells) > most else "")
