"""Notes about the assumptions and gaps of a forecast, as values. No code parses their sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

#: "new_camera": of a new camera nothing is recorded, `camera` stands in; "few_windows": the interval rests on few;
#: "rate_above": a rate that was never measured; "rate_unknown": no rates of `camera` were measured; "not_measured":
#: `camera` has no measured accuracy; "left_out": `camera` cannot be replayed; "second_box", "device": what is assumed
#: of them; "budget_unknown": nothing was learned of labels and their cost; "no_room": less is left than cameras need;
#: "no_latencies": of `model` none are known; "stand_ins": values that were not measured; "past": how right such answers
#: were; "no_past": none was compared yet; "trend": `camera` goes on learning (or losing) without any change.
NoteCode = Literal[
    "new_camera", "few_windows", "rate_above", "rate_unknown", "not_measured", "left_out", "second_box", "device",
    "budget_unknown", "no_room", "no_latencies", "stand_ins", "past", "no_past", "trend",
]  # fmt: skip

_WORDS: Final[Mapping[str, str]] = {
    "new_camera": "Nothing is recorded of a new camera: it is taken to be like {camera}, and its interval reaches over "
    "the forecasts of all others",
    "few_windows": "Only {windows:.0f} windows count: the intervals say little",
    "rate_above": "{camera}: no rate above {recorded:g} answers/s was measured; it is assumed that an answer loses in "
    "proportion to its age also at {asked:g}/s, and the interval begins at no gain",
    "rate_unknown": "{camera}: no frame rates were measured, so another rate changes nothing in this forecast",
    "not_measured": "{camera}: no accuracy was measured in these windows; its level is the simulator's",
    "left_out": "{camera} is left out: its frozen student was not measured in these windows",
    "second_box": "The second box is taken to be like this one and to serve no models; served models stay here",
    "device": "More or less of the same device is meant: one retraining gets no faster than on the whole device today",
    "budget_unknown": "The cost of labels was not learned yet: number and cost of labels are taken as they are",
    "no_room": "Labelling, control and served models would leave {left:.2f} of the device to cameras: the least that "
    "is planned with stands in",
    "no_latencies": "{model}: no latencies are known",
    "stand_ins": "The simulator replaced {count:.0f} values that were not measured by estimates (docs/capacity.md)",
    "past": "Such answers were compared with their outcomes: this one is moved by what they were off, and wider where "
    "that was not enough",
    "no_past": "No such answer was compared with what came yet",
    "trend": "{camera}: {points:+.1f} points in the coming windows are what its student goes on learning, as it did in "
    "the recorded ones, without any change too",
}
#: Of all cameras together: hidden from users of some.
_OF_ALL: Final[Mapping[str, str]] = {
    "past": "{answers:.0f} changes were compared: {error:.1f} points of error on average, {held:.0f} % of the values "
    "inside their interval; intervals are {wider:.1f} points wider to each side",
}
#: Beside it, where the note says of how many changes answers learned by what they are moved.
_MOVED: Final = (
    "; as {learned:.0f} of these changes were off, answers are moved by {bias:+.1f} points, which are unsure by "
    "{unsure:.1f}"
)
#: In place of the words of "trend", where accuracies fall.
_FALLS: Final = (
    "{camera}: {points:+.1f} points in the coming windows are what its accuracy goes on losing, as it did in the "
    "recorded ones, without any change too"
)


@dataclass(frozen=True)
class CapacityNote:
    """One note. `numbers` by code: "few_windows": `windows`; "rate_above": `recorded` and `asked` answers per second;
    "no_room": `left` devices; "stand_ins": `count`; "past": `answers`, `error` and `wider` in points, `held` in %, and
    `learned` of these answers, `bias` and `unsure` in points (notes of earlier versions have none of the last three);
    "trend": `points`."""

    code: NoteCode
    camera: str | None = None
    model: str | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """For people."""
        words = _FALLS if self.code == "trend" and self.numbers["points"] < 0 else _WORDS[self.code]
        return words.format(camera=self.camera, model=self.model, **self.numbers)

    @property
    def of_all(self) -> str | None:
        """For people who see every camera: a second sentence, about all cameras together."""
        words = _OF_ALL.get(self.code)
        if words is None:
            return None
        return (words + (_MOVED if "learned" in self.numbers else "")).format(**self.numbers)
