"""The serving profiler over real processes, models and shares. What takes time is rare and short; nothing is timed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from runtime_kit import Bench, Respawning

from edge.core.clock import SystemClock
from edge.core.errors import InvalidValue, WorkerFailed
from edge.core.front_messages import ServedVersion
from edge.core.oip import TensorSpec
from edge.core.serving import DeviceTable, Utilisation
from edge.runtime.serving_profiler import ProfileOptions, ServingProfiler, resize_seconds
from edge.serving.profiling import Effort
from edge.shares.cpu import CpuPartitioner

Make = Callable[..., Bench]
BRIEF = ProfileOptions(shares=(20, 50, 100), budget_s=60.0, effort=Effort(0.02, 3, 20, 1), pairs=0, pair_seconds=0.05)


def identity(name: str, max_batch: int = 2, shape: Sequence[int] = (-1, 8)) -> ServedVersion:
    specs = (TensorSpec("x", "FP32", tuple(shape)),)
    return ServedVersion(name, "1", "", "identity", specs, specs, 50.0, max_batch=max_batch)


def profiler(bench: Bench, partitioner: CpuPartitioner | Respawning, options: ProfileOptions = BRIEF):
    said: list[str] = []
    return ServingProfiler(bench.supervisor, partitioner.caps, SystemClock(), options, said.append), said


async def test_a_table_of_a_model_and_the_machine(bench: Make, partitioner: CpuPartitioner) -> None:
    b = bench()
    measure, said = profiler(b, partitioner)
    table = await measure.profile([identity("echo")])
    assert DeviceTable.from_json(table.to_json()) == table
    assert table.shares == (20, 50, 100)
    assert table.max_batch("echo", 20) == 2
    assert table.details["origin"]["echo"] == {"20": "mm", "50": "mm", "100": "mm"}
    assert (
        0 < table.busy_ms("echo", 20, 1, typical=True) <= table.busy_ms("echo", 20, 1) <= table.solo_ms("echo", 20, 1)
    )
    assert table.memory_mb["echo"] >= 0
    assert table.device_memory_mb > 0
    assert table.details["machine"]["share_kind"] == "coop"
    assert table.details["measured"]["models"] == ["echo"]
    assert table.interference == (0, 0, 0, 0, 1)
    assert "about" in said[0]
    assert b.supervisor.workers() == [], "nothing is left running"


async def test_a_model_is_added_to_a_table(bench: Make, partitioner: CpuPartitioner) -> None:
    measure, _ = profiler(bench(), partitioner)
    old = DeviceTable(
        "old", {"echo": {50: (9.0,)}, "kept": {50: (7.0,)}}, {"kept": {1: Utilisation(0.1, 0.2)}},
        (0.1, 0.2, 0.3, 0.4, 1.0), {"kept": 5.0}, 
        details={"run_ms": {"kept": {"50": [6.0]}}, "site": "x", "scaled": {"echo": 2.0, "kept": 1.5}},
    )  # fmt: skip
    table = await measure.profile([identity("echo", 1)], old)
    assert table.latency_ms["kept"] == {50: (7.0,)}
    assert table.latency_ms["echo"][50] != (9.0,)
    assert table.busy_ms("kept", 50, 1) == 6.0
    assert (table.utilisation, table.interference) == (old.utilisation, old.interference)
    assert table.details["site"] == "x"
    assert table.details["scaled"] == {"kept": 1.5}


async def test_a_model_that_cannot_be_loaded_is_named_with_the_reason(bench: Make, partitioner: CpuPartitioner) -> None:
    b = bench()
    measure, _ = profiler(b, partitioner)
    broken = ServedVersion("plates", "1", "/nowhere", "torchscript", (), (), 50.0, file="model.pt")
    with pytest.raises(WorkerFailed, match="plates"):
        await measure.profile([broken])
    assert b.supervisor.workers() == []


async def test_a_model_that_cannot_be_measured_does_not_keep_the_others_from_it(
    bench: Make, partitioner: CpuPartitioner
) -> None:
    good = identity("good", 1)
    broken = ServedVersion("plates", "1", "/nowhere", "torchscript", (), (), 50.0, file="model.pt")
    for versions in ([broken, good], [good, broken]):
        measure, _ = profiler(bench(), partitioner)
        table = await measure.profile(versions)
        assert set(table.latency_ms) == {"good"}
        assert set(measure.failed) == {"plates"}
        assert any("plates cannot be measured" in note for note in table.details["measured"]["notes"])


async def test_a_batch_that_the_model_refuses_bounds_the_rows(bench: Make, partitioner, tmp_path: Path) -> None:
    import torch

    class AtMostFour(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.shape[0] > 4:
                raise RuntimeError("too many rows")
            return x

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript is deprecated, and what most people have
        torch.jit.save(torch.jit.script(AtMostFour()), str(tmp_path / "model.pt"))
    specs = (TensorSpec("x", "FP32", (-1, 8)),)
    version = ServedVersion(
        "picky", "1", str(tmp_path), "torchscript", specs, specs, 50.0, max_batch=16, file="model.pt"
    )
    measure, _ = profiler(bench(), partitioner)
    table = await measure.profile([version])
    assert table.max_batch("picky", 100) == 4
    assert any("batch 8 cannot be run" in note for note in table.details["measured"]["notes"])


async def test_a_share_that_is_fixed_at_the_start_gets_a_new_process(bench: Make, partitioner: CpuPartitioner) -> None:
    fixed = Respawning(partitioner)
    measure, _ = profiler(bench(fixed), fixed)
    found = await resize_seconds(measure, identity("echo", 1), (20, 50))
    assert found["how"] == "respawn"
    assert [name for call, name in fixed.calls if call == "attach"] == ["serving-profiler"] * 3


async def test_shares_above_the_allowed_are_never_taken(bench: Make, partitioner: CpuPartitioner) -> None:
    taken: list[float] = []
    b = bench()
    start, resize = b.supervisor.start, b.supervisor.resize
    b.supervisor.start = lambda worker, share, *a, **k: (taken.append(share), start(worker, share, *a, **k))[1]
    b.supervisor.resize = lambda name, share: (taken.append(share), resize(name, share))[1]
    measure, _ = profiler(b, partitioner, replace(BRIEF, most_share=40))
    table = await measure.profile([identity("echo", 1)])
    assert max(taken) <= 0.4
    assert table.shares == (20, 50, 100)
    assert set(table.details["origin"]["echo"].values()) == {"m", "x"}


@pytest.mark.e2e
async def test_interference_is_measured_and_fitted(bench: Make, partitioner: CpuPartitioner) -> None:
    measure, said = profiler(bench(), partitioner, replace(BRIEF, pairs=6, cache_bytes=1 << 20))
    versions = [identity("echo"), identity("wide", shape=(-1, 4096))]
    table = await measure.profile(versions)
    assert {line.split(":")[0] for line in said if line.startswith("probe")} == {"probe cache", "probe stream"}
    assert set(table.utilisation) == {"echo", "wide"}
    assert len([p for p in table.details["pairs"] if not (p["model"] + p["beside"]).count("stressor:")]) == 12
    assert {"stressor:cache", "stressor:stream"} == set(table.details["stressors"])
    assert table.details["interference_error"]["held_out"]["count"] == len(
        [p for p in table.details["pairs"] if not p["model"].startswith("stressor:")]
    )
    assert table.interference == tuple(table.details["interference_error"]["coefficients"])
    # A third model's pairs join those of the first two.
    more = await measure.profile([identity("third", 1)], table)
    assert {p["model"] for p in more.details["pairs"]} >= {"echo", "wide", "third"}
    assert more.latency_ms["wide"] == table.latency_ms["wide"]


@pytest.mark.parametrize(
    "change", [{"shares": (0,)}, {"most_share": 101}, {"budget_s": 0.0}, {"pairs": -1}, {"cache_bytes": 0}]
)
def test_options_are_checked(change: dict[str, object]) -> None:
    with pytest.raises(InvalidValue, match=next(iter(change))):
        ProfileOptions(**change)  # type: ignore[arg-type]


def test_shares_that_the_device_does_not_grant_are_left_out(partitioner: CpuPartitioner) -> None:
    coarse = replace(partitioner.caps, step=0.25, min_share=0.25)
    options = replace(BRIEF, shares=(10, 20))
    with pytest.raises(InvalidValue, match="at least 25 %"):
        ServingProfiler(None, coarse, SystemClock(), options)  # type: ignore[arg-type]
