"""Any ONNX detector as a teacher, run by onnxruntime after a small description (`OnnxSpec`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edge.core.detectors import OnnxSpec
from edge.core.vision import Detections
from edge.detectors.classes import ClassMap
from edge.detectors.decoding import Rows
from edge.detectors.files import check_file
from edge.detectors.session import DetectorSession


class OnnxTeacher:
    """A detector; `label` may be called from one thread at a time.

    Where its graph allows it, the input has the picture's own proportions at no more pixels than were exported.
    """

    def __init__(self, spec: OnnxSpec, threads: int = 1, device: str = "cpu") -> None:
        """Loads the model and runs it once on a grey picture, so that a wrong description is seen here.

        Raises:
            WeightsError: the file is missing, damaged, or does not fit its description.
        """
        self.spec, self.name, self.classes = spec, spec.name, spec.classes
        self._rows = Rows.build(range(len(spec.classes)))
        self._session = _opened(spec, threads, device)
        # At the exported shape first: a file that does not fit its description shall be reported as that.
        self._find(np.full((72, 128, 3), 128, np.uint8), self._session.shape)
        self._session.fix_shape_if_needed()

    def label(self, picture: NDArray[np.uint8]) -> Detections:
        """Objects on a uint8 RGB picture (H, W, 3), best first, above the spec's score; classes index `classes`."""
        return self._find(picture, self._session.shape_for(picture.shape[:2]))

    def mapped(self, classes: ClassMap) -> OnnxTeacher:
        """The same teacher answering in a camera's classes, merged before suppression; the model is shared."""
        other = object.__new__(OnnxTeacher)
        other.__dict__.update(self.__dict__)
        other.classes, other._rows = classes.classes, Rows.build(classes.table)
        return other

    def _find(self, picture: NDArray[np.uint8], shape: tuple[int, int]) -> Detections:
        s = self.spec
        return self._session.find(picture, self._rows, s.min_score, s.nms_iou, s.max_objects, shape)


def check_model(spec: OnnxSpec) -> None:
    """The file is there, is the right one, can be opened and has the inputs that its description says.

    Raises WeightsError.
    """
    _opened(spec, 1, "cpu").open()


def _opened(spec: OnnxSpec, threads: int, device: str) -> DetectorSession:
    check_file(spec.file, spec.sha256)
    return DetectorSession(spec.file.read_bytes(), str(spec.file), spec.input, spec.output, threads, device)
