"""The serving profiler's owner: runs models in worker processes under their shares and writes the device's table.

Workers belong to a Supervisor, so the same code runs in the appliance (at set-up, and when a table no longer fits) and
behind `magpie profile`. All methods are called from the event loop.
"""

from __future__ import annotations

import asyncio
import math
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version as package_version
from typing import Any

import psutil

from edge.core import checks
from edge.core.clock import Clock
from edge.core.errors import ShareError, WorkerFailed
from edge.core.fields import mapping, number, required, sequence
from edge.core.layout import ServedVersion
from edge.core.serving import DeviceTable, Utilisation
from edge.core.shares import ShareCaps
from edge.core.workers import Worker
from edge.runtime.serving_profiler_worker import Loaded, Sample, Sampled, Subject, serving_profiler_worker
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
from scheduler.gpulets.interference import FEWEST_PAIRS, InterferencePair, fit

#: What the names of stressors begin with where they stand beside models.
STRESSOR = "stressor:"
#: A worker that says nothing for so long while it loads or measures has failed (the Supervisor ends hung ones sooner).
_PATIENCE_S = 300.0
#: Others keeping more than this part of the machine busy while measuring is said in the table.
_QUIET = 0.15
#: Loading a model and starting its process takes about so long, for the estimate of the time.
_LOAD_S = 1.5


@dataclass(frozen=True)
class ProfileOptions:
    """How much is measured. `shares` (percent) are those of the table (empty: `default_shares`); none above
    `most_share` is used, so that cameras beside it keep theirs. `budget_s` is for all models together; `pairs` bounds
    the pairs run together (0: no interference is measured). `quantile` of repeated runs is the latency."""

    shares: tuple[int, ...] = ()
    most_share: int = 100
    budget_s: float = 170.0
    effort: Effort = field(default_factory=Effort)
    quantile: float = 0.95
    pairs: int = 18
    pair_seconds: float = 0.6

    def __post_init__(self) -> None:
        for share in self.shares:
            checks.in_range("shares", share, 1, 100)
        checks.in_range("most_share", self.most_share, 1, 100)
        checks.in_range("budget_s", self.budget_s, 1.0, 86_400.0)
        checks.in_range("quantile", self.quantile, 0.5, 1.0)
        checks.in_range("pairs", self.pairs, 0, 10_000)
        checks.in_range("pair_seconds", self.pair_seconds, 0.05, 600.0)

    @staticmethod
    def quick(most_share: int = 100) -> ProfileOptions:
        """A rough table in about a third of the time, without interference."""
        return ProfileOptions(
            most_share=most_share, budget_s=45.0, effort=Effort(0.25, 5, 200, 1), pairs=0, pair_seconds=0.4
        )


@dataclass(frozen=True)
class Measured:
    """What was measured of one model, and the rows made of it."""

    table_ms: Mapping[int, tuple[float, ...]]
    run_ms: Mapping[int, tuple[float, ...]]
    typical_ms: Mapping[int, tuple[float, ...]]
    origin: Mapping[int, str]
    runs: Mapping[tuple[int, int], Runs]
    memory_mb: float
    smoothed: float
    notes: tuple[str, ...] = ()


