"""Students: the small networks that watch the cameras. Imports edge.core and edge.detectors only.

Two kinds: our own architectures (`build(spec)` makes a network, `Student` answers pictures with it, `detection_loss`
and `classification_loss` are what it is trained with) and published detectors (edge.students.published).
`load_student` reads either.
"""

from edge.students.building import build, resize_last_layer
from edge.students.classifier import ClassificationNet, classification_loss
from edge.students.detector import DetectionNet, Matched, detection_loss, match_targets
from edge.students.network import StudentNet
from edge.students.pictures import (
    cut_outs,
    input_size_at,
    pictures_to_tensor,
    resize_picture,
)
from edge.students.student import ANSWER_SCORE, Student
from edge.students.weights import load_drawn, load_student, refill, save_weights, start_from, student_bytes

__all__ = [
    "ANSWER_SCORE",
    "ClassificationNet",
    "DetectionNet",
    "Matched",
    "Student",
    "StudentNet",
    "build",
    "classification_loss",
    "cut_outs",
    "detection_loss",
    "input_size_at",
    "load_drawn",
    "load_student",
    "match_targets",
    "pictures_to_tensor",
    "refill",
    "resize_last_layer",
    "resize_picture",
    "save_weights",
    "start_from",
    "student_bytes",
]
