"""Why a serving plan was made and is as it is, and why models are not served, as values. No code parses their
sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

#: Why a plan was made. Of all models: "models_changed", "measured" (latencies), "settings", "capacity", "budgets" (of
#: tenants), "retried" (one that failed), "wasted" (shares). "source_rate": a camera asks `application` at another rate;
#: "more", "fewer": requests of `model`; "missed": its objective; "given_up": `executor`. "stage_late": `stage` left its
#: budget, so `model` is planned as slower; "stage_in_time": as measured again (all models, where it names none).
ServingCauseCode = Literal[
    "models_changed",
    "measured",
    "settings",
    "capacity",
    "budgets",
    "retried",
    "wasted",
    "source_rate",
    "more",
    "fewer",
    "missed",
    "given_up",
    "stage_late",
    "stage_in_time",
]
#: Changes by the plan. "answers": `model` answers `stage` from now on; "two_queues", "one_queue": of `model`.
#: Why objectives are split so: "split": the share beside the even split's; "budget": a stage's. "less_accurate":
#: `model` answers `stage` instead of `other`. "unlike": `other` has other tensors than `model` and answers nothing.
#: "scarce": not all fits; "unreachable": nothing answers `application` in time; "search": for the split.
ServingReasonCode = Literal[
    ServingCauseCode,
    "answers",
    "two_queues",
    "one_queue",
    "split",
    "budget",
    "less_accurate",
    "unlike",
    "scarce",
    "unreachable",
    "search",
]

_FIXED: Mapping[str, str] = {
    "models_changed": "the models to serve changed",
    "measured": "latencies were measured",
    "settings": "the settings changed",
    "capacity": "the share left to models changed",
    "budgets": "the tenants' budgets moved",
    "retried": "a model that failed is tried again",
    "wasted": "shares are wasted",
}


@dataclass(frozen=True)
class ServingReason:
    """One reason. `numbers` by code: "source_rate", "more", "fewer": `before`, `now` per second; "missed": `part` of
    the requests; "stage_late": `ratio` of its budget, `factor` of the measured time; "two_queues", "split": `share` and
    `other_share` in devices (of one queue, of the even split; none where that does not fit); "budget": `ms`, `even_ms`;
    "less_accurate": `accuracy`, `other_accuracy`, and `holds` (1: with the less accurate one every objective holds);
    "scarce": the least `part` of its rate that a model is served at, `other_part` with the even split; "unreachable":
    `ms` of the objective, `least_ms`; "search": `steps`, at `most`, `complete` (0: it was cut short)."""

    code: ServingReasonCode
    model: str = ""
    application: str = ""
    stage: str = ""
    other: str = ""
    executor: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As the journal keeps it."""
        return {key: value for key, value in asdict(self).items() if value or key == "code"}

    def words(self) -> str:
        """The reason as a sentence without a full stop."""
        if self.code in _FIXED:
            return _FIXED[self.code]
        return _WORDS[self.code](self)


def _rates(reason: ServingReason, name: str) -> str:
    return f"{name} {reason.numbers['before']:.4g} -> {reason.numbers['now']:.4g}/s"


def _stage_late(reason: ServingReason) -> str:
    n = reason.numbers
    return (
        f"{reason.application}, {reason.stage}: the slowest of a hundred answers take {n['ratio']:.2f} times the "
        f"budget; {reason.model} is planned {n['factor']:.2f} times as slow as measured"
    )


def _less_accurate(reason: ServingReason) -> str:
    n = reason.numbers
    why = "with that not every objective holds" if n["holds"] else "not every objective holds with either"
    return (
        f"{reason.application}, {reason.stage}: {reason.model} answers (accuracy {n['accuracy']:g}) "
        f"instead of {reason.other} ({n['other_accuracy']:g}): {why}"
    )


def _other_share(reason: ServingReason) -> str:
    other = reason.numbers.get("other_share")
    return "more than fits" if other is None else f"{100 * other:.0f} %"


