"""Elections and membership: two heads never have a mandate at once, and a fleet whose head is gone gets another."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core.fleet import FleetRules
from edge.core.fleet_links import AgreementVersion, FleetAgreement, VoteAnswer
from scheduler.fleet import election, membership
from scheduler.fleet.election import ElectionState, Electorate, laid_down, replaceable, restarted

RULES = FleetRules(beat_s=1.0, lease_s=9.0)


class Voters:
    """Boxes that beat and vote; messages of a box that is cut off are lost, those of others take up to 0.3 s."""

    def __init__(self, count: int, seed: int, candidates: int | None = None) -> None:
        self.names = tuple(f"b{n}" for n in range(count))
        self.electorate = Electorate(self.names, self.names[:candidates])
        self.chance = random.Random(seed)
        self.now_s = 0.0
        self.states: dict[str, ElectionState] = {n: restarted(n, 0, None, None, 0.0) for n in self.names}
        self.kept: dict[str, tuple[int, str | None, str | None]] = {}
        self.cut: set[str] = set()
        self.sent_s: dict[tuple[str, int, str], float] = {}

    def put(self, name: str, state: ElectionState) -> None:
        self.states[name] = state
        self.kept[name] = (state.term, state.voted, state.head)

    def restart(self, name: str) -> None:
        self.put(name, restarted(name, *self.kept.get(name, (0, None, None)), self.now_s))

    def lost(self, *ends: str) -> bool:
        return bool(self.cut & set(ends)) or self.chance.random() < 0.05

    def step(self) -> None:
        self.now_s += self.chance.uniform(0.05, 0.3)
        for name in self.names:
            self.stand(name)
            if self.chance.random() < 0.25:
                self.beat(name)
        heads = [n for n in self.names if election.mandate(self.states[n], self.electorate, self.now_s, RULES)]
        assert len(heads) <= 1, f"{heads} decide at once"

    def beat(self, name: str) -> None:
        """To the head that it knows; the answer that it had last is echoed."""
        head = self.states[name].head
        targets = [head] if head not in (None, name) else [n for n in self.names if n != name]
        for target in targets:
            if target is None or self.lost(name, target):
                continue
            before = self.states[target]
            term = self.states[name].term
            self.put(target, election.saw_term(before, self.electorate, name, term, self.now_s, RULES))
            if self.states[target].role != "head":
                continue
            term = self.states[target].term
            echoed = self.sent_s.get((target, term, name))
            if echoed is not None and self.states[name].term == term:
                self.put(target, election.supported(self.states[target], name, echoed))
            sent_s = self.now_s
            if not self.lost(name, target):
                self.now_s += self.chance.uniform(0.0, 0.02)
                self.put(name, election.heard(self.states[name], self.electorate, target, term, self.now_s))
                self.sent_s[target, term, name] = sent_s

    def stand(self, name: str) -> None:
        state = election.due(self.states[name], self.electorate, self.now_s, RULES)
        if state is None:
            return
        self.put(name, election.count_votes(state, self.electorate, self.now_s))
        for trial in (True, False):
            if self.states[name].role != ("trying" if trial else "candidate"):
                continue
            term = self.states[name].term + trial
            for voter in self.names:
                if voter == name or self.lost(name, voter):
                    continue
                its_term, granted = self.vote(voter, name, term, trial)
                if not self.lost(name, voter):
                    state = election.vote_came(
                        self.states[name], self.electorate, voter, its_term, granted, trial, self.now_s
                    )
                    self.put(name, state)

    def vote(self, voter: str, candidate: str, term: int, trial: bool) -> tuple[int, bool]:
        """The voter's answer: its term, and whether it gives the vote."""
        state = self.states[voter]
        after, granted = election.asked(state, self.electorate, candidate, term, trial, self.now_s, RULES)
        self.put(voter, after)
        return after.term, granted

    def heads(self) -> list[str]:
        return [n for n in self.names if election.mandate(self.states[n], self.electorate, self.now_s, RULES)]


