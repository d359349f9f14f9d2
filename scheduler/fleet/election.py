"""Which box decides: one head at a time, by votes and a lease. Values in, values out; each box's times are of its own
clock, and no two clocks are compared.

The rules are those of Raft's elections (Ongaro and Ousterhout 2014, sections 5.2 and 6; trial votes as in Ongaro's
thesis, section 9.6), with a fixed order of candidates:

- A box gives one vote in a term, and none while it has heard a head within the lease, but to that head itself.
- A candidate whose head is silent for the lease asks for trial votes, then for votes in a new term. The one of rank r
  waits r times 1.5 beats longer, the silent head not counted.
- A head has a **mandate** while a quorum has echoed an answer that it sent less than the lease, less a margin, ago. The
  boxes of that quorum give no vote to another before, so two heads never have a mandate at once.
- A quorum is more than half of the boxes, or exactly half of them with the first candidate.
- Boxes that may decide have the fleet's key and are believed. Of the others only votes count: a term that one of them
  sends moves no head with a mandate and no follower, and ends no round of votes; else it counts for one step.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from edge.core.fleet import FleetRules
from edge.core.fleet_links import FleetAgreement, VoteAnswer

#: follower: it hears or waits for a head. trying: it asks for trial votes. candidate: it asks for votes. head: it won.
ElectionRole = Literal["follower", "trying", "candidate", "head"]
#: In beats: from the silence of a head until the candidate of the next rank stands; more than a round of votes takes.
STAGGER_BEATS = 1.5
#: In beats: a round of votes that brought no quorum is begun again after so long.
ROUND_BEATS = 1.0


@dataclass(frozen=True)
class Electorate:
    """The boxes that vote, and those of them that may decide, the first one first."""

    voters: tuple[str, ...]
    candidates: tuple[str, ...]

    def quorum(self, boxes: Collection[str]) -> bool:
        """Whether these boxes together may give a mandate."""
        count = 2 * len(set(boxes) & set(self.voters))
        tie = count == len(self.voters) and bool(self.candidates) and self.candidates[0] in boxes
        return count > len(self.voters) or (tie and count > 0)


@dataclass(frozen=True)
class ElectionState:
    """One box's part. `heard_s`: when it heard the `head` of `term` last (its start counts as that: it may have
    promised something before). `supports`: by voter, when the latest answer or request that it took up was sent."""

    me: str
    term: int = 0
    voted: str | None = None
    head: str | None = None
    heard_s: float = 0.0
    role: ElectionRole = "follower"
    round_s: float = 0.0
    supports: Mapping[str, float] = field(default_factory=dict)
    #: The next round is of this term at least: a box that never decides knows a higher one, and refused its vote.
    least_term: int = 0


def restarted(me: str, term: int, voted: str | None, head: str | None, now_s: float) -> ElectionState:
    """A box begins again with what it had written down."""
    return ElectionState(me, term, voted, head, now_s)


def hears_head(state: ElectionState, now_s: float, rules: FleetRules) -> bool:
    """Whether the box has heard a head within the lease."""
    return state.role == "head" or (state.head is not None and now_s - state.heard_s < rules.lease_s)


def due(state: ElectionState, electorate: Electorate, now_s: float, rules: FleetRules) -> ElectionState | None:
    """The state with which the box asks for votes (of a trial, or of a term) now; None: it does not."""
    if state.me not in electorate.candidates or state.role == "head":
        return None
    if state.role in ("trying", "candidate"):
        if now_s - state.round_s < ROUND_BEATS * rules.beat_s:
            return None
        return _try(_follow(state, state.least_term) if state.least_term > state.term else state, now_s)
    alone = set(electorate.voters) == {state.me}
    if state.head == state.me or alone:  # it was head, and began again: the others promised it their vote
        return _try(state, now_s)
    rank = [c for c in electorate.candidates if c != state.head].index(state.me)
    wait_s = rules.lease_s + STAGGER_BEATS * rules.beat_s * rank
    return _try(state, now_s) if now_s - state.heard_s >= wait_s else None


def _try(state: ElectionState, now_s: float) -> ElectionState:
    return replace(state, role="trying", round_s=now_s, supports={state.me: now_s}, least_term=0)


def asked(
    state: ElectionState,
    electorate: Electorate,
    candidate: str,
    term: int,
    trial: bool,
    now_s: float,
    rules: FleetRules,
) -> tuple[ElectionState, bool]:
    """A candidate asks: the state after the answer, and whether the vote is given. A state that gave a vote has to be
    written down before the answer is sent."""
    if candidate not in electorate.candidates:
        return state, False
    # A box that hears a live head does not even take the term up: a box that was cut off shall not end that head's.
    if state.head != candidate and hears_head(state, now_s, rules):
        return state, False
    if trial:
        return state, term > state.term
    if term > state.term:
        state = replace(_follow(state, term), heard_s=state.heard_s)
    elif term < state.term or state.voted not in (None, candidate):
        return state, False
    # The promise to the candidate begins now.
    return replace(state, voted=candidate, head=candidate, heard_s=now_s), True


def vote_came(
    state: ElectionState, electorate: Electorate, voter: str, term: int, granted: bool, trial: bool, now_s: float
) -> ElectionState:
    """A vote arrived. The state may be that of a candidate (its trial succeeded: ask in the new term) or a head."""
    if term > state.term and not (trial and granted):
        if voter in electorate.candidates:
            return _follow(state, term)
        return replace(state, least_term=state.term + 1)  # others may grant this round nevertheless
    if not granted or state.role != ("trying" if trial else "candidate") or (not trial and term != state.term):
        return state
    return count_votes(replace(state, supports={**state.supports, voter: state.round_s}), electorate, now_s)


def count_votes(state: ElectionState, electorate: Electorate, now_s: float) -> ElectionState:
    """A quorum of trial votes makes a candidate, one of votes a head."""
    if state.role == "trying" and electorate.quorum(state.supports):
        state = replace(
            state, term=state.term + 1, voted=state.me, head=None, role="candidate", round_s=now_s,
            supports={state.me: now_s},
        )  # fmt: skip
    if state.role == "candidate" and electorate.quorum(state.supports):
        state = replace(state, role="head", head=state.me, heard_s=now_s)
    return state


def heard(state: ElectionState, electorate: Electorate, head: str, term: int, now_s: float) -> ElectionState:
    """A head's answer or order in `term` arrived. One of an older term, or of a box that never decides, changes
    nothing."""
    if head not in electorate.candidates or term < state.term or (term == state.term and state.role == "head"):
        return state
    if term > state.term:
        state = _follow(state, term)
    return replace(state, head=head, heard_s=now_s, role="follower", supports={})


def saw_term(
    state: ElectionState, electorate: Electorate, box: str, term: int, now_s: float, rules: FleetRules
) -> ElectionState:
    """A beat of a box that knows a higher term came: a head steps down, so that the boxes agree on a term again."""
    if state.role != "head" or term <= state.term:
        return state
    if box in electorate.candidates:
        return _follow(state, term)
    return state if mandate(state, electorate, now_s, rules) else _follow(state, state.term + 1)


def supported(state: ElectionState, voter: str, sent_s: float) -> ElectionState:
    """A box echoed, in this term, an answer that the head had sent at `sent_s`."""
    if state.role != "head" or sent_s <= state.supports.get(voter, float("-inf")):
        return state
    return replace(state, supports={**state.supports, voter: sent_s})


def mandate(state: ElectionState, electorate: Electorate, now_s: float, rules: FleetRules) -> bool:
    """Whether the box may decide now."""
    if state.role != "head":
        return False
    fresh_s = now_s - (rules.lease_s - rules.fence_margin_s)
    return electorate.quorum([v for v, sent_s in state.supports.items() if v == state.me or sent_s > fresh_s])


def replaceable(state: ElectionState, electorate: Electorate) -> bool:
    """Whether the other boxes could choose a head without this one's vote."""
    others = set(electorate.voters) - {state.me}
    return electorate.quorum(others) and any(c != state.me for c in electorate.candidates)


def laid_down(state: ElectionState, now_s: float) -> ElectionState:
    """The head gives its office up, since it cannot keep what it decides. Its vote of this term stays its own."""
    return replace(state, head=None, heard_s=now_s, role="follower", supports={})


def newer(known: FleetAgreement, vote: VoteAnswer, electorate: Electorate, term: int) -> FleetAgreement:
    """The agreement with which a candidate in `term` begins, after a vote. Only that of a box which may decide counts,
    and only one of a term before: there is no head of this term yet."""
    found = vote.agreement
    if found is None or not vote.granted or vote.voter not in electorate.candidates:
        return known
    return found if known.version < found.version and found.version.term < term else known


def _follow(state: ElectionState, term: int) -> ElectionState:
    return replace(state, term=term, voted=None, head=None, role="follower", supports={})
