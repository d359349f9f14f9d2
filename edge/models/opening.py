"""Whether onnxruntime can open a file, asked in a process of its own: a damaged graph may take the process with it."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Final

from edge.core.errors import MemoryLimitExceeded, WeightsError, says_no_memory

_PATIENCE_S: Final = 120.0


def check_opens(path: Path, shown: Path, limit_bytes: int) -> None:
    """Raises WeightsError with the reason, naming `shown`, if onnxruntime cannot open the file at `path`;
    MemoryLimitExceeded if that takes more than `limit_bytes` of memory."""
    beginning = _beginning(path)
    if not beginning:
        raise WeightsError(f"{shown}: the file is empty", "copy it again")
    if beginning.startswith(b"version https://git-lfs"):
        raise WeightsError(f"{shown}: is a Git LFS pointer, not the model", "fetch it with git lfs pull")
    if beginning.lstrip().lower().startswith((b"<!doctype html", b"<html")):
        raise WeightsError(f"{shown}: is a web page, not a model", "download the file itself")
    command = [sys.executable, "-m", "edge.models.opening", str(path), str(limit_bytes)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    except subprocess.TimeoutExpired:
        raise WeightsError(f"{shown}: onnxruntime did not open it within {_PATIENCE_S:.0f} s") from None
    if done.returncode < 0:
        raise WeightsError(f"{shown}: onnxruntime crashed on it (signal {-done.returncode})")
    try:
        reason = json.loads(done.stdout.splitlines()[-1])["error"]
    except (IndexError, ValueError, KeyError, TypeError):
        last = (done.stderr.strip().splitlines() or ["it gave no reason"])[-1]
        raise WeightsError(f"{shown}: onnxruntime cannot be asked: {last[:300]}") from None
    if reason is not None and says_no_memory(reason):
        raise MemoryLimitExceeded(str(shown), limit_bytes, "--worker-memory-mb")
    if reason is not None:
        raise WeightsError(f"{shown}: onnxruntime cannot open it: {reason}")


def _beginning(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(512)
    except OSError as error:
        raise WeightsError(f"{path}: cannot be read ({error.strerror})") from None


def main(path: str, limit_bytes: int) -> int:
    """Open it with at most so many bytes of memory; one line of JSON: {"error": reason or null}."""
    import onnxruntime

    resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, limit_bytes))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # the stack of each counts
    options.log_severity_level = 4
    reason: str | None = None
    try:
        onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except MemoryError:
        reason = "out of memory"
    except Exception as error:  # onnxruntime has a class of its own for each of its reasons
        reason = " ".join(str(error).replace(path, "it").split())[:300] or type(error).__name__
    sys.stdout.write(json.dumps({"error": reason}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