@given(st.integers(2, 5), st.integers(0, 10**6))
@settings(max_examples=40)
def test_two_heads_never_decide_at_once_and_one_does_when_all_is_well(count: int, seed: int) -> None:
    voters = Voters(count, seed)
    for _ in range(150):
        if voters.chance.random() < 0.05:
            voters.cut ^= {voters.chance.choice(voters.names)}
        if voters.chance.random() < 0.02:
            voters.restart(voters.chance.choice(voters.names))
        voters.step()
    voters.cut.clear()
    end_s = voters.now_s + 5 * RULES.lease_s
    while not voters.heads():
        assert voters.now_s < end_s, "no head"
        voters.step()


class TakenOver(Voters):
    """The last box never decides and was taken over: it asks for votes, refuses its own, and sends higher terms."""

    def __init__(self, count: int, seed: int) -> None:
        super().__init__(count, seed, count - 1)
        self.worst = self.names[-1]

    def step(self) -> None:
        for name in self.names[:-1]:
            state, term = self.states[name], self.states[name].term + self.chance.choice((1, 2, 10**9))
            match self.chance.randrange(3):
                case 0:
                    state = election.saw_term(state, self.electorate, self.worst, term, self.now_s, RULES)
                case 1:
                    state = election.heard(state, self.electorate, self.worst, term, self.now_s)
                case _:
                    trial = self.chance.random() < 0.5
                    state, granted = election.asked(state, self.electorate, self.worst, term, trial, self.now_s, RULES)
                    assert not granted
            self.put(name, state)
        super().step()

    def beat(self, name: str) -> None:
        if name != self.worst:
            super().beat(name)

    def stand(self, name: str) -> None:
        if name != self.worst:
            super().stand(name)

    def vote(self, voter: str, candidate: str, term: int, trial: bool) -> tuple[int, bool]:
        if voter == self.worst:
            return term + 10**9, False
        return super().vote(voter, candidate, term, trial)


@given(st.integers(3, 5), st.integers(0, 10**6))
@settings(max_examples=25)
def test_a_box_that_never_decides_neither_topples_a_head_nor_hinders_an_election(count: int, seed: int) -> None:
    voters = TakenOver(count, seed)
    if count == 3:  # two honest boxes of three: both are needed
        voters.lost = lambda *_: False  # type: ignore[method-assign]
    while not voters.heads():
        assert voters.now_s < 5 * RULES.lease_s, "no head"
        voters.step()
    (head,) = voters.heads()
    term = voters.states[head].term
    assert term < 100
    end_s = voters.now_s + 2 * RULES.lease_s
    while voters.now_s < end_s:
        voters.step()
        assert (voters.states[head].role, voters.states[head].term) == ("head", term)


def test_a_head_that_few_hear_learns_a_higher_term_of_any_box_step_by_step() -> None:
    electorate = Electorate(("b0", "b1", "b2"), ("b0", "b1"))
    head = ElectionState("b0", 4, "b0", "b0", 0.0, "head", supports={"b0": 0.0, "b1": 0.0})
    known = partial(election.saw_term, head, electorate, rules=RULES)
    assert known("b2", 9, now_s=1.0) is head, "a quorum follows it"
    assert (known("b1", 9, now_s=1.0).term, known("b1", 9, now_s=1.0).role) == (9, "follower")
    assert (known("b2", 9, now_s=20.0).term, known("b2", 9, now_s=20.0).role) == (5, "follower")
    follower = election.restarted("b1", 4, "b0", "b0", 0.0)
    assert election.saw_term(follower, electorate, "b0", 9, 20.0, RULES) is follower, "it hears of that by answers"
    # A box that voted in a term whose candidate is gone refuses its vote; the next round is of a term that it knows.
    trying = election.due(follower, electorate, 20.0, RULES)
    assert trying is not None
    refused = election.vote_came(trying, electorate, "b2", 6, granted=False, trial=True, now_s=20.1)
    assert (refused.role, refused.term) == ("trying", 4)
    again = election.due(refused, electorate, 20.0 + RULES.beat_s, RULES)
    assert again is not None
    assert (again.role, again.term) == ("trying", 5)


