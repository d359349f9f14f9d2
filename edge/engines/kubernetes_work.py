"""The work of a pod: run the program that the environment names, leave its answer as the termination message.

    MAGPIE_WORK='{"program": "wait", "arguments": {"seconds": 1}}' python -m edge.engines.kubernetes_work

Exit codes: 0 answered, 1 the program raised, 2 the work cannot be read, 143 stopped. The message is JSON: `answer` and
`ran_s`, or `why`. A kubelet keeps 4,096 bytes of it: a larger answer is an error of the program.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from edge.core.errors import InvalidValue
from edge.engines.kubernetes_pods import WORK_VARIABLE
from edge.engines.programs import run_program

MESSAGE_VARIABLE: Final = "MAGPIE_MESSAGE"
_MESSAGE_PATH: Final = "/dev/termination-log"
MOST_MESSAGE_BYTES: Final = 4096


def perform(work: str, clock: Callable[[], float] = time.monotonic) -> tuple[int, dict[str, Any]]:
    """Run the work; (exit code, message). KeyboardInterrupt goes through."""
    try:
        row = json.loads(work)
        program, arguments = row["program"], row["arguments"]
        if not isinstance(program, str) or not isinstance(arguments, dict):
            raise TypeError
    except (ValueError, TypeError, KeyError):
        return 2, {"why": f"{WORK_VARIABLE} is not the JSON of a program and its arguments"}
    begin_s = clock()
    try:
        answer = _answer(program, arguments)
        message = {"answer": answer, "ran_s": clock() - begin_s}
        size = len(json.dumps(message).encode())
        if size > MOST_MESSAGE_BYTES:
            raise InvalidValue("answer", f"{size} bytes", f"at most {MOST_MESSAGE_BYTES} bytes of JSON on Kubernetes")
    except Exception as error:
        return 1, {"why": _shortened(str(error) or type(error).__name__)}
    return 0, message


def main() -> int:
    """The pod's command."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        code, message = perform(os.environ.get(WORK_VARIABLE, ""))
    except KeyboardInterrupt:
        return 128 + signal.SIGTERM
    Path(os.environ.get(MESSAGE_VARIABLE, _MESSAGE_PATH)).write_text(json.dumps(message), encoding="utf-8")
    return code


def _answer(program: str, arguments: Mapping[str, Any]) -> Any:
    """The program's answer. Its checkpoints have nowhere to go: a pod that is lost begins anew."""
    work = run_program(program, arguments)
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


def _shortened(text: str) -> str:
    """So much of a text that its message is small enough, whatever JSON makes of its characters."""
    while len(json.dumps({"why": text}).encode()) > MOST_MESSAGE_BYTES:
        text = text[: len(text) * 3 // 4]
    return text


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
