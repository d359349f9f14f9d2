"""Applications before the real front: stages in queues and batches, errors and cancelled stages, each counted once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from front_kit import doubled, request, route, site, until, version
from numpy.typing import NDArray

from edge.core.applications import Application
from edge.core.errors import DeadlineMissed, MagpieError, Unavailable
from edge.core.front_messages import ModelTraffic
from edge.core.oip import Tensor
from edge.serving.applications import ApplicationService
from edge.serving.link_messages import Batch
from edge.serving.pipeline_files import parse_application


def pair(slo_ms: float = 10_000.0) -> Application:
    """Asks m three times and n once at the same time, and m again about n's answer."""
    x, y = {"x": "x"}, {"x": "n0.y"}
    asked = [("m0", "m", x), ("m1", "m", x), ("m2", "m", x), ("n0", "n", x), ("last", "m", y)]
    return parse_application(
        "pair",
        {
            "platform": "pipeline",
            "slo_ms": slo_ms,
            "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}],
            "outputs": [
                {"name": name, "datatype": "FP32", "shape": [-1, 4], "from": f"{name}.y"} for name in ("m2", "last")
            ],
            "stages": [{"name": name, "model": model, "inputs": inputs} for name, model, inputs in asked],
        },
    )


def settled(models: Sequence[ModelTraffic]) -> dict[str, ModelTraffic]:
    """By name; every request that arrived has ended in exactly one way."""
    for m in models:
        assert m.arrived == m.answered + m.dropped + m.rejected + m.failed + m.cancelled, m
        assert (m.queued, m.running) == (0, 0)
    return {m.model: m for m in models}


async def test_stages_run_in_batches_of_their_models(tmp_path: Path) -> None:
    m, n = version("m"), version("n")
    async with site(tmp_path) as here:
        executor = await here.executor("e", m, n)
        here.layout(route("e", (m, 8), (n, 8)), models=[m, n])
        service = ApplicationService(here.front, [pair()])
        assert service.ready()
        asked = [service.infer(request(v, rows=2, model="pair")) for v in range(5)]
        for value, response in enumerate(await asyncio.gather(*asked)):
            x = np.full((2, 4), value, np.float32) + np.array([[0], [1]], np.float32)
            assert [t.name for t in response.outputs] == ["m2", "last"]
            np.testing.assert_allclose(response.outputs[0].array, 2 * x)
            np.testing.assert_allclose(response.outputs[1].array, 4 * x)
        counts = settled(here.front.report().models)
        assert (counts["m"].answered, counts["n"].answered) == (20, 5)
        assert len(executor.batches) < 25  # stages of several requests shared batches
        assert settled(service.traffic())["pair"].answered == 5


async def test_a_stage_that_fails_calls_off_the_others_and_nothing_is_left_open(tmp_path: Path) -> None:
    m, n = version("m"), version("n")

    def broken(batch: Batch, inputs: dict[str, NDArray[Any]]) -> Sequence[Tensor]:
        if batch.model == "n":
            raise ValueError("out of order")
        return doubled(batch, inputs)

    async with site(tmp_path) as here:
        held = await here.executor("e", m, held=True)
        await here.executor("f", n, answer=broken)
        here.layout(route("e", (m, 1)), route("f", (n, 1)), models=[m, n])
        service = ApplicationService(here.front, [pair()])
        with pytest.raises(MagpieError, match="pair, stage n0: ") as raised:
            await service.infer(request(model="pair"))
        assert isinstance(raised.value, Unavailable)
        held.release()
        await until(lambda: here.front.open == 0)
        counts = settled(here.front.report().models)
        assert (counts["m"].arrived, counts["m"].cancelled, counts["n"].failed) == (3, 3, 1)
        assert settled(service.traffic())["pair"].failed == 1
        # The models serve on.
        assert (await service.infer(request(3.0, model="m"))).outputs[0].array[0, 0] == 6


async def test_no_time_for_a_stage_is_a_drop_of_the_application(tmp_path: Path) -> None:
    m, n = version("m"), version("n")
    async with site(tmp_path) as here:
        held = await here.executor("e", m, n, held=True)
        here.layout(route("e", (m, 1), (n, 1)), models=[m, n])
        service = ApplicationService(here.front, [pair(slo_ms=200.0)])
        with pytest.raises(DeadlineMissed, match=r"pair, stage (m0|m1|m2|n0): "):
            await service.infer(request(model="pair"))
        held.release()
        await until(lambda: here.front.open == 0)
        settled(here.front.report().models)
        traffic = settled(service.traffic())["pair"]
        assert (traffic.arrived, traffic.dropped) == (1, 1)
