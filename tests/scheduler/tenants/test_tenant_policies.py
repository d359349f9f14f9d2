"""The contract of every policy that shares a resource, and worked examples of each."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from tenant_problems import feedbacks, played, problems, saturating, services, two

from edge.core.errors import InvalidValue
from scheduler.tenants.learned import unmeasured_demand
from scheduler.tenants.policies import DEFAULT_SHARING_POLICY, SHARING_POLICIES, check_kind, sharing_policy
from scheduler.tenants.profiled import completed, nonnegative_least_squares
from scheduler.tenants.values import (
    IntervalReport,
    Party,
    SharingFeedback,
    SharingProblem,
    SharingState,
    SharingStep,
    TenantGoal,
)

#: The end-to-end policy is for services with one latency; it has its own tests.
OF_TENANTS = [name for name in SHARING_POLICIES if name != "e2e"]
LEARNED = ["sw", "ew", "njc"]


def steps_of(problem: SharingProblem, answer: SharingStep) -> list[float]:
    return [answer.allocation[tenant] / problem.granularity for tenant in problem.ids]


@pytest.mark.parametrize("name", OF_TENANTS)
@given(data=st.data())
@hypothesis_settings(max_examples=12, deadline=None)
def test_every_allocation_keeps_the_rules(name: str, data: st.DataObject) -> None:
    problem, policy = data.draw(problems()), sharing_policy(name)
    answer = policy.begin(problem, seed=7)
    for round_ in range(4):
        steps = steps_of(problem, answer)
        assert sum(answer.allocation.values()) <= problem.units + 1e-6
        assert all(abs(s - round(s)) < 1e-6 for s in steps)
        assert all(s >= floor - 1e-6 for s, floor in zip(steps, problem.floors, strict=True))
        assert set(answer.reasons) == set(problem.ids)
        feedback = data.draw(feedbacks(problem, round_))
        # The state survives a restart, and the same input gives the same answer.
        kept = SharingState.from_json(json.loads(json.dumps(answer.state.to_json())))
        again = policy.step(problem, kept, feedback)
        answer = policy.step(problem, answer.state, feedback)
        assert again == answer


@pytest.mark.parametrize("name", OF_TENANTS)
def test_entitlements_are_the_beginning(name: str) -> None:
    assert dict(sharing_policy(name).begin(two(weight=3.0)).allocation) == {"a": 75.0, "b": 25.0}


def test_names() -> None:
    assert DEFAULT_SHARING_POLICY in SHARING_POLICIES
    for name in SHARING_POLICIES:
        assert sharing_policy(name).name == name
    with pytest.raises(InvalidValue, match="policy: got 'luck'"):
        sharing_policy("luck")


def test_a_policy_for_the_other_kind_is_refused() -> None:
    check_kind("ew", two())
    check_kind("e2e", services(("find", "read"), 10.0))
    with pytest.raises(InvalidValue, match="policy: got 'e2e'"):
        check_kind("e2e", two())
    with pytest.raises(InvalidValue, match="policy: got 'ew'"):
        check_kind("ew", services(("find", "read"), 10.0))


@pytest.mark.parametrize("name", ["sw", "ew", "minerva", "greedy-ew"])
def test_a_tenant_that_has_too_much_gives_to_one_that_has_too_little(name: str) -> None:
    # The first one is content with 7 units, the second one needs 92.
    curves = {"a": lambda u: saturating(u, 3.0), "b": lambda u: saturating(u, 40.0)}
    answers = played(sharing_policy(name), two(), curves, 40, noise=0.01)
    last = answers[-1].allocation
    assert last["b"] > 70.0
    assert min(saturating(last["a"], 3.0), saturating(last["b"], 40.0)) > 0.8


@pytest.mark.parametrize("name", LEARNED)
def test_a_share_falls_by_no_more_than_half_in_one_round(name: str) -> None:
    curves = {"a": lambda u: saturating(u, 1.0), "b": lambda u: saturating(u, 60.0)}
    answers = played(sharing_policy(name), two(), curves, 12)
    for before, after in pairwise(answers):
        assert all(after.allocation[t] >= int(before.allocation[t] * 0.5) for t in ("a", "b"))


@pytest.mark.parametrize("name", LEARNED)
def test_a_tenant_that_was_not_measured_keeps_its_share(name: str) -> None:
    policy, problem = sharing_policy(name), two()
    curves = {"a": lambda u: saturating(u, 3.0), "b": lambda u: saturating(u, 40.0)}
    answers = played(policy, problem, curves, 10)
    state, held = answers[-1].state, answers[-1].allocation
    for round_ in range(10, 15):
        report = IntervalReport(10.0, saturating(held["b"], 40.0), held["b"])
        answer = policy.step(problem, state, SharingFeedback(round_, 10.0 * round_ + 10, {"a": (), "b": (report,)}))
        assert answer.allocation["a"] == held["a"]
        assert answer.reasons["a"].source == "held"
        # Nothing was learned of it: its memory is as it was.
        assert answer.state.memory["tenants"]["a"] == state.memory["tenants"]["a"]
        state = answer.state


@pytest.mark.parametrize("name", LEARNED)
def test_a_silent_tenant_is_declared_or_entitled_and_never_learned(name: str) -> None:
    problem = two(feedback=False, declared_demand=2.0)
    curves = {"b": lambda u: saturating(u, 40.0)}
    last = played(sharing_policy(name), problem, curves, 20)[-1]
    assert last.reasons["a"].source == "declared"
    assert last.reasons["a"].utility is None
    # Declaration and entitlement are both believed half: 10 units, or what is needed for the other's utility.
    assert 8.0 <= last.allocation["a"] <= 25.0
    last = played(sharing_policy(name), two(feedback=False), curves, 2)[-1]
    assert last.reasons["a"].source == "entitlement"


def test_a_declaration_counts_less_the_further_it_is_from_the_entitlement() -> None:
    goal = TenantGoal("within_slo", 0.9)
    taken = [unmeasured_demand(Party("a", goal, declared_demand=d), 25.0) for d in (1.0, 25.0, 100.0)]
    assert taken == [5.0, 25.0, 50.0]
    assert unmeasured_demand(Party("a", goal), 25.0) == 25.0


@pytest.mark.parametrize("name", LEARNED)
def test_a_goal_that_no_share_reaches_is_said_with_the_best(name: str) -> None:
    curves = {"a": lambda u: 0.5 * saturating(u, 3.0), "b": lambda u: saturating(u, 10.0)}
    last = played(sharing_policy(name), two(), curves, 40, noise=0.005)[-1]
    reason = last.reasons["a"]
    assert reason.demand is None
    assert reason.best_utility is not None
    assert reason.best_utility < 0.9
    assert last.reasons["b"].reports > 0


def test_without_complaints_nobody_with_an_entitlement_pays_for_another() -> None:
    curves = {"a": lambda u: saturating(u, 3.0), "b": lambda u: saturating(u, 80.0)}
    last = played(sharing_policy("njc"), two(), curves, 40, noise=0.005)[-1].allocation
    # The first one's goal needs 7 units; the second one has the rest, as nobody else wants it.
    assert saturating(last["a"], 3.0) >= 0.9 * min(1.0, saturating(50.0, 3.0) / 0.9) - 0.02
    assert last["b"] > 80.0


def test_parties_and_miad_raise_a_missed_demand() -> None:
    curves = {"a": lambda u: 1.0, "b": lambda u: 0.5}
    for name in ("parties", "miad"):
        answers = played(sharing_policy(name), two(), curves, 10)
        assert answers[-1].allocation["b"] > 50.0 > answers[-1].allocation["a"]
        assert sum(answers[-1].allocation.values()) <= 100.0


def test_evolution_keeps_what_scored_best() -> None:
    curves = {"a": lambda u: saturating(u, 5.0), "b": lambda u: saturating(u, 60.0)}
    for name in ("evo-sw", "evo-ew"):
        answers = played(sharing_policy(name), two(), curves, 60)
        tried = [a.allocation for a in answers]
        scores = [min(saturating(a["a"], 5.0), saturating(a["b"], 60.0)) for a in tried]
        assert np.mean(scores[-20:]) > scores[0]


def test_ernest_s_fit_has_no_negative_coefficient() -> None:
    features = np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]])
    assert nonnegative_least_squares(features, np.array([3.0, 5.0, 7.0])) == pytest.approx([1.0, 2.0], abs=0.2)
    assert (nonnegative_least_squares(features, np.array([3.0, 2.0, 1.0])) >= 0).all()


def test_quasar_fills_in_a_row_from_one_that_is_alike() -> None:
    # A ridge keeps an entry that one row alone knows below that row's.
    table = np.array([[0.2, 0.5, 0.9], [0.2, 0.5, 0.0]])
    known = np.array([[True, True, True], [True, True, False]])
    filled = completed(table, known)
    assert filled[1, 2] == pytest.approx(0.55, abs=0.05)
    assert (filled[known] == table[known]).all()


def latency(held: dict[str, float]) -> float:
    """Two services in a row: the second one needs three times the first one's units."""
    return 10.0 + sum(400.0 * max(0.0, 1.0 - held[s] / need) for s, need in (("find", 8.0), ("read", 24.0)))


def test_end_to_end_finds_the_service_that_is_short() -> None:
    policy, problem = sharing_policy("e2e"), services(("find", "read"), 36.0)
    answer = policy.begin(problem, seed=1)
    assert dict(answer.allocation) == {"find": 18.0, "read": 18.0}
    seen = []
    for round_ in range(30):
        held = dict(answer.allocation)
        assert sum(held.values()) <= 36.0
        assert min(held.values()) >= 1.0
        seen.append(latency(held))
        report = IntervalReport(50.0, seen[-1], 0.0)
        feedback = SharingFeedback(round_, 10.0 * round_ + 10, {"": (report,)}, (held,))
        again = policy.step(problem, SharingState.from_json(json.loads(json.dumps(answer.state.to_json()))), feedback)
        answer = policy.step(problem, answer.state, feedback)
        assert again == answer
    assert np.mean(seen[-5:]) < 0.5 * seen[0]


def test_end_to_end_without_usable_reports_holds() -> None:
    policy, problem = sharing_policy("e2e"), services(("find", "read"), 36.0)
    answer = policy.begin(problem)
    again: Any = policy.step(problem, answer.state, SharingFeedback(0, 10.0, {}))
    assert again.allocation == answer.allocation
