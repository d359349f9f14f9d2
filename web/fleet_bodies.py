"""Bodies of the fleet's routes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, TypeAdapter, model_validator

from edge.core.access import MAX_CAMERAS, Role
from edge.core.fleet_links import HOURS, MOST_HOURS, FleetOrder, FleetOrderKind
from edge.core.fleet_questions import MOST_ROWS, BoxQuestion, FleetQuestionKind
from edge.settings import Identifier, Settings
from edge.settings.base import FieldProblem

_NAME = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
_MAYBE_ID = r"^([a-z0-9][a-z0-9_-]{0,62})?$"


class FleetOrderBody(Settings):
    """An order to the fleet."""

    kind: Literal["move", "drain", "undrain", "revoke", "invite"]
    box: str = Field("", max_length=63, pattern=r"^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)?$", description="not of invite")
    camera: str = Field("", max_length=63, pattern=_MAYBE_ID, description="of move")
    hours: float = Field(HOURS, gt=0, le=MOST_HOURS, description="of invite: the code is good for so long")

    @model_validator(mode="after")
    def _fits(self) -> FleetOrderBody:
        if self.kind != "invite" and not self.box:
            raise FieldProblem("box", "the name of a box of the fleet")
        if self.kind == "move" and not self.camera:
            raise FieldProblem("camera", "the id of the camera that moves")
        return self

    def order(self) -> FleetOrder:
        """As the fleet takes it."""
        camera = self.camera if self.kind == "move" else ""
        return FleetOrder(self.kind, self.box, camera, hours=self.hours)


class FleetRecord(Settings):
    """An order that was carried out, as this box's agent reports it."""

    kind: FleetOrderKind
    box: str = Field(max_length=63, pattern=_NAME)
    camera: str = Field("", max_length=63, pattern=_MAYBE_ID)
    by: str = Field("", max_length=100, description="the user who gave it by REST; empty: the command")
    given_on: str = Field(max_length=63, pattern=_NAME, description="the box where it was given")

    def order(self) -> FleetOrder:
        """The order."""
        return FleetOrder(self.kind, self.box, self.camera, self.by)


class FleetUserBody(Settings):
    """The user of another box who asks."""

    name: str = Field(max_length=200)
    role: Role
    cameras: tuple[Identifier, ...] | None = Field(None, max_length=MAX_CAMERAS, description="null: all cameras")
    tenants: tuple[Identifier, ...] | None = Field(None, max_length=MAX_CAMERAS, description="null: all tenants")


class FleetRows(Settings):
    """Which rows."""

    limit: int = Field(100, ge=1, le=MOST_ROWS)
    before: int | None = Field(None, ge=0, le=2**53, description="only those with a lower id")
    camera: str = Field("", pattern=_MAYBE_ID)
    rule: str = Field("", pattern=_MAYBE_ID)
    of_class: str = Field("", max_length=60)
    entry: str = Field("", pattern=r"^[a-z0-9_.-]{0,100}$", description="kind of journal entries")
    active: bool | None = None


class FleetQuestionBody(Settings):
    """A question of a user of another box, as this box's agent hands it on."""

    about: FleetQuestionKind
    asker: FleetUserBody
    rows: FleetRows = FleetRows()

    def question(self) -> BoxQuestion:
        """The question."""
        return TypeAdapter(BoxQuestion).validate_python(self.model_dump())


ALL: tuple[type[Settings], ...] = (FleetOrderBody, FleetRecord, FleetQuestionBody)
