"""Why a served model does not do more: values, put into words once."""

from __future__ import annotations

from typing import get_args

import pytest

from edge.core.application_sources import SOURCE_FAULTS, SourceFault
from edge.core.model_reasons import ModelReason
from edge.core.serving_reasons import Refusal, RefusalCode, ServingReason


@pytest.mark.parametrize("code", get_args(RefusalCode))
def test_a_refusal_keeps_its_code_and_words(code: RefusalCode) -> None:
    refusal = Refusal(code, "plates", 30.0, 50.0, 0.2, said="too slow")
    reason = ModelReason.of_refusal(refusal)
    assert (reason.code, reason.words()) == (code, refusal.words())
    # Only one that does not fit was measured against a rate.
    assert dict(reason.numbers) == ({"rate": 30.0, "slo_ms": 50.0, "share": 0.2} if code == "no_room" else {})


@pytest.mark.parametrize("code", get_args(SourceFault))
def test_a_source_that_gives_nothing(code: SourceFault) -> None:
    assert ModelReason(code).words() == SOURCE_FAULTS[code]


def test_an_offer_that_is_not_what_was_asked() -> None:
    assert ModelReason("failed", "no tensors").words() == "no tensors"
    assert ModelReason("not_measurable", "no worker").words() == "it could not be measured: no worker"
    little = ModelReason("little_share", numbers={"share": 0.04})
    assert little.to_json() == {
        "code": "little_share", "numbers": {"share": 0.04},
        "message": "only 4 % of the device are free: too little to measure it",
    }  # fmt: skip
    unlike = tuple(ServingReason("unlike", "large", "door", "read", other) for other in ("b", "c"))
    found = ModelReason.of_alternatives(unlike)
    assert found is not None
    assert found.words() == "; ".join(u.words() for u in unlike)
    assert ModelReason.of_alternatives(()) is None
