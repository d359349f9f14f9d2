"""How an answer is declared, and which of its fields a user gets who may see some of the cameras only.

A field is hidden from such a user unless it is marked here: `Shown`; `OfCamera`, the camera that the whole row is of;
`OfCameras`, several that it is of; `OfTenant`, its tenant; `ByCamera`, values by camera; `OfOwn`, shown where the row
is of a camera that the user sees. A `Message` is shown there too, and replaced where the row is of no camera; of
`EntryData` the keys are shown there that are declared so for its `EntryKind`. A `Cause` is replaced where the `About`
of its row is a camera that the user may not see, or where its `CauseCode` says that only words were kept. No text is
searched for names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, TypeVar, dataclass_transform

from pydantic import ConfigDict

T = TypeVar("T")


class Mark(Enum):
    """The part of a field that a user gets who may see some of the cameras only."""

    SHOWN = "shown"
    OF_CAMERA = "of camera"
    OF_CAMERAS = "of cameras"
    OF_TENANT = "of tenant"
    BY_CAMERA = "by camera"
    OF_OWN = "of own"
    ENTRY_KIND = "entry kind"
    ENTRY_DATA = "entry data"
    MESSAGE = "message"
    CAUSE = "cause"
    CAUSE_CODE = "cause code"
    ABOUT = "about"


Shown = Annotated[T, Mark.SHOWN]
#: The id of a camera, or None: the row is of no single camera, and everybody sees it.
OfCamera = Annotated[T, Mark.OF_CAMERA]
#: The ids of the cameras that the row is of: who may not see one of them does not get the row.
OfCameras = Annotated[T, Mark.OF_CAMERAS]
#: The id of the tenant that the row is of: who may see some tenants only, and not this one, does not get the row; None:
#: it is of no tenant, and who may see some tenants only does not get it; who may see some cameras and all tenants does.
OfTenant = Annotated[T, Mark.OF_TENANT]
ByCamera = Annotated[Mapping[str, T], Mark.BY_CAMERA]
OfOwn = Annotated[T, Mark.OF_OWN]
Message = Annotated[str, Mark.MESSAGE]
Cause = Annotated[str, Mark.CAUSE]
CauseCode = Annotated[T, Mark.CAUSE_CODE]
#: The camera that a row's cause is about; the row itself is shown.
About = Annotated[T, Mark.ABOUT]

#: A journal entry's kind and data (edge.core.journal_keys).
EntryKind = Annotated[str, Mark.ENTRY_KIND]
EntryData = Annotated[T, Mark.ENTRY_DATA]
#: x1, y1, x2, y2 as fractions of the picture.
BoxAnswer = tuple[float, float, float, float]

#: No key that is not declared; every key is there.
STRICT = ConfigDict(
    extra="forbid",
    json_schema_serialization_defaults_required=True,
)
#: Of a part of a record, which another version may have kept: keys that are not known are left out.
KEPT = ConfigDict(
    extra="ignore",
    json_schema_serialization_defaults_required=True,
    json_schema_extra={"additionalProperties": False},
)


@dataclass_transform(frozen_default=True, kw_only_default=True)
def answer(cls: type[T]) -> type[T]:
    """A frozen dataclass of keyword arguments that is read strictly (see `edge.appliance.answers.read`)."""
    cls.__pydantic_config__ = STRICT  # type: ignore[attr-defined]
    return dataclass(frozen=True, kw_only=True)(cls)


@dataclass_transform(frozen_default=True, kw_only_default=True)
def kept(cls: type[T]) -> type[T]:
    """As `answer`, of a part of a record: it is read without the keys that are not known. A field that an earlier
    version did not keep has a default, or may be null."""
    cls.__pydantic_config__ = KEPT  # type: ignore[attr-defined]
    return dataclass(frozen=True, kw_only=True)(cls)