def _search(reason: ServingReason) -> str:
    n = reason.numbers
    cut = "" if n["complete"] else "; it was cut short, and this is the best that was found"
    return f"the search for the split took {n['steps']:,.0f} of {n['most']:,.0f} steps{cut}"


_Words = Callable[[ServingReason], str]
_WORDS: Mapping[str, _Words] = {
    "source_rate": lambda r: _rates(r, r.application),
    "more": lambda r: _rates(r, r.model),
    "fewer": lambda r: _rates(r, r.model),
    "missed": lambda r: f"{r.model} {100 * r.numbers['part']:.1f} %",
    "given_up": lambda r: f"{r.executor} was given up",
    "stage_late": _stage_late,
    "stage_in_time": lambda r: (
        f"{r.model} keeps its budgets again: it is planned as measured"
        if r.model
        else "stages keep their budgets again"
    ),
    "answers": lambda r: f"{r.application}, {r.stage}: {r.model} answers from now on",
    "two_queues": lambda r: (
        f"{r.model} has two queues: the plan takes {100 * r.numbers['share']:.0f} % of the device, with one "
        + _other_share(r)
    ),
    "one_queue": lambda r: f"{r.model} has one queue from now on",
    "split": lambda r: f"{100 * r.numbers['share']:.0f} % of the device; the even split takes {_other_share(r)}",
    "budget": lambda r: (
        f"{r.application}, {r.stage}: {r.numbers['ms']:.1f} ms for {r.model}, {r.numbers['even_ms']:.1f} ms in the "
        "even split"
    ),
    "less_accurate": _less_accurate,
    "scarce": lambda r: (
        f"not all fits: each model is served at {100 * r.numbers['part']:.0f} % of its rate or more, with the even "
        f"split at {100 * r.numbers['other_part']:.0f} %"
    ),
    "unreachable": lambda r: (
        f"{r.application}: nothing here answers within {r.numbers['ms']:g} ms: the fastest way takes "
        f"{r.numbers['least_ms']:.1f} ms"
    ),
    "search": _search,
    "unlike": lambda r: f"stage {r.stage}: {r.other} has other inputs or outputs than {r.model}",
}
#: The words before several reasons of one code.
_TOGETHER: Mapping[str, tuple[str, str]] = {
    "source_rate": ("cameras answer at other rates: ", "; "),
    "more": ("more requests: ", ", "),
    "fewer": ("fewer requests: ", ", "),
    "missed": ("objectives missed: ", ", "),
}


def in_words(reasons: Iterable[ServingReason]) -> str:
    """Reasons as one sentence; those of one code that follow each other are joined."""
    runs: list[list[ServingReason]] = []
    for reason in reasons:
        if runs and runs[-1][0].code == reason.code:
            runs[-1].append(reason)
        else:
            runs.append([reason])
    return "; ".join(_run(run) for run in runs)


def _run(reasons: list[ServingReason]) -> str:
    before, between = _TOGETHER.get(reasons[0].code, ("", "; "))
    return before + between.join(r.words() for r in reasons)


RefusalCode = Literal["not_measured", "no_room", "failing"]


@dataclass(frozen=True)
class Refusal:
    """Why `model` is not served. "not_measured": its latencies on this device are not known; "no_room": `rate` requests
    per second within `slo_ms` do not fit into the part `share` of the device (`beside`: not beside the models that come
    first), `said` by the policy; "failing": its executors ended, with the error `said`."""

    code: RefusalCode
    model: str
    rate: float = 0.0
    slo_ms: float = 0.0
    share: float = 0.0
    beside: bool = False
    said: str = ""

    def words(self) -> str:
        """The refusal as a sentence without a full stop."""
        if self.code == "not_measured":
            return f"{self.model}: its latencies on this device are not measured yet"
        if self.code == "failing":
            return f"{self.model}: {self.said}"
        beside = " beside the models that come first" if self.beside else ""
        return (
            f"{self.model}: {self.rate:g} requests/s within {self.slo_ms:g} ms do not fit{beside} into "
            f"{100 * self.share:.0f} % of the device" + (f" ({self.said})" if self.said else "")
        )
