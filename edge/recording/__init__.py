"""A bounded sample of each camera's frames on disk, its split by time, and the memory of older scenes."""

from edge.recording.exemplars import ExemplarMemory, read_exemplars
from edge.recording.recorder import Recorder, RecorderStatus
from edge.recording.split import Split, build_labelled_window, split_by_time

__all__ = [
    "ExemplarMemory",
    "Recorder",
    "RecorderStatus",
    "Split",
    "build_labelled_window",
    "read_exemplars",
    "split_by_time",
]