class ServingProfiler:
    """Measures models on the device of `caps`. `tell` gets a line for people now and then."""

    def __init__(
        self,
        supervisor: Supervisor,
        caps: ShareCaps,
        clock: Clock,
        options: ProfileOptions | None = None,
        tell: Callable[[str], None] = lambda line: None,
        prefix: str = "serving-profiler",
    ) -> None:
        self.supervisor, self.caps, self.clock = supervisor, caps, clock
        self.options = options or ProfileOptions()
        self._tell, self._prefix = tell, prefix
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
        self._tell(f"{len(versions)} models on {self.caps.device} ({self.caps.kind}); about {plan.seconds:.0f} s")
        found: dict[str, Measured] = {}
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
        table = self._table(found, utilisation, together, base, began, notes)
        took = self.clock.monotonic() - began
        self._tell(f"done in {took:.0f} s")
        for note in table.details["measured"]["notes"]:
            self._tell(f"note: {note}")
        return table

    # -- one model

    async def _one(self, version: ServedVersion, budget_s: float) -> Measured:
        """Latency by batch and share, and memory."""
        options = self.options
        shares = [p for p in self._shares if p <= options.most_share] or [options.most_share]
        grid = share_grid(shares, self._one_unit)
        top = grid[-1]
        runs: dict[tuple[int, int], Runs] = {}
        notes: list[str] = []
        memory = 0.0
        async with _Seat(self, Subject(version), top) as seat:
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
            self._tell(
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
        return Measured(
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
        the probes slow the models. The stressors themselves are in both, under names that begin with STRESSOR."""
        share = max(1, min(self.options.most_share // 2, round(100 * self._one_unit)))
        subjects: dict[str, tuple[Subject, tuple[int, ...]]] = {
            STRESSOR + name: (Subject(stressor=name), (1,)) for name in STRESSORS
        }
        subjects |= {v.model: (Subject(v), tuple(batches[v.model])) for v in versions}
        felt: dict[str, dict[str, dict[int, float]]] = {label: {} for label in subjects}
        pressed: list[Together] = []
        for name in STRESSORS:
            own = Side(STRESSOR + name, 1, share)
            async with _Seat(self, Subject(stressor=name), share, "probe") as probe:
                for label, (subject, sizes) in subjects.items():
                    felt[label][name] = {}
                    async with _Seat(self, subject, share, "pressure") as other:
                        for batch in sizes:
                            felt[label][name][batch], back = await self._slowdowns(probe, other, batch)
                            pressed += [Together(own, Side(label, batch, share), felt[label][name][batch])]
                            pressed += [Together(Side(label, batch, share), own, back)]
            self._tell(f"probe {name}: {felt[own.model][name][1]:.2f} times as long beside its like")
        full = {name: felt[STRESSOR + name][name][1] for name in STRESSORS}
        used = {
            label: {
                batch: Utilisation(pressure(by[CACHE][batch], full[CACHE]), pressure(by[STREAM][batch], full[STREAM]))
                for batch in by[CACHE]
            }
            for label, by in felt.items()
        }
        return used, tuple(pressed)

    async def _slowdowns(self, probe: _Seat, other: _Seat, batch: int) -> tuple[float, float]:
        """How many times as long the probe takes beside `other` as right before and after, alone; and `other` beside
        the probe."""
        effort = Effort(self.options.pair_seconds / 2, 8, 100_000, 1)
        before, solo = await probe.runs(1, effort), await other.runs(batch, effort)
        beside, pressed = await asyncio.gather(probe.runs(1, effort), other.runs(batch, effort))
        after = await probe.runs(1, effort)
        alone = 0.5 * (self._cost_ms(before) + self._cost_ms(after))
        return self._cost_ms(beside) / alone, self._cost_ms(pressed) / self._cost_ms(solo)

    def _cost_ms(self, runs: Runs) -> float:
        """What neighbours make longer: CPU time on a CPU, the cycle on a GPU (its time does not show in the host's)."""
        return runs.mean_cpu_ms if self.caps.device == "cpu" else runs.mean_cycle_ms

    async def together(
        self, versions: Sequence[ServedVersion], batches: Mapping[str, Sequence[int]]
    ) -> tuple[Together, ...]:
        """Slowdowns of models run side by side. What each takes alone is measured right before."""
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
            self._tell(f"{a} beside {b}: {len(chosen)} pairs")
            async with (
                _Seat(self, Subject(by_name[a]), chosen[0][0].share, "one") as left,
                _Seat(self, Subject(by_name[b]), chosen[0][1].share, "two") as right,
            ):
                for one, two in chosen:
                    results += await self._pair(left, right, one, two)
        return tuple(results)

    async def _pair(self, left: _Seat, right: _Seat, one: Side, two: Side) -> list[Together]:
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

    # -- the table

    def _table(
        self,
        found: Mapping[str, Measured],
        utilisation: Mapping[str, Mapping[int, Utilisation]],
        together: Sequence[Together],
        base: DeviceTable | None,
        began_s: float,
        notes: Sequence[str] = (),
    ) -> DeviceTable:
        options = self.options
        notes = [*notes, *(note for m in found.values() for note in m.notes)]
        busy = self.others.cores / max(1e-9, os.cpu_count() or 1)
        if busy > _QUIET:
            notes.append(
                f"other work kept {100 * busy:.0f} % of this machine's cores busy meanwhile: measure again when quiet"
            )
        details: dict[str, Any] = dict(base.details) if base is not None else {}
        coefficients = base.interference if base is not None else (0.0, 0.0, 0.0, 0.0, 1.0)
        stressors = {label: rows for label, rows in utilisation.items() if label.startswith(STRESSOR)}
        utilisation = {label: rows for label, rows in utilisation.items() if label not in stressors}
        known = {**(base.utilisation if base is not None else {}), **utilisation}
        if stressors:
            details["stressors"] = {
                label: {str(b): {"l2": u.l2, "dram": u.dram} for b, u in rows.items()}
                for label, rows in stressors.items()
            }
        if together:
            # Pairs of the models that are kept from the base still tell something of the device.
            pairs = [t for t in recorded_pairs(details) if {t.side.model, t.other.model} - {*found, *stressors}]
            pairs += together
            details["pairs"] = [pair_json(t) for t in pairs]
            use = {**known, **stressors}
            # What a stressor suffers is far beyond what models do, and nobody plans stressors.
            usable = [as_pair(t, use) for t in pairs if t.side.model in known and t.other.model in use]
            if len(usable) >= FEWEST_PAIRS:
                fitted = fit(usable)
                coefficients = fitted.coefficients
                details["interference_error"] = fitted.to_json()
            else:
                notes.append(f"{len(usable)} slowdowns are too few to fit the interference model")
        if isinstance(scaled := details.get("scaled"), Mapping):  # what was measured anew is what it is
            details["scaled"] = {model: factor for model, factor in scaled.items() if model not in found}
        details["machine"] = machine(self.caps)
        details["measured"] = {
            "at_utc": datetime.fromtimestamp(self.clock.utc(), UTC).isoformat(timespec="seconds"),
            "seconds": round(self.clock.monotonic() - began_s, 1),
            "quantile": options.quantile,
            "models": sorted(found),
            "runs": sum(len(r.run_ms) for m in found.values() for r in m.runs.values()),
            "others_busy_cores": round(self.others.cores, 3),
            "smoothed": max(m.smoothed for m in found.values()),
            "notes": notes,
        }
        for key, rows in (
            ("run_ms", {m: f.run_ms for m, f in found.items()}),
            ("typical_ms", {m: f.typical_ms for m, f in found.items()}),
            ("origin", {m: f.origin for m, f in found.items()}),
        ):
            old = details.get(key)
            kept = dict(old) if isinstance(old, Mapping) else {}
            details[key] = kept | {m: {str(p): _plain(v) for p, v in r.items()} for m, r in rows.items()}
        old_table = base or DeviceTable("", {m: f.table_ms for m, f in found.items()}, {})
        return DeviceTable(
            f"{details['machine']['name']}, {details['machine']['share_kind']}",
            {**old_table.latency_ms, **{m: f.table_ms for m, f in found.items()}},
            known,
            coefficients,
            {**old_table.memory_mb, **{m: f.memory_mb for m, f in found.items()}},
            device_memory_mb(self.caps),
            details,
        )

    def place(self, suffix: str) -> str:
        """The name of a worker of this profiler."""
        return f"{self._prefix}-{suffix}" if suffix else self._prefix


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


class _Seat:
    """One worker process with its subject, at a share; questions are answered one after another."""

    def __init__(self, profiler: ServingProfiler, subject: Subject, percent: int, suffix: str = "") -> None:
        self._profiler, self._subject, self._percent = profiler, subject, percent
        self._name = profiler.place(suffix)
        self._number = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._lost = False

    async def __aenter__(self) -> _Seat:
        await self._start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._profiler.supervisor.stop(self._name)

    async def _start(self) -> None:
        if self._profiler.caps.quantize(self._percent / 100.0) <= 0.0:
            raise ShareError(f"{self._profiler.caps.device} grants no share of {self._percent} %")
        loaded = self._expect(0)
        self._lost = False
        self._profiler.supervisor.start(
            Worker(self._name, "executor"),
            self._percent / 100.0,
            serving_profiler_worker,
            self._subject,
            self._received,
            on_lost=self._gone,
            restart=False,
        )
        try:
            await self._answer(loaded)
        except BaseException:
            await self._profiler.supervisor.stop(self._name)
            raise

    async def restart_if_lost(self) -> None:
        """After a batch that was too much for it."""
        if self._lost:
            await self._start()

    async def share(self, percent: int) -> None:
        """Give it another share: live, or by another process where a share is fixed at the start."""
        if percent == self._percent and not self._lost:
            return
        self._percent = percent
        if self._profiler.caps.resize == "live" and not self._lost:
            self._profiler.supervisor.resize(self._name, percent / 100.0)
        else:
            await self._profiler.supervisor.stop(self._name)
            await self._start()

    async def sample(self, batch: int, effort: Effort) -> Sampled:
        """Run batches of this size. Raises WorkerFailed with the reason if they cannot be."""
        self._number += 1
        answer = self._expect(self._number)
        what = self._subject.stressor or (self._subject.version.key if self._subject.version else "")
        if self._lost or not self._profiler.supervisor.send(self._name, Sample(self._number, batch, effort)):
            raise WorkerFailed(f"the profiler of {what} has ended")
        busy = _busy_s()
        own = _own_s(self._profiler.supervisor.pid(self._name))
        began = self._profiler.clock.monotonic()
        sampled: Sampled = await self._answer(answer)
        if sampled.runs is None:
            raise WorkerFailed(f"{what}: {sampled.error}")
        if self._name == self._profiler.place(""):  # nothing of ours runs beside it
            own = _own_s(self._profiler.supervisor.pid(self._name)) - own
            self._profiler.others.add(_busy_s() - busy, own, self._profiler.clock.monotonic() - began)
        return sampled

    async def runs(self, batch: int, effort: Effort) -> Runs:
        """As `sample`, the runs alone."""
        runs = (await self.sample(batch, effort)).runs
        assert runs is not None, "sample raises where there are none"
        return runs

    def _expect(self, number: int) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        return future

    async def _answer(self, future: asyncio.Future[Any]) -> Any:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                return await future
        except TimeoutError:
            raise WorkerFailed(f"{self._name} did not answer within {_PATIENCE_S:.0f} s") from None

    def _received(self, message: Any) -> None:
        number = 0 if isinstance(message, Loaded) else message.number if isinstance(message, Sampled) else -1
        future = self._waiting.pop(number, None)
        if future is not None and not future.done():
            future.set_result(message)

    def _gone(self, reason: str) -> None:
        self._lost = True
        what = self._subject.stressor or (self._subject.version.model if self._subject.version else "")
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(WorkerFailed(f"{what}: {reason}"))
        self._waiting.clear()


async def resize_seconds(profiler: ServingProfiler, version: ServedVersion, percents: Sequence[int]) -> dict[str, Any]:
    """How long it takes until a batch has run under another share: live, or by a new process ("respawn")."""
    effort = Effort(0.0, 1, 1, 0)
    seconds = []
    async with _Seat(profiler, Subject(version), percents[-1]) as seat:
        await seat.sample(1, effort)
        for percent in percents:
            began = profiler.clock.monotonic()
            await seat.share(percent)
            await seat.sample(1, effort)
            seconds.append(round(profiler.clock.monotonic() - began, 4))
    return {"how": profiler.caps.resize, "seconds": seconds, "percents": list(percents)}


def as_pair(together: Together, utilisation: Mapping[str, Mapping[int, Utilisation]]) -> InterferencePair:
    """A measured pair as the interference model takes it."""
    side, other = together.side, together.other
    table = DeviceTable("", {side.model: {100: (1.0,)}}, utilisation)
    return InterferencePair(
        side.share / 100.0,
        table.utilised(side.model, side.batch),
        other.share / 100.0,
        table.utilised(other.model, other.batch),
        together.slowdown,
        side.model,
        other.model,
    )


def recorded_pairs(details: Mapping[str, Any]) -> tuple[Together, ...]:
    """The pairs in a table's details. Raises InvalidValue with the field's path."""
    pairs = []
    for n, given in enumerate(sequence(details.get("pairs") or [], "pairs")):
        at = f"pairs[{n}]"
        value = mapping(given, at)
        sides = [
            Side(str(required(value, model, at)), int(number(value, batch, at)), int(number(value, share, at)))
            for model, batch, share in (("model", "batch", "share"), ("beside", "beside_batch", "beside_share"))
        ]
        pairs.append(Together(sides[0], sides[1], float(number(value, "slowdown", at))))
    return tuple(pairs)


def pair_json(together: Together) -> dict[str, Any]:
    """A measured pair, for the table's file."""
    a, b = together.side, together.other
    return {
        "model": a.model, "batch": a.batch, "share": a.share,
        "beside": b.model, "beside_batch": b.batch, "beside_share": b.share,
        "slowdown": round(together.slowdown, 4),
    }  # fmt: skip


def machine(caps: ShareCaps) -> dict[str, Any]:
    """The machine that a table was measured on."""
    from edge.shares.discover import devices

    device = next((d for d in devices() if d.id == caps.device), None)
    return {
        "name": device.name if device is not None else caps.device,
        "device": caps.device,
        "units": caps.units,
        "share_kind": caps.kind,
        "evidence": caps.evidence,
        "cores": os.cpu_count(),
        "memory_mb": round(psutil.virtual_memory().total / 2**20),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "torch": package_version("torch"),
    }


def device_memory_mb(caps: ShareCaps) -> float | None:
    """Memory of the device, MB, where known."""
    from edge.shares.discover import devices

    found = next((d.memory_bytes for d in devices() if d.id == caps.device), 0)
    return round(found / 2**20, 1) if found else None


def _quantile(values: Sequence[float], quantile: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(quantile * len(ordered)) - 1)]


def _ends_and_middle(batches: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted({batches[0], batches[len(batches) // 2], batches[-1]}))


def _some(cells: Sequence[tuple[int, int]], most: int = 6) -> str:
    shown = ", ".join(f"{p} % {b}" for p, b in cells[:most])
    return shown + (f" and {len(cells) - most} more" if len(cells) > most else "")


def _plain(value: Any) -> Any:
    return value if isinstance(value, str) else list(value)


def _busy_s() -> float:
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0))


def _own_s(pid: int | None) -> float:
    """CPU seconds of a worker and of this process."""
    total = 0.0
    for process in (pid, os.getpid()):
        try:
            times = psutil.Process(process).cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system
    return total
