"""What all settings share: unknown keys fail, values do not change; names, references to secrets, spans of hours."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from edge.core.hours import SPAN_PATTERN

IDENTIFIER_PATTERN = r"^[a-z0-9][a-z0-9_-]{0,62}$"
Identifier = Annotated[str, Field(pattern=IDENTIFIER_PATTERN, description="lower-case name")]


class Settings(BaseModel):
    """Base: unknown keys fail, values do not change after they were checked."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True, allow_inf_nan=False)


def _reference(value: str) -> str:
    if value and not re.fullmatch(r"env:[A-Za-z_][A-Za-z0-9_]*|file:.+|secret:[A-Za-z0-9][A-Za-z0-9_.-]*", value):
        raise ValueError("env:NAME, file:/path[#key] or secret:NAME")
    return value


SecretReference = Annotated[str, Field(max_length=1000), AfterValidator(_reference)]


Fraction = Annotated[float, Field(ge=0, le=1)]


QuietHours = tuple[Annotated[str, Field(pattern=SPAN_PATTERN)], ...]
