"""A box that may decide asks the others for their votes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from edge.core.clock import Clock
from edge.core.errors import MagpieError
from edge.core.fleet import FleetRules
from edge.core.fleet_links import VoteAnswer, VoteRequest
from edge.fleet.links import Links
from edge.fleet.memory import AgentMemory
from scheduler.fleet import election

_VOTE_S: Final = 1.0


class Votes:
    """Of one box. `newest` is the newest agreement among the votes of the present election."""

    def __init__(self, memory: AgentMemory, links: Links, clock: Clock, rules: FleetRules) -> None:
        self._memory, self._links, self._clock, self._rules = memory, links, clock, rules
        self.newest = memory.agreement

    async def stand(self) -> Mapping[str, float] | None:
        """Ask for votes where it is time. None: the box did not win; else since when the head before it is silent."""
        memory, now = self._memory, self._clock.monotonic()
        state = election.due(memory.election, memory.electorate, now, self._rules)
        if state is None:
            return None
        before = memory.election
        self.newest = memory.agreement
        memory.elect(election.count_votes(state, memory.electorate, now))
        if memory.election.role == "trying":
            await self._ask(trial=True)
        if memory.election.role == "candidate":
            await self._ask(trial=False)
        if not memory.is_head:
            return None
        silent = before.head is not None and before.head != memory.me
        return {str(before.head): before.heard_s} if silent else {}

    async def _ask(self, *, trial: bool) -> None:
        memory = self._memory
        request = VoteRequest(memory.me, memory.election.term + trial, trial)
        others = [m for m in memory.agreement.members if m.name != memory.me]

        async def one(name: str) -> VoteAnswer | None:
            member = memory.member(name)
            try:
                vote = None if member is None else await self._links.ask(member, "/vote", request, VoteAnswer, _VOTE_S)
            except MagpieError:
                return None
            return vote if vote is not None and vote.voter == name else None

        role = memory.election.role
        tasks = [asyncio.create_task(one(m.name)) for m in others]
        try:
            for coming in asyncio.as_completed(tasks):
                vote = await coming
                if vote is not None:
                    self._count(vote, request.term)
                if memory.election.role != role:  # a quorum is there, or another box knows a higher term
                    return
        finally:
            for task in tasks:
                task.cancel()

    def _count(self, vote: VoteAnswer, term: int) -> None:
        memory = self._memory
        self.newest = election.newer(self.newest, vote, memory.electorate, term)
        state = election.vote_came(
            memory.election, memory.electorate, vote.voter, vote.term, vote.granted, vote.trial,
            self._clock.monotonic(),
        )  # fmt: skip
        memory.elect(state)
