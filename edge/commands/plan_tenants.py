"""`magpie plan tenants PROBLEM.json | -`: one decision from a file, or a conversation by lines.

On standard input come JSON objects, one a line: the problem, then `feedback` after each interval, then `end`
(docs/tenants.md). Each of the first two is answered by one line with the round and the allocation.
A line that cannot be used changes nothing: the last allocation is given again, and standard error says why.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TextIO

from edge.core.errors import InvalidValue
from scheduler.tenants.feedback import ClockPutBack, feedback_from
from scheduler.tenants.policies import SharingPolicy, check_kind
from scheduler.tenants.values import SharingProblem, SharingStep


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
        answer = policy.step(problem, answer.state, feedback)
    return {"format": "tenant-allocation/1", "problem": problem.name, "policy": policy.name, **_line(answer, True)}


def converse(policy: SharingPolicy, lines: Iterable[str], out: TextIO, seed: int) -> int:
    """Answer lines until `end` or the end of input. Returns 0; raises InvalidValue for a bad problem."""
    problem: SharingProblem | None = None
    answer: SharingStep | None = None
    for line in lines:
        value = _read(line)
        kind = value.get("type") if isinstance(value, Mapping) else None
        if kind == "end":
            break
        if kind == "problem":
            problem = SharingProblem.from_json(value)
            check_kind(policy.name, problem)
            answer = policy.begin(problem, seed)
        elif problem is None or answer is None:
            raise InvalidValue("type", kind, "problem, as the first line")
        else:
            try:
                feedback = feedback_from(problem, answer.state, value)
            except InvalidValue as error:
                sys.stderr.write(f"magpie plan: {error}; the allocation is held\n")
                if isinstance(error, ClockPutBack):
                    answer = replace(answer, state=error.state)
            else:
                for tenant, count in feedback.dropped.items():
                    sys.stderr.write(f"magpie plan: {tenant or problem.name}: {count} reports not used\n")
                answer = policy.step(problem, answer.state, feedback)
        out.write(json.dumps(_line(answer, False)) + "\n")
        out.flush()
    return 0


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
