"""Why a window plan is as it is, as values. No code parses their sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

#: Of a camera: its model is retrained, or goes on to be; another box retrains it; no retraining would pay off, or gain
#: at all; what must be kept leaves its retraining no share; its inference share. Of the whole plan: nothing is
#: retrained; fixed shares side by side, or one retraining after another; shares as they can be granted; least shares
#: kept. "recorded": a sentence of a stored plan.
PlanReasonCode = Literal[
    "retrain",
    "go_on",
    "lent",
    "not_worth_it",
    "no_gain",
    "no_share",
    "inference",
    "none_retrained",
    "side_by_side",
    "one_after_another",
    "granted",
    "least_kept",
    "recorded",
]

_FIXED: Mapping[str, str] = {
    "not_worth_it": "no retraining pays off in what is left of the window",
    "no_gain": "no retraining would gain",
    "none_retrained": "nothing is retrained: no retraining would pay off in what is left of the window",
    "least_kept": "every camera keeps the share that it needs at least",
}


@dataclass(frozen=True)
class PlanReason:
    """One reason. `name` is a retraining configuration's id, the share kind that grants, or the box that retrains.
    `numbers` by code, none where it is not named:

    "retrain", "go_on": `points` gained, `device_s` of work left, `place` of `places` in the order of starts;
    "lent": `points` gained from `arrives_s` after the window's start on;
    "inference": `share` (devices), `kept` part of the accuracy; "side_by_side": `retrainings`; "one_after_another":
    `retrainings`, `share` at the start; "granted": `step`, `least` share. `sentence` is a recorded reason's own.
    """

    code: PlanReasonCode
    camera: str | None = None
    name: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)
    sentence: str = ""

    @classmethod
    def recorded(cls, sentence: str, camera: str | None) -> PlanReason:
        """A stored plan's reason, of which only the sentence is kept."""
        return cls("recorded", camera, sentence=sentence)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def words(self, configs: Mapping[str, str] | None = None) -> str:
        """The reason as a sentence without a full stop; `configs`: configurations in words, by id."""
        n = self.numbers
        match self.code:
            case "retrain" | "go_on":
                return self._retraining(configs or {})
            case "lent":
                return (
                    f"the box {self.name} retrains it: {n['points']:+.1f} points from second {n['arrives_s']:.0f} of "
                    "the window on, at no share of this box"
                )
            case "no_share":
                return f"{self._config(configs or {})} was to be retrained: no share is left for it"
            case "inference":
                return f"{_percent(n['share'])} of the device for inference keeps {_percent(n['kept'])} of its accuracy"
            case "side_by_side":
                return f"{_retrainings(n)} side by side at fixed shares: better here than one after another"
            case "one_after_another":
                return (
                    f"{_retrainings(n)}, the most gain per remaining device second first, on "
                    f"{_percent(n['share'])} of the device at the start; inference has the rest, split anew whenever "
                    "one ends"
                )
            case "granted":
                return f"shares as {self.name} grants them (steps of {n['step']:g}, at least {n['least']:g})"
            case "recorded":
                return self.sentence
        return _FIXED[self.code]

    def _config(self, configs: Mapping[str, str]) -> str:
        known = configs.get(self.name)
        return self.name if known is None else f"“{known}”"

    def _retraining(self, configs: Mapping[str, str]) -> str:
        n = self.numbers
        verb = "retrain" if self.code == "retrain" else "go on with"
        config = self._config(configs)
        paid = n["points"] / n["device_s"] if n["device_s"] > 0 else None
        rate = "nothing left to pay" if paid is None else f"{paid:.2f} points per device second"
        place = f"number {n['place']:.0f} of {n['places']:.0f} to start" if n["places"] > 1 else "the only one"
        return f"{verb} {config}: {n['points']:+.1f} points for {n['device_s']:.1f} device seconds, {place} ({rate})"


def reasons_to_json(reasons: Mapping[str, tuple[PlanReason, ...]]) -> dict[str, list[dict[str, Any]]]:
    """By camera ("": the whole plan), as plain values."""
    return {key: [r.to_json() for r in several] for key, several in reasons.items()}


def reasons_in_words(reasons: Mapping[str, tuple[PlanReason, ...]]) -> dict[str, str]:
    """By camera ("": the whole plan), as files and the journal have them."""
    return {key: "; ".join(r.words() for r in several) for key, several in reasons.items()}


def reasons_from_json(plan: Mapping[str, Any]) -> dict[str, tuple[PlanReason, ...]]:
    """Of a plan's file: its values, or its sentences where an earlier version wrote it. Raises TypeError or KeyError
    for values that are none."""
    if "reason_values" in plan:
        return {key: tuple(PlanReason(**r) for r in several) for key, several in plan["reason_values"].items()}
    return {key: (PlanReason.recorded(text, key or None),) for key, text in plan.get("reasons", {}).items()}


def _retrainings(numbers: Mapping[str, float]) -> str:
    count = round(numbers["retrainings"])
    return "1 retraining" if count == 1 else f"{count} retrainings"


def _percent(part: float) -> str:
    return f"{100 * part:.3g} %"
