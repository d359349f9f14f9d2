"""Settings of a box's part in a fleet of boxes."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from edge.core.errors import InvalidValue
from edge.settings.base import FieldProblem, Fraction, Identifier, SecretReference, Settings
from edge.settings.fleet_jobs import EngineSettings, FleetJobsSettings

#: The port of a fleet's agents where an address names none.
FLEET_PORT: Final = 8470
#: A box's name is part of its certificate, so it is one label of a host name.
BoxName = Annotated[
    str,
    Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", description="small letters, digits and -, at most 63"),
]

_HOST: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|\[[0-9a-fA-F:]{2,45}\]")


def box_address(text: str) -> str:
    """An agent's address as https://HOST:PORT, the port filled in. Raises ValueError."""
    try:
        parts = urlsplit(text)
        host, _, port = parts.netloc.rpartition(":") if re.search(r":\d+$", parts.netloc) else (parts.netloc, "", "")
        known = parts.scheme == "https" and _HOST.fullmatch(host) and not (parts.path.strip("/") or parts.query)
        if known and 0 < int(port or FLEET_PORT) < 65536:
            return f"https://{host.lower()}:{int(port or FLEET_PORT)}"
    except ValueError:
        pass
    raise ValueError(f"https://HOST or https://HOST:PORT (without a port: {FLEET_PORT})")


def _address_or_none(text: str) -> str:
    return text and box_address(text)


class LendingSettings(Settings):
    """Retrainings, trials and labels that boxes of a fleet do for each other: pictures, labels and students go to
    the other box."""

    lend: bool = Field(
        False,
        description="do retrainings, trials and labels of other boxes with what this box's own plan has no use for",
    )
    borrow: bool = Field(
        False,
        description="have retrainings done by other boxes where the plan gains by it, trials where they end sooner, "
        "and labels that would be late here",
    )
    most_share: Fraction = Field(0.5, description="the most of its device that this box lends")


class FleetSettings(Settings):
    """This box as one of a fleet; the agent beside the appliance reads it."""

    name: BoxName
    role: Literal["auto", "member"] = Field("auto", description="member: it never decides for the others")
    host: str = Field(
        "0.0.0.0", min_length=1, description="address on which the agent listens, and from which it connects"
    )
    port: int = Field(FLEET_PORT, ge=1, le=65535)
    address: Annotated[str, Field(max_length=300), AfterValidator(_address_or_none)] = Field(
        "", description="https://HOST:PORT at which other boxes reach this one; empty: by the machine's name"
    )
    zones: tuple[Identifier, ...] = Field((), max_length=100, description="zones whose cameras this box reaches")
    camera_zones: dict[Identifier, Identifier] = Field(
        default_factory=dict, description="camera -> its zone; a camera not named is reached by every box"
    )
    lending: LendingSettings = LendingSettings()
    share_pictures: bool = Field(
        False,
        description="labelled pictures of this box's cameras teach students of alike cameras of other boxes that share "
        "theirs, and these those of this box: pictures, labels and students go to the other boxes",
    )
    answer: bool = Field(
        True, description="answer users of other boxes: the wall with pictures, alarms, objects, journal, audit"
    )
    page: Annotated[str, Field(max_length=300, pattern=r"^(https?://[^\s\"'<>]+)?$")] = Field(
        "", description="this box's page for people at other boxes; empty: by its address and web.port"
    )
    engine: EngineSettings = EngineSettings()
    jobs: FleetJobsSettings = FleetJobsSettings()
    token: SecretReference = Field("", description="env:NAME or file:/path with an admin's API token of this appliance")

    @model_validator(mode="after")
    def _fits(self) -> FleetSettings:
        if self.token.startswith("secret:"):
            raise FieldProblem("token", "env:NAME or file:/path: the agent is no part of the appliance")
        for camera, zone in self.camera_zones.items():
            if zone not in self.zones:
                raise FieldProblem(f"camera_zones.{camera}", f"one of this box's zones: {', '.join(self.zones) or '-'}")
        return self

    def reached_at(self, machine: str) -> str:
        """The agent's address for other boxes, on a machine of this name. Raises InvalidValue for a name that is no
        host's."""
        try:
            return self.address or box_address(f"https://{machine}:{self.port}")
        except ValueError:
            words = (
                f"https://HOST:PORT at which other boxes reach this one: the machine's name {machine!r} is no host's"
            )
            raise InvalidValue("fleet.address", self.address, words) from None
