"""A box in virtual time: the same seed the same result, nothing lost, shares kept, a part alone as in an empty box."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from edge.core.errors import InvalidValue
from edge.core.events import Event
from edge.core.serving import DeviceTable
from edge.core.shares import ideal_caps
from edge.core.tenants import SharingRules, Tenant, TenantObjective
from edge.settings import ServingPlanning
from edge.simulation.box import BoxPolicies, BoxResult, SimulatedWholeBox, simulate_box
from edge.simulation.box_trace import BoxTrace, SharingRow, SharingTrace
from edge.simulation.generated import generated_serving, generated_windows
from edge.simulation.serving_simulation import simulate_serving
from edge.simulation.simulator import simulate
from edge.simulation.virtual_time import run_virtual
from scheduler.follow import planner

WINDOWS = generated_windows(2, 3, 5, window_s=20.0, num_gpus=0.7)
SERVING = generated_serving(2, 60.0, 5, rate=4.0)
PLANNING = ServingPlanning(policy="elastic")
SIMPLE = BoxPolicies("uniform", PLANNING)


def tenants() -> SharingTrace:
    goal = TenantObjective("within_slo", 0.95)
    served = [Tenant(f"of-{m.name}", goal, models=(m.name,)) for m in SERVING.models]
    cameras = Tenant("cameras", TenantObjective("accuracy", 0.7), cameras=tuple(c.id for c in WINDOWS.cameras))
    rows = (SharingRow("cameras", 40.0, 40.0, 0.5, 0.4, 0.61), SharingRow("of-model-1", 10.0, 10.0, 0.2, 0.1))
    return SharingTrace((*served, cameras), SharingRules(interval_s=10.0), rows)


WHOLE = BoxTrace("whole", WINDOWS, SERVING, tenants(), 0.8)


@pytest.fixture(scope="module")
def whole() -> BoxResult:
    return simulate_box(WHOLE, SIMPLE, seed=2)


def test_cameras_alone_do_as_in_a_box_with_nothing_else() -> None:
    alone = simulate(WINDOWS, "uniform", planner(ideal_caps()), corrected=True)
    assert simulate_box(BoxTrace("cameras", WINDOWS), SIMPLE, seed=9) == BoxResult(alone, None)


def test_served_models_alone_do_as_in_a_box_with_nothing_else() -> None:
    alone = simulate_serving(SERVING, PLANNING, seed=2)
    assert simulate_box(BoxTrace("served", None, SERVING), SIMPLE, seed=2).serving == alone
    other = simulate_serving(SERVING, PLANNING, seed=3)
    assert other != alone, "requests come at other moments"
    assert [m.arrived for m in other.models] == [m.arrived for m in alone.models]


def test_the_same_seed_gives_the_same_box(whole: BoxResult) -> None:
    assert simulate_box(WHOLE, SIMPLE, seed=2) == whole


def test_every_request_ends_once_and_every_part_is_there(whole: BoxResult) -> None:
    assert whole.windows is not None
    assert whole.serving is not None
    for model, asked in zip(whole.serving.models, SERVING.models, strict=True):
        assert model.arrived == asked.arrived
        ended = [sum(parts) for parts in zip(model.within, model.late, model.lost, strict=True)]
        assert ended == list(model.arrived)
    assert whole.serving.within_slo > 0.9
    assert {t.tenant for t in whole.tenants} == {"of-model-1", "of-model-2", "cameras"}
    assert sum(t.held for t in whole.tenants) <= WHOLE.capacity + 1e-6
    assert whole.welfare is not None
    assert whole.least is not None
    assert whole.least <= whole.welfare <= 1.0
    alone = simulate(WINDOWS, "uniform", planner(ideal_caps()), corrected=True)
    assert whole.windows.mean_accuracy != alone.mean_accuracy, "cameras have what serving leaves"


def test_batches_may_take_longer_than_the_table_that_plans_reckon_with() -> None:
    table = SERVING.table
    assert table is not None
    rows = {m: {s: tuple(3 * ms for ms in row) for s, row in r.items()} for m, r in table.latency_ms.items()}

    def played(true: DeviceTable) -> BoxResult:
        async def work() -> BoxResult:
            return await SimulatedWholeBox(BoxTrace("served", None, SERVING), SIMPLE, 2, true_table=true).run()

        found = run_virtual(work())
        assert isinstance(found, BoxResult)
        return found

    as_planned = simulate_box(BoxTrace("served", None, SERVING), SIMPLE, seed=2)
    assert played(table) == as_planned
    slower = played(replace(table, latency_ms=rows))
    assert slower.serving is not None
    assert as_planned.serving is not None
    before, after = (sum(sum(m.p50_ms) for m in s.models) for s in (as_planned.serving, slower.serving))
    assert after > 1.5 * before


class _Watched(SimulatedWholeBox):
    """Looks at the shares after each event that comes to the cameras from beside them."""

    seen: list[float]

    def _dispatch(self, event: Event) -> None:
        super()._dispatch(event)
        assert self._windows is not None
        assert self._serving is not None
        self._windows.controller.check()
        state = self._windows.controller.state
        given = sum(state.shares.values()) + sum(j.share for j in state.jobs.values())
        self.seen.append(given + self._serving.shares.executors)


def test_the_shares_of_all_parts_never_exceed_the_device() -> None:
    async def work() -> list[float]:
        box = _Watched(WHOLE, SIMPLE, 2)
        box.seen = []
        await box.run()
        return box.seen

    seen = run_virtual(work())
    assert len(seen) > 5
    assert max(seen) <= WHOLE.capacity + 1e-6


def test_a_whole_box_is_read_as_it_was_written() -> None:
    again = BoxTrace.from_json(json.loads(json.dumps(WHOLE.to_json())))
    assert (again.serving, again.sharing, again.capacity) == (WHOLE.serving, WHOLE.sharing, WHOLE.capacity)
    assert again.windows is not None
    assert again.windows.cameras == WINDOWS.cameras
    assert BoxTrace.from_json(WINDOWS.to_json()) == BoxTrace(WINDOWS.name, WINDOWS), "of the first format"
    served = BoxTrace("served", None, SERVING)
    assert BoxTrace.from_json(json.loads(json.dumps(served.to_json()))) == served


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda v: v.update(capacity=0), "capacity"),
        (lambda v: v["serving"].update(interval_s=0), "serving.interval_s"),
        (lambda v: v["serving"]["models"][0]["arrived"].append(1), "equally many"),
        (lambda v: v["serving"]["models"][0].update(arrived=[1.5]), "whole numbers"),
        (lambda v: v["serving"]["models"][0].pop("arrived"), r"serving\.models\[0\]\.arrived"),
        (lambda v: [m.update(arrived=[], missed=[]) for m in v["serving"]["models"]], r"\.arrived"),
        (lambda v: v["serving"]["models"][1].update(name="model-1"), "serving.models"),
        (lambda v: v["sharing"]["rules"].update(interval_s=1), "sharing.interval_s"),
        (lambda v: v["sharing"]["tenants"][0].update(weight=1), "weight"),
        (lambda v: v["sharing"]["tenants"][0].pop("id"), "sharing.tenants"),
        (lambda v: v.update(format="magpie-trace/3"), "format"),
        (lambda v: v.update(pictures=[]), "pictures"),
    ],
)
def test_a_damaged_box_is_refused_with_the_field(damage: Callable[[dict], object], words: str) -> None:
    value = json.loads(json.dumps(WHOLE.to_json()))
    damage(value)
    with pytest.raises(InvalidValue, match=words):
        BoxTrace.from_json(value)


def test_what_cannot_be_played_is_refused() -> None:
    wide = generated_windows(1, 2, 1, num_gpus=2.0)
    with pytest.raises(InvalidValue, match="num_gpus"):
        simulate_box(BoxTrace("two devices", wide, SERVING), SIMPLE)
    blind = type(SERVING)(SERVING.interval_s, SERVING.models)
    with pytest.raises(InvalidValue, match=r"serving\.table"):
        simulate_serving(blind)
    with pytest.raises(InvalidValue, match="cameras"):
        BoxTrace("nothing")
