"""`magpie plan tenants PROBLEM.json | -`: one decision from a file, or a conversation by lines.

On standard input come JSON objects, one a line: the problem, then `feedback` after each interval, then `end`
(docs/tenants.md). Each of the first two is answered by one line with the round and the allocation. With `--state FILE`
what was learned is kept there, and the next conversation about the same problem goes on from it.
A line that cannot be used changes nothing: the last allocation is given again, and standard error says why.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, TextIO

from edge.core import checks
from edge.core.errors import InvalidValue, MagpieError, StoreError
from edge.files import os_errors, put_aside, store_whole
from scheduler.tenants.feedback import ClockPutBack, feedback_from
from scheduler.tenants.learned import allocated
from scheduler.tenants.policies import ResumablePolicy, SharingPolicy, check_kind
from scheduler.tenants.values import SharingFeedback, SharingProblem, SharingState, SharingStep

STATE_FORMAT: Final = "tenant-conversation/1"
#: Errors that a policy may raise for a state that passes the checks and is damaged all the same.
_FAILURES: Final = (ArithmeticError, LookupError, ValueError, TypeError, AttributeError, RecursionError)


def decide(policy: SharingPolicy, value: Any, seed: int) -> dict[str, Any]:
    """The answer to a problem with its `history` of feedback, as JSON. Raises InvalidValue."""
    problem = SharingProblem.from_json(value)
    check_kind(policy.name, problem)
    answer = policy.begin(problem, seed)
    history = value.get("history") or []
    if not isinstance(history, list):
        raise InvalidValue("history", history, "a list of feedback")
    for n, entry in enumerate(history):
        try:
            feedback = feedback_from(problem, answer.state, entry)
        except InvalidValue as error:
            raise InvalidValue(f"history[{n}].{error.path}", error.given, error.allowed) from error
        _say_dropped(problem, feedback)
        answer = policy.step(problem, answer.state, feedback)
    return {"format": "tenant-allocation/1", "problem": problem.name, "policy": policy.name, **_line(answer, True)}


@dataclass(frozen=True)
class SharingStateFile:
    """A file with the state of a conversation, from which the next one goes on.

    Its content is never destroyed: a file that is no state is refused, a state that cannot be gone on from is put
    aside."""

    path: Path

    def read(self, problem: SharingProblem, policy: ResumablePolicy) -> SharingState | None:
        """The state of an earlier conversation about `problem` by `policy`; None: there is none. One that is damaged,
        or of another problem or policy, is put aside and counts as none; standard error says why.

        Raises InvalidValue for a file that is no state, StoreError for one that cannot be read or put aside."""
        with os_errors(self.path):
            try:
                content = self.path.read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                return None
        try:
            value = json.loads(content)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, Mapping) or value.get("format") != STATE_FORMAT:
            raise InvalidValue("--state", str(self.path), f"a new file, or a state of this command ({STATE_FORMAT})")
        try:
            return _state(value, problem, policy)
        except InvalidValue as error:
            self.put_aside_for(str(error))
            return None

    def put_aside_for(self, why: str) -> None:
        """Rename it, over no other file, and say so on standard error. Raises DiskFull, StoreError."""
        try:
            aside = put_aside(self.path)
        except StoreError as error:
            raise type(error)(f"{error.message}; {why}", error.hint) from error
        sys.stderr.write(f"magpie plan: {self.path}: {why}; put aside as {aside.name}, begun anew\n")

    def write(self, problem: SharingProblem, state: SharingState) -> None:
        """Write it whole. Where that fails, standard error says so: the conversation goes on."""
        value = {"format": STATE_FORMAT, "problem": problem.name, "digest": _digest(problem), "state": state.to_json()}
        try:
            store_whole(self.path, json.dumps(value).encode())
        except MagpieError as error:
            sys.stderr.write(f"magpie plan: {error}; the state is not kept\n")


def _state(value: Mapping[str, Any], problem: SharingProblem, policy: ResumablePolicy) -> SharingState:
    """The state in a file. Raises InvalidValue where it is of something else, or no such conversation leads to it."""
    if value.get("digest") != _digest(problem):
        raise InvalidValue("problem", value.get("problem"), f"the state of the problem {problem.name} as it is now")
    state = SharingState.from_json(value.get("state"))
    checks.one_of("state.policy", state.policy, (policy.name,))
    if len(state.held) != len(problem.tenants) or min(state.held) < 0 or sum(state.held) > problem.steps:
        allowed = f"steps of {len(problem.tenants)} tenants, at most {problem.steps} in all"
        raise InvalidValue("state.held", state.held, allowed)
    if state.round < 0 or state.seed < 0:
        raise InvalidValue("state.round", state.round, "a round and a seed from 0")
    policy.check(problem, state.memory)
    return state


def _digest(problem: SharingProblem) -> str:
    return hashlib.sha256(json.dumps(asdict(problem), sort_keys=True).encode()).hexdigest()[:16]


def converse(
    policy: ResumablePolicy, lines: Iterable[str], out: TextIO, seed: int, kept: SharingStateFile | None = None
) -> int:
    """Answer lines until `end` or the end of input; the file `kept` gets the state after each answer. Returns 0;
    raises InvalidValue for a bad problem or a file `kept` that is no state, StoreError for one that cannot be read."""
    conversation: SharingConversation | None = None
    for line in lines:
        value = _read(line)
        kind = value.get("type") if isinstance(value, Mapping) else None
        if kind == "end":
            break
        if kind == "problem":
            conversation = SharingConversation(policy, value, seed, kept)
        elif conversation is None:
            raise InvalidValue("type", kind, "problem, as the first line")
        else:
            conversation.hear(value)
        out.write(json.dumps(conversation.line()) + "\n")
        out.flush()
        conversation.keep()
    return 0


class SharingConversation:
    """One problem and its feedback. Raises as `converse` does."""

    def __init__(self, policy: ResumablePolicy, value: Any, seed: int, kept: SharingStateFile | None) -> None:
        self._policy, self._seed, self._kept = policy, seed, kept
        self._problem = SharingProblem.from_json(value)
        check_kind(policy.name, self._problem)
        known = None if kept is None else kept.read(self._problem, policy)
        #: Whether a file says what is known: then a step may fail because of it.
        self._was_read = known is not None
        #: Rounds of earlier conversations: policies count on, lines count from 0.
        self._before = 0 if known is None else known.round
        if known is None:
            self._answer = policy.begin(self._problem, seed)
        else:
            # The clock of this conversation may have begun anew.
            state = replace(known, elapsed_s=0.0)
            self._answer = SharingStep(state, allocated(self._problem, state.held), {})

    def hear(self, value: Any) -> None:
        """Feedback; one that cannot be used changes nothing, and standard error says why."""
        problem, state = self._problem, self._answer.state
        try:
            feedback = feedback_from(problem, state, value, self._before)
        except InvalidValue as error:
            sys.stderr.write(f"magpie plan: {error}; the allocation is held\n")
            if isinstance(error, ClockPutBack):
                self._answer = replace(self._answer, state=error.state)
            return
        _say_dropped(problem, feedback)
        try:
            self._answer = self._policy.step(problem, state, feedback)
        except _FAILURES as error:
            if not self._was_read:
                raise
            self._begin_anew(f"the state in it is damaged ({error!r})")
            # Rounds of the policy count from here; those of the lines go on.
            feedback = replace(feedback, round=feedback.round - state.round)
            self._answer = self._policy.step(problem, self._answer.state, feedback)

    def _begin_anew(self, why: str) -> None:
        """Without the state that was read, which is put aside, from the line that is answered next."""
        try:
            if self._kept is not None:
                self._kept.put_aside_for(why)
        except StoreError as error:
            sys.stderr.write(f"magpie plan: {error}; begun anew, the state is not kept\n")
            self._kept = None
        state, fresh = self._answer.state, self._policy.begin(self._problem, self._seed)
        self._was_read, self._before = False, self._before - state.round
        self._answer = replace(fresh, state=replace(fresh.state, elapsed_s=state.elapsed_s))

    def line(self) -> dict[str, Any]:
        """The answer."""
        return _line(self._answer, False) | {"round": self._answer.state.round - self._before}

    def keep(self) -> None:
        """Write what was learned, where it is kept."""
        if self._kept is not None:
            self._kept.write(self._problem, self._answer.state)


def _say_dropped(problem: SharingProblem, feedback: SharingFeedback) -> None:
    for tenant, count in feedback.dropped.items():
        sys.stderr.write(f"magpie plan: {tenant or problem.name}: {count} reports not used\n")


def _line(answer: SharingStep, full: bool) -> dict[str, Any]:
    line: dict[str, Any] = {"round": answer.state.round, "allocation": dict(answer.allocation)}
    if full:
        line["reasons"] = {
            tenant: {
                "source": reason.source,
                "utility": reason.utility,
                "demand": reason.demand,
                "reports": reason.reports,
                "changes": reason.changes,
                "best_utility": reason.best_utility,
            }
            for tenant, reason in answer.reasons.items()
        }
    return line


def _read(line: str) -> Any:
    try:
        return json.loads(line)
    except (json.JSONDecodeError, RecursionError):
        return None