def test_a_vote_brings_the_list_of_a_box_that_may_decide_and_of_a_term_before_only() -> None:
    electorate = Electorate(("b0", "b1", "b2"), ("b0", "b1"))
    known, newer = FleetAgreement(AgreementVersion(3, 1)), FleetAgreement(AgreementVersion(3, 2))

    def found(voter: str, agreement: FleetAgreement | None, granted: bool = True) -> FleetAgreement:
        return election.newer(known, VoteAnswer(voter, 3, granted, False, agreement), electorate, 4)

    assert found("b1", newer) is newer
    assert found("b2", newer) is known, "it never decides"
    assert found("b1", FleetAgreement(AgreementVersion(4, 0))) is known, "no head has that term yet"
    assert found("b1", newer, granted=False) is known
    assert found("b1", None) is known


def test_the_first_candidate_decides_alone_in_a_fleet_of_two_and_the_second_does_not() -> None:
    for away, decides in (("b1", True), ("b0", False)):
        voters = Voters(2, 1)
        while not voters.heads():
            voters.step()
        voters.cut = {away}
        end_s = voters.now_s + 4 * RULES.lease_s
        while voters.now_s < end_s:
            voters.step()
        other = "b0" if away == "b1" else "b1"
        assert (other in voters.heads()) == decides


def test_a_box_is_silent_then_lost_and_a_new_head_counts_from_when_it_heard_the_old_one() -> None:
    seen = membership.begin(("b0", "b1", "b2"), 100.0, {"b0": 92.0})
    seen = membership.hear(seen, "b1", "x", 100.5)
    seen, lost = membership.pass_time(seen, 101.5, RULES)
    assert lost == ("b0",)
    assert [seen.status(b) for b in ("b0", "b1", "b2", "b9")] == ["lost", "open", "open", "lost"]
    seen, lost = membership.pass_time(seen, 104.0, RULES)
    assert lost == ()
    assert seen.with_status("silent") == ("b1", "b2")
    assert membership.forget(seen, "b0").status("b0") == "lost"
    heard_late = membership.hear(seen, "b0", "y", 91.0)
    assert heard_late.status("b0") == "lost", "a beat of an earlier time brings no box back"
    assert membership.lease_over(100.0, 108.0, RULES)
    assert not membership.lease_over(100.0, 107.9, RULES)


def test_the_second_standby_stands_one_and_a_half_beats_after_the_first() -> None:
    electorate = Electorate(("b0", "b1", "b2"), ("b0", "b1", "b2"))
    for me, stands_s in (("b1", 9.0), ("b2", 10.5)):
        state = ElectionState(me, term=1, head="b0", heard_s=0.0)
        assert election.due(state, electorate, stands_s - 0.01, RULES) is None
        tried = election.due(state, electorate, stands_s, RULES)
        assert tried is not None
        assert tried.role == "trying"


def test_a_head_is_replaceable_only_where_the_others_can_choose_another() -> None:
    state = restarted("b1", 3, "b1", "b1", 0.0)
    three = Electorate(("b1", "b2", "b3"), ("b1", "b2"))
    assert replaceable(state, three)
    assert not replaceable(state, Electorate(("b1", "b2", "b3"), ("b1",))), "no other may decide"
    assert not replaceable(state, Electorate(("b1", "b2"), ("b1", "b2"))), "half of two is no quorum without the first"
    assert not replaceable(state, Electorate(("b1",), ("b1",)))
    down = laid_down(replace(state, role="head"), 7.0)
    assert (down.role, down.head, down.term, down.voted) == ("follower", None, 3, "b1"), "its vote stays given"
