"""The plan that is followed where not every application can be answered in time, or where not everything fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from examples_kit import tried
from hypothesis import given, settings
from hypothesis import strategies as st
from reorganiser_world import one_each, table
from test_gpulets_pipelines import chain

from edge.core.applications import Application
from edge.core.serving import ServedModel
from edge.core.serving_reasons import ServingReason
from scheduler.gpulets.fitting import Capacity, Fitted
from scheduler.gpulets.pipelines import FittedPipelines, PipelineDemand, asked_rows, evenly_split, fit_evenly
from scheduler.joint.fitting import MOST_STEPS, fit_pipelines

#: The even split gives the short stage time that the long one needs.
UNEVEN = chain("d", "c", slo_ms=60.0, rate=20.0)


def both(
    *applications: Application, room: float = 1.0, slo_ms: float = 1000.0, most_steps: int = 2 * MOST_STEPS
) -> tuple[FittedPipelines, FittedPipelines]:
    """The plan that is followed, and the even split's; every model has `slo_ms` of its own."""
    demands = [PipelineDemand(a, a.rate) for a in applications]
    rates = asked_rows(demands)
    own = [ServedModel(m, rate, slo_ms, _priority(m, applications)) for m, rate in rates.items()]
    asked = evenly_split(own, demands), own, demands, table(), Capacity(room, room), one_each
    return fit_pipelines(*asked, most_steps=most_steps), fit_evenly(*asked)


def _priority(model: str, applications: Sequence[Application]) -> int:
    return max(a.priority for a in applications if model in a.models)


def least(found: Fitted, models: str) -> float:
    return min(0.0 if m in found.refused else found.capped.get(m, 1.0) for m in models)


def about(found: FittedPipelines, code: str) -> list[ServingReason]:
    return [reason for reason in found.reasons if reason.code == code]


# -- objectives that nothing keeps


def test_an_application_that_nothing_answers_in_time_leaves_the_others_their_split() -> None:
    alone, _ = both(UNEVEN)
    beside, _ = both(UNEVEN, chain("b", name="hopeless", slo_ms=5.0))
    assert alone.budgets["app"] != {"s0": 30.0, "s1": 30.0}
    assert beside.budgets["app"] == alone.budgets["app"]
    assert beside.fitted.plan.gpulets == alone.fitted.plan.gpulets
    assert (beside.fitted.refused.keys(), beside.fitted.capped) == ({"b"}, {})
    (why,) = about(beside, "unreachable")
    assert (why.application, why.numbers) == ("hopeless", {"ms": 5.0, "least_ms": 8.0})
    assert about(alone, "unreachable") == []


def test_a_model_is_not_refused_to_others_for_an_application_that_nothing_answers_in_time() -> None:
    found, even = both(UNEVEN, chain("d", "b", name="hopeless", slo_ms=3.0))
    assert even.fitted.refused.keys() >= {"d"}
    assert found.fitted.refused.keys() == {"b"}, "its even part of 3 ms is too short for b, and no other asks b"
    assert found.fitted.capped == {}
    assert found.budgets["app"] != even.budgets["app"]


def test_a_models_own_objective_that_nothing_keeps_costs_the_others_nothing() -> None:
    found, even = both(UNEVEN, slo_ms=5.0)
    assert found.fitted.refused.keys() == even.fitted.refused.keys() == {"c"}, "8 ms of work"
    assert found.budgets == even.budgets


# -- scarce share


@pytest.mark.parametrize("rate", [60.0, 150.0])
def test_where_share_is_scarce_the_budgets_serve_no_less_than_the_even_split_and_often_more(rate: float) -> None:
    parts = []
    for room in (0.4, 0.5, 0.6, 0.7):
        found, even = both(replace(UNEVEN, rate=rate), room=room)
        assert found.fitted.plan.total_share <= room + 1e-9
        parts.append((least(found.fitted, "cd"), least(even.fitted, "cd")))
        if found.fitted.capped and found.budgets != even.budgets:
            (why,) = about(found, "scarce")
            assert (why.numbers["part"], why.numbers["other_part"]) == parts[-1]
    assert all(mine >= evens for mine, evens in parts), parts
    assert any(1.0 > mine > evens for mine, evens in parts), parts


@given(
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True),
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=2, unique=True),
    st.floats(20.0, 400.0),
    st.floats(10.0, 200.0),
    st.sampled_from((0, 1)),
)
@settings(max_examples=tried(4, 8), deadline=None)
def test_never_less_is_served_than_by_the_even_split(
    first: list[str], second: list[str], rate: float, slo_ms: float, priority: int
) -> None:
    """Of what is most urgent; budgets stay within the objectives, and the plan within the room."""
    one = replace(chain(*first, slo_ms=slo_ms, rate=rate), priority=priority)
    two = chain(*second, name="two", slo_ms=150.0, rate=30.0)
    found, even = both(one, two, room=0.7)
    urgent = "".join(first) if priority else "".join({*first, *second})
    if not about(found, "unreachable"):
        assert least(found.fitted, urgent) >= least(even.fitted, urgent)
    assert found.fitted.plan.total_share <= 0.7 + 1e-9
    for application in (one, two):
        planned = replace(application, budgets=found.budgets[application.name])
        assert max(planned.rest_ms.values()) <= application.slo_ms * (1 + 1e-9)


# -- the search


def test_the_search_is_bounded_and_reported() -> None:
    found, _ = both(chain("a"))
    assert found.search is not None
    assert (found.search.most, found.search.complete) == (2 * MOST_STEPS, True)
    assert 0 < found.search.steps < MOST_STEPS
    assert about(found, "search") == [found.search.why]
    cut, _ = both(replace(UNEVEN, rate=150.0), room=0.4, most_steps=600)
    assert cut.search is not None
    assert (cut.search.most, cut.search.complete) == (600, False)
    assert "cut short" in about(cut, "search")[0].words()
    assert both(replace(UNEVEN, rate=0.0))[0].search is None, "nothing asks, nothing is searched for"
