"""Why a served model or application does not do more, as a value. No code parses its sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from edge.core.application_sources import SOURCE_FAULTS, SourceFault
from edge.core.serving_reasons import Refusal, RefusalCode, ServingReason, in_words

#: "failed": its files cannot be served; "little_share": too little of the device is free to measure it;
#: "not_measurable": measuring failed; "unlike": alternatives of an application's stages have other tensors.
OfferReasonCode = Literal["failed", "little_share", "not_measurable", "unlike"]
ModelReasonCode: TypeAlias = Literal[OfferReasonCode, RefusalCode, SourceFault]


@dataclass(frozen=True)
class ModelReason:
    """`said`: the error of "failed" and "not_measurable". `numbers`: of "little_share" the free part `share` of the
    device; of a refusal its `rate` per second, `slo_ms` and `share`. `refusal` and `unlike`: the planner's own."""

    code: ModelReasonCode
    said: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)
    refusal: Refusal | None = None
    unlike: tuple[ServingReason, ...] = ()

    @classmethod
    def of_refusal(cls, refusal: Refusal) -> ModelReason:
        """The plan has no place for it."""
        numbers = {"rate": refusal.rate, "slo_ms": refusal.slo_ms, "share": refusal.share}
        return cls(refusal.code, refusal.said, numbers if refusal.code == "no_room" else {}, refusal)

    @classmethod
    def of_alternatives(cls, unlike: tuple[ServingReason, ...]) -> ModelReason | None:
        """These alternatives answer nothing; None where there are none."""
        return cls("unlike", unlike=unlike) if unlike else None

    def to_json(self) -> dict[str, Any]:
        """As REST gives it."""
        return {"code": self.code, "numbers": dict(self.numbers), "message": self.words()}

    def words(self) -> str:
        """The reason as a sentence without a full stop."""
        if self.refusal is not None:
            return self.refusal.words()
        if self.code == "unlike":
            return in_words(self.unlike)
        if self.code == "little_share":
            return f"only {100 * self.numbers['share']:.0f} % of the device are free: too little to measure it"
        if self.code == "not_measurable":
            return f"it could not be measured: {self.said}"
        return self.said if self.code == "failed" else _SOURCES[self.code]


_SOURCES: Mapping[ModelReasonCode, str] = dict(SOURCE_FAULTS.items())
