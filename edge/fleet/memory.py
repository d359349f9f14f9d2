"""An agent's vote and agreement, which are on disk before the agent sends them to anybody."""

from __future__ import annotations

from dataclasses import dataclass

from edge.core.fleet_links import FleetAgreement, FleetMember
from edge.fleet.folder import FleetFolder
from scheduler.fleet.election import ElectionState, Electorate, laid_down, restarted


@dataclass(frozen=True)
class StoredElection:
    """A box's promise: `voted` in `term`; the `head` that it knew."""

    term: int = 0
    voted: str | None = None
    head: str | None = None


class AgentMemory:
    """One box's part of the fleet. Raises StoreError where a file cannot be read or written."""

    def __init__(self, folder: FleetFolder, me: str, now_s: float) -> None:
        self.folder, self.me = folder, me
        folder.clean()
        self.agreement = folder.read("agreement.json", FleetAgreement) or FleetAgreement()
        kept = folder.read("election.json", StoredElection) or StoredElection()
        self._kept = kept
        self.election: ElectionState = restarted(me, kept.term, kept.voted, kept.head, now_s)

    @property
    def electorate(self) -> Electorate:
        """The boxes that vote."""
        return Electorate(self.agreement.voters(), self.agreement.candidates())

    @property
    def is_head(self) -> bool:
        """Whether this box won the last election that it knows of."""
        return self.election.role == "head"

    def member(self, box: str | None) -> FleetMember | None:
        """A box of the agreement."""
        return None if box is None else self.agreement.member(box)

    def elect(self, state: ElectionState) -> None:
        """Take over a state of the election; promises are on disk when this returns."""
        kept = StoredElection(state.term, state.voted, state.head)
        if kept != self._kept:
            self.folder.write("election.json", kept)
            self._kept = kept
        self.election = state

    def lay_down(self, now_s: float) -> None:
        """Be the head no more. Nothing is written: that is what fails."""
        self.election = laid_down(self.election, now_s)

    def agree(self, agreement: FleetAgreement) -> None:
        """Take over an agreement; it is on disk when this returns."""
        if agreement != self.agreement:
            self.folder.write("agreement.json", agreement)
            self.agreement = agreement
