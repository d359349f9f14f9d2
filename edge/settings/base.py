"""The base of all settings: unknown keys fail, values do not change; names, references to secrets, spans of hours."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from edge.core.checks import plain_text
from edge.core.errors import InvalidValue
from edge.core.hours import SPAN_PATTERN

IDENTIFIER_PATTERN = r"^[a-z0-9][a-z0-9_-]{0,62}$"
Identifier = Annotated[str, Field(pattern=IDENTIFIER_PATTERN, description="lower-case name")]


class FieldProblem(ValueError):
    """Of fields that do not fit together: the one at `path`, in the model that is checked, should be as `allowed`
    says."""

    def __init__(self, path: str, allowed: str) -> None:
        super().__init__(f"{path}: {allowed}")
        self.path, self.allowed = path, allowed


class Settings(BaseModel):
    """Base: unknown keys fail, values do not change after they were checked, texts hold no hidden characters (but those
    of the fields in `any_text`: passwords, contents of files)."""

    any_text: ClassVar[frozenset[str]] = frozenset()
    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True, allow_inf_nan=False)

    @classmethod
    def place_written(cls, value: Any, place: tuple[int | str, ...]) -> tuple[int | str, ...]:
        """Where `value`, as it was written, has the field at `place`."""
        return place

    @field_validator("*")
    @classmethod
    def _plain(cls, value: Any, info: ValidationInfo) -> Any:
        if info.field_name in cls.any_text:
            return value
        try:
            plain_text("", value)
        except InvalidValue as error:
            where = f"{error.path}: {error.given}" if error.path else error.given
            raise ValueError(f"{error.allowed} (here: {where})") from None
        return value


def _reference(value: str) -> str:
    if value and not re.fullmatch(r"env:[A-Za-z_][A-Za-z0-9_]*|file:.+|secret:[A-Za-z0-9][A-Za-z0-9_.-]*", value):
        raise ValueError("env:NAME, file:/path[#key] or secret:NAME")
    return value


SecretReference = Annotated[str, Field(max_length=1000), AfterValidator(_reference)]


Fraction = Annotated[float, Field(ge=0, le=1)]


QuietHours = tuple[Annotated[str, Field(pattern=SPAN_PATTERN)], ...]
