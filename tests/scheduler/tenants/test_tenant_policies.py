"""The contract of every policy that shares a resource, and worked examples of each."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from examples_kit import tried
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from tenant_problems import feedbacks, played, problems, saturating, services, two

from edge.core.errors import InvalidValue
from scheduler.tenants.learned import softness, unmeasured_demand
from scheduler.tenants.policies import DEFAULT_SHARING_POLICY, SHARING_POLICIES, check_kind, sharing_policy
from scheduler.tenants.queues import first_members, refitted, service_latency
from scheduler.tenants.regression import completed, nonnegative_least_squares
from scheduler.tenants.values import (
    IntervalReport,
    ProblemTenant,
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
@hypothesis_settings(max_examples=tried(5, 12), deadline=None)
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
    last = played(sharing_policy(name), two(feedback=False), curves, 8)[-1]
    assert (last.reasons["a"].source, last.allocation["a"]) == ("entitlement", 50.0), "nothing says that it needs less"


def test_a_declaration_counts_less_the_further_it_is_from_the_entitlement() -> None:
    goal = TenantGoal("within_slo", 0.9)
    taken = [unmeasured_demand(ProblemTenant("a", goal, declared_demand=d), 25.0) for d in (1.0, 25.0, 100.0)]
    assert taken == [5.0, 25.0, 50.0]
    assert unmeasured_demand(ProblemTenant("a", goal), 25.0) == 25.0
    used = ProblemTenant("a", goal, declared_demand=100.0, proxy_demand=10.0)
    assert unmeasured_demand(used, 25.0) == 10.0, "what was seen is believed"
    assert unmeasured_demand(replace(used, profiled_demand=7.0), 25.0) == 7.0


@pytest.mark.parametrize("declared", [60.0, 120.0, 300.0])
def test_the_least_utility_gives_a_silent_tenant_no_less_than_a_rule_that_believes_it(declared: float) -> None:
    problem, curves = two(feedback=False, declared_demand=declared), {"b": lambda u: saturating(u, 40.0)}
    mine, theirs = (played(sharing_policy(name), problem, curves, 25)[-1].allocation for name in ("ew", "minerva"))
    assert mine["a"] >= theirs["a"] - 2.0
    assert mine["b"] >= theirs["b"] - 4.0, "nor does it gain by that"


@pytest.mark.parametrize("name", ["ew", "sw"])
def test_units_to_spare_go_to_a_silent_tenant_too_as_it_may_need_more_than_it_declares(name: str) -> None:
    problem = two(feedback=False, declared_demand=25.0)
    last = played(sharing_policy(name), problem, {"b": lambda u: saturating(u, 8.0)}, 30)[-1]
    assert last.allocation["b"] >= 20.0, "its goal, by 18.4 units"
    assert last.allocation["a"] >= 50.0, "twice of what it declares"


@pytest.mark.parametrize("name", LEARNED)
def test_a_goal_that_no_share_reaches_is_said_with_the_best(name: str) -> None:
    curves = {"a": lambda u: 0.5 * saturating(u, 3.0), "b": lambda u: saturating(u, 10.0)}
    last = played(sharing_policy(name), two(), curves, 40, noise=0.005)[-1]
    reason = last.reasons["a"]
    assert reason.demand is None
    assert reason.best_utility is not None
    assert reason.best_utility < 0.9
    assert last.reasons["b"].reports > 0


def test_without_complaints_no_tenant_with_an_entitlement_pays_for_another() -> None:
    curves = {"a": lambda u: saturating(u, 3.0), "b": lambda u: saturating(u, 80.0)}
    last = played(sharing_policy("njc"), two(), curves, 40, noise=0.005)[-1].allocation
    # The first one's goal needs 7 units; the second one has the rest, as no other wants it.
    assert saturating(last["a"], 3.0) >= 0.9 * min(1.0, saturating(50.0, 3.0) / 0.9) - 0.02
    assert last["b"] > 80.0


def test_parties_and_miad_raise_a_missed_demand() -> None:
    curves = {"a": lambda u: 1.0, "b": lambda u: 0.5}
    for name in ("parties", "miad"):
        answers = played(sharing_policy(name), two(), curves, 10)
        assert answers[-1].allocation["b"] > 50.0 > answers[-1].allocation["a"]
        assert sum(answers[-1].allocation.values()) <= 100.0


def after(policy: str, held: dict[str, float], reports: dict[str, float], **first: Any) -> dict[str, float]:
    """The allocation after one interval with `held`, out of 100 units."""
    problem = two(**first)
    state = SharingState(policy, 0, 0.0, (int(held["a"]), int(held["b"])), 0, {"targets": list(held.values())})
    seen = {tenant: (IntervalReport(10.0, value, held[tenant]),) for tenant, value in reports.items()}
    return dict(sharing_policy(policy).step(problem, state, SharingFeedback(0, 10.0, seen)).allocation)


def test_minerva_goes_to_share_over_utility_at_once() -> None:
    # Utilities 1 and 0.5: 50 and 100 parts, with one step more each and one step first.
    assert after("minerva", {"a": 49.0, "b": 49.0}, {"a": 0.9, "b": 0.45}) == {"a": 34.0, "b": 66.0}


@pytest.mark.parametrize(("declared", "expected"), [(98.0, 50.0), (49.0, 34.0)])
def test_minerva_reads_a_silent_tenant_s_utility_from_its_declaration(declared: float, expected: float) -> None:
    silent = {"feedback": False, "declared_demand": declared}
    assert after("minerva", {"a": 49.0, "b": 49.0}, {"b": 0.45}, **silent)["a"] == expected


def test_minerva_and_greedy_leave_a_tenant_of_which_nothing_is_known() -> None:
    for name in ("minerva", "greedy-ew"):
        assert after(name, {"a": 60.0, "b": 40.0}, {"b": 0.3}, feedback=False) == {"a": 60.0, "b": 40.0}


def test_greedy_takes_no_last_step() -> None:
    assert after("greedy-ew", {"a": 2.0, "b": 98.0}, {"a": 0.9, "b": 0.1}) == {"a": 1.0, "b": 99.0}
    assert after("greedy-ew", {"a": 1.0, "b": 99.0}, {"a": 0.9, "b": 0.1}) == {"a": 1.0, "b": 99.0}


def test_greedy_takes_from_a_silent_tenant_that_has_what_it_declares() -> None:
    silent = {"feedback": False, "declared_demand": 20.0}
    assert after("greedy-ew", {"a": 50.0, "b": 50.0}, {"b": 0.4}, **silent) == {"a": 49.0, "b": 51.0}


def test_miad_demands_a_multiple_of_the_share_that_was_held() -> None:
    # 1.5 x 20 = 30 units for a, one less for b: both fit.
    assert after("miad", {"a": 20.0, "b": 40.0}, {"a": 0.5, "b": 0.95}) == {"a": 30.0, "b": 39.0}


def test_the_least_of_many_is_insured_more() -> None:
    assert softness(40) > softness(20) > softness(5) > softness(1) > 0
    assert softness(20) == pytest.approx(0.02, abs=0.001)


def test_a_tenant_that_did_worse_than_its_band_loses_no_share() -> None:
    curves = {"a": lambda u: saturating(u, 8.0), "b": lambda u: saturating(u, 60.0)}
    policy, problem = sharing_policy("ew"), two()
    answer = played(policy, problem, curves, 30)[-1]
    held = dict(answer.allocation)
    for drop, loses in ((0.0, True), (0.5, False)):
        # More for b would be planned, as its load grew; whether a is taken from depends on how a did.
        reports = {
            "a": (IntervalReport(10.0, saturating(held["a"], 8.0) - drop, held["a"]),),
            "b": (IntervalReport(16.0, saturating(held["b"] / 1.6, 60.0), held["b"]),),
        }
        given = policy.step(problem, answer.state, SharingFeedback(30, 310.0, reports)).allocation["a"]
        assert (given < held["a"]) == loses


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


NEEDS = {"find": 8.0, "read": 20.0, "rank": 4.0, "show": 12.0}


def queued(held: dict[str, float], load: float) -> float:
    """P99 in ms of four services that queue; beyond their capacity a backlog grows."""
    out = 30.0
    for service, need in NEEDS.items():
        use = need * load / 50.0 / held[service]
        out += 8.0 * min(use, 0.98) / (1 - min(use, 0.98)) + 4000.0 * max(0.0, 1 - 0.98 / use)
    return min(out, 5000.0)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_end_to_end_tries_no_service_below_its_need_once_it_is_known(seed: int) -> None:
    policy, problem, rng = sharing_policy("e2e"), services(tuple(NEEDS), 60.0), np.random.default_rng(seed)
    answer = policy.begin(problem, seed=seed)
    seen = []
    for round_ in range(40):
        held = dict(answer.allocation)
        load = 50.0 * float(np.exp(rng.normal(0.0, 0.03)))
        seen.append(queued(held, load))
        report = IntervalReport(load, seen[-1] * float(np.exp(rng.normal(0.0, 0.08))), 0.0)
        feedback = SharingFeedback(round_, 10.0 * round_ + 10, {"": (report,)}, (held,))
        answer = policy.step(problem, answer.state, feedback)
    # Equal shares leave one service at use 1.3; the best division is at about 130 ms.
    assert seen[0] > 1000.0
    assert max(seen[20:]) < 300.0
    assert np.mean(seen[20:]) < 170.0


def test_end_to_end_learns_from_reports_that_stop_at_a_timeout() -> None:
    members = first_members(2, np.random.default_rng(1))
    places = np.array([[1.0, 0.2], [1.0, 0.3], [1.0, 1.0], [1.0, 1.2]])
    rng = np.random.default_rng(2)
    for _ in range(10):
        members = refitted(members, places, np.array([10.0, 10.0, 0.5, 0.5]), rng)
    shares = np.array([0.25, 0.5, 1.0, 2.0])
    added = service_latency(np.array(members), 1, shares)
    assert (np.diff(added) <= 0).all()
    # A quarter of an equal share is overload; an equal share is enough.
    assert added[0] > 5.0
    assert added[2] < 0.5
