"""Programs that tasks of an engine run, by name.

A program is a generator function: it takes JSON arguments, yields checkpoints (JSON objects which, laid over its
arguments, let another run of it go on from there) and returns a JSON answer. To add one, write it as "module:function"
in `PROGRAMS`, and the check of its arguments in `_CHECKS`; its module is loaded where it is needed, not before. It may
be stopped at any moment: by KeyboardInterrupt or by the end of its process.
"""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Callable, Generator, Mapping
from typing import Any, Final

from edge.core import checks
from edge.core.engine import EngineWork
from edge.core.errors import InvalidValue

Program = Callable[[Mapping[str, Any]], Generator[Mapping[str, Any], None, Any]]

PROGRAMS: Final[Mapping[str, str]] = {
    "wait": "edge.engines.programs:wait",
    "label": "edge.engines.label_program:label",
}
#: By program: a function that raises InvalidValue for arguments that it cannot take, with paths below `arguments`.
_CHECKS: Final[Mapping[str, str]] = {
    "wait": "edge.engines.programs:check_wait",
    "label": "edge.engines.label_work:check_label",
}
#: A waiting program looks up so often, in s: an interrupt is heard then.
_STEP_S: Final = 0.1


def check_program(path: str, name: str) -> None:
    """Raises InvalidValue where no program has this name."""
    checks.one_of(path, name, tuple(PROGRAMS))


def check_work(path: str, work: EngineWork) -> None:
    """Whether there is such a program, and takes these arguments. Raises InvalidValue with the field's path."""
    check_program(f"{path}.program", work.program)
    check: Callable[[Mapping[str, Any]], None] = _loaded(_CHECKS[work.program])
    try:
        check(work.arguments)
    except InvalidValue as error:
        raise InvalidValue(f"{path}.{error.path}", error.given, error.allowed) from None


def run_program(name: str, arguments: Mapping[str, Any]) -> Generator[dict[str, Any], None, Any]:
    """Run a program: yields its checkpoints, returns its answer. Raises InvalidValue for an unknown name and for what
    is not JSON; else what the program raises."""
    check_program("program", name)
    program: Program = _loaded(PROGRAMS[name])
    work = program(arguments)
    while True:
        try:
            state = dict(next(work))
        except StopIteration as end:
            return _as_json("answer", end.value)
        yield _as_json("checkpoint", state)


def wait(arguments: Mapping[str, Any]) -> Generator[dict[str, Any], None, dict[str, float]]:
    """Hold for `seconds` (null: until stopped), of which `done_s` are done already; a checkpoint each `checkpoint_s`
    (null: none). Answers with the seconds that it held. For scenarios and trials of a fleet."""
    check_wait(arguments)
    seconds, done_s, every_s = arguments.get("seconds"), arguments.get("done_s", 0.0), arguments.get("checkpoint_s")
    begin_s = time.monotonic()
    kept_s = 0.0
    while True:
        held_s = time.monotonic() - begin_s
        left_s = _STEP_S if seconds is None else seconds - (done_s or 0.0) - held_s
        if left_s <= 0.0:
            return {"held_s": held_s}
        if every_s is not None and held_s - kept_s >= every_s:
            kept_s = held_s
            yield {"done_s": (done_s or 0.0) + held_s}
        time.sleep(min(_STEP_S, left_s))


def check_wait(arguments: Mapping[str, Any]) -> None:
    """Raises InvalidValue for arguments that `wait` cannot take."""
    checks.known_keys("arguments", arguments, ("seconds", "done_s", "checkpoint_s"))
    for name, value in arguments.items():
        if value is not None:
            checks.in_range(f"arguments.{name}", value, 0.0, 1e9, low_open=name == "checkpoint_s")


def _loaded(place: str) -> Any:
    module, _, function = place.partition(":")
    return getattr(importlib.import_module(module), function)


def _as_json(path: str, value: Any) -> Any:
    """The value as JSON would bring it over. Raises InvalidValue."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InvalidValue(path, type(value).__name__, f"a value that JSON can hold ({error})") from None
