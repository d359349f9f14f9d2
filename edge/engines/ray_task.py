"""The task of a Ray worker: a program, whose start, checkpoints and answer are a stream of pairs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from edge.engines.programs import run_program


def task(program: str, arguments: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """("started", None), then ("kept", state) each time, at last ("ended", answer). Raises what the program raises."""
    yield "started", None
    work = run_program(program, arguments)
    while True:
        try:
            state = next(work)
        except StopIteration as end:
            yield "ended", end.value
            return
        yield "kept", state
