"""Why a window plan was made, as a value. No code parses its sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

#: The changes of a camera: its inference was measured on this box; its model in force was pinned, unpinned,
#: rolled back, or is a sibling's; its settings of retraining changed.
CameraChange = Literal[
    "camera_measured",
    "camera_pinned",
    "camera_unpinned",
    "camera_rolled_back",
    "camera_from_sibling",
    "camera_settings",
]
PlanCauseCode = (
    CameraChange
    | Literal[
        "prepared",
        "first_window",
        "restarted",
        "restarted_without_plan",
        "capacity_changed",
        "camera_joined",
        "camera_left",
        "profiles_late",
        "work_corrected",
        "progress_unexpected",
        "retraining_late",
        "retraining_completed",
        "retraining_failed",
        "lenders_offered",
        "lender_failed",
        "group_over",
        "recorded",
    ]
)

#: Causes that name no camera and no number. They are stored in these very words.
_WHOLE: Final[Mapping[PlanCauseCode, str]] = {
    "prepared": "labels and profiles are in",
    "first_window": "first window: nothing to retrain on yet",
    "restarted": "restarted inside a window: planned again with what is left",
    "restarted_without_plan": "restarted inside a window without a plan",
    "capacity_changed": "another part of the device is left for cameras",
    "lenders_offered": "another box lends a share of its device",
}


@dataclass(frozen=True)
class PlanCause:
    """The event that led to a plan, and its camera (None: of several or none).

    `device_seconds` is the work that a retraining costs by its progress ("work_corrected") or has done, where
    `expected_device_seconds` were expected ("progress_unexpected"). `promoted` says how a completed retraining ended.
    `sentence` is a recorded cause's own.
    """

    code: PlanCauseCode
    camera: str | None = None
    device_seconds: float = 0.0
    expected_device_seconds: float = 0.0
    promoted: bool = False
    sentence: str = ""

    @classmethod
    def recorded(cls, sentence: str, camera: str | None = None) -> PlanCause:
        """A stored plan's cause, of which only the sentence is kept."""
        return cls("recorded", camera, sentence=sentence)

    @property
    def words(self) -> str:
        """The cause as a sentence, after its camera's id where it has one."""
        return self.what if self.camera is None else f"{self.camera}: {self.what}"

    @property
    def what(self) -> str:
        """The cause as a sentence without its camera, as it is stored and journaled."""
        match self.code:
            case "camera_joined":
                return "the camera joined"
            case "camera_left":
                return "the camera left"
            case "camera_measured":
                return "its inference was measured"
            case "camera_pinned":
                return "its model was pinned"
            case "camera_unpinned":
                return "its model was unpinned"
            case "camera_rolled_back":
                return "an earlier model is in force again"
            case "camera_from_sibling":
                return "another camera's student is in force"
            case "camera_settings":
                return "its settings of retraining changed"
            case "profiles_late":
                return "its profiles came late"
            case "work_corrected":
                return f"the retraining costs {self.device_seconds:.0f} device seconds"
            case "progress_unexpected":
                done, expected = self.device_seconds, self.expected_device_seconds
                return f"{done:.1f} device seconds done where {expected:.1f} were expected"
            case "retraining_late":
                return "the retraining is later than planned"
            case "retraining_completed":
                return f"retraining completed, {'promoted' if self.promoted else 'not promoted'}"
            case "retraining_failed":
                return "retraining failed"
            case "lender_failed":
                return "its retraining did not come back from another box"
            case "group_over":
                return "the group's retraining is over"
            case "recorded":
                return self.sentence
            case _:
                return _WHOLE[self.code]
