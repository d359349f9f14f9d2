"""The checkpoint of a retraining: its state in a file, which a later run of the same retraining takes up."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from edge.files import store_whole


@dataclass(frozen=True)
class CheckpointFormat:
    """A file format of one kind of retraining: its name, the names of two entries, and the notes on a file that is not
    taken up (`{error}` is the error's kind)."""

    name: str
    seconds: str
    skipped: str
    of_another: str
    damaged: str


@dataclass(frozen=True)
class RunState:
    """A state of a run: steps done, steps skipped of them, seconds of computing, and its tensors by name."""

    step: int
    skipped: int
    seconds: float
    tensors: dict[str, Any]


class Checkpoint:
    """The file at `path` of the retraining with this fingerprint; `note` says why a file there was not taken up."""

    def __init__(self, path: Path, form: CheckpointFormat, fingerprint: str) -> None:
        self._path, self._form, self._fingerprint = path, form, fingerprint
        self.note, self.resumed = "", False

    def keep(self, state: RunState) -> None:
        """Write the file whole."""
        content = {
            "format": self._form.name,
            "fingerprint": self._fingerprint,
            "step": state.step,
            self._form.seconds: state.seconds,
            self._form.skipped: state.skipped,
            **state.tensors,
        }
        buffer = io.BytesIO()
        torch.save(content, buffer)
        store_whole(self._path, buffer.getvalue())

    def take_up(self, own: dict[str, Any], device: str) -> RunState | None:
        """The state in the file, for `device`, with tensors of the names and shapes of `own`. None if there is
        no file, or none of this retraining that is whole: nothing of such a file is used."""
        if not self._path.exists():
            return None
        try:
            kept = torch.load(self._path, map_location=device, weights_only=True)
            if kept["format"] != self._form.name or kept["fingerprint"] != self._fingerprint:
                self.note = self._form.of_another
                return None
            tensors = {name: kept[name] for name in own}
            if not _alike(tensors, own):
                raise ValueError("tensors of other shapes")
            state = RunState(
                int(kept["step"]), int(kept[self._form.skipped]), float(kept[self._form.seconds]), tensors
            )  # fmt: skip
        except Exception as error:  # any error of torch on a damaged file: the retraining can be done without it
            self.note = self._form.damaged.format(error=type(error).__name__)
            return None
        self.resumed = True
        return state

    def discard(self) -> None:
        """Remove the file."""
        self._path.unlink(missing_ok=True)


def _alike(kept: Any, own: Any) -> bool:
    """Whether both are built alike, down to the shapes of their tensors."""
    if isinstance(own, Tensor):
        return isinstance(kept, Tensor) and kept.shape == own.shape and kept.dtype == own.dtype
    if isinstance(own, dict):
        return isinstance(kept, dict) and kept.keys() == own.keys() and all(_alike(kept[k], own[k]) for k in own)
    if isinstance(own, list):
        return isinstance(kept, list) and len(kept) == len(own) and all(map(_alike, kept, own))
    return isinstance(kept, type(own))
