"""Retraining: labelled windows in, better students out. Imports edge.core and edge.students only."""

from edge.training.cache import PrefixCache, WindowExamples
from edge.training.evaluation import evaluate, evaluate_pairs
from edge.training.progress import Progress, TrainingFailed, device_clock
from edge.training.retraining import Retraining
from edge.training.trials import Trials

__all__ = [
    "PrefixCache",
    "Progress",
    "Retraining",
    "TrainingFailed",
    "Trials",
    "WindowExamples",
    "device_clock",
    "evaluate",
    "evaluate_pairs",
]
