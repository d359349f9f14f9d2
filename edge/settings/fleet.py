"""Settings of a box's part in a fleet of boxes."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from edge.core.engine import EngineKind, EngineMode
from edge.core.fleet import BOX_LABEL, FleetTenant
from edge.settings.base import FieldProblem, Fraction, Identifier, QuietHours, SecretReference, Settings

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


BoxAddress = Annotated[str, Field(max_length=300), AfterValidator(box_address)]


class LendSettings(Settings):
    """The part of a box that works for others."""

    share: Fraction = Field(0.0, description="of the device, for jobs of other boxes")
    hours: QuietHours = Field((), description="only then, e.g. 22:00-05:30; empty: always")


class FleetTenantSettings(Settings):
    """A tenant of the fleet's lent work."""

    weight: float = Field(1.0, gt=0, le=1e9, description="counts among the tenants of one parent")
    parent: Identifier | None = None


class FleetSettings(Settings):
    """This box as one of a fleet; the agent beside the appliance reads it."""

    name: BoxName
    role: Literal["auto", "head", "member"] = Field(
        "auto", description="head: it founds the fleet; member: it never decides for others; auto: as it joined"
    )
    host: str = Field("0.0.0.0", min_length=1, description="where the agent listens; others need a key to be heard")
    port: int = Field(FLEET_PORT, ge=0, le=65535)
    address: Annotated[str, Field(max_length=300), AfterValidator(_address_or_none)] = Field(
        "", description="https://HOST:PORT at which other boxes reach this one; empty: by the machine's name"
    )
    head: tuple[BoxAddress, ...] = Field(
        (), max_length=16, description="addresses of the boxes that may decide, the first one first"
    )
    engine: EngineKind = Field("local", description="runs lent work")
    mode: EngineMode = Field("pinned", description="pinned: the fleet's own matcher keeps the amounts")
    zones: tuple[Identifier, ...] = Field((), max_length=100, description="zones whose cameras this box reaches")
    labels: dict[Identifier, Identifier] = Field(default_factory=dict, description="e.g. rack: r1; kept apart by them")
    camera_zones: dict[Identifier, Identifier] = Field(
        default_factory=dict, description="camera -> its zone; a camera not named is reached by every box"
    )
    lend: LendSettings = LendSettings()
    tenants: dict[Identifier, FleetTenantSettings] = Field(default_factory=dict)
    token: SecretReference = Field(
        "",
        description="env:NAME or file:/path with an admin's API token of this appliance",
    )

    @model_validator(mode="after")
    def _fits(self) -> FleetSettings:
        if self.token.startswith("secret:"):
            raise FieldProblem("token", "env:NAME or file:/path: the agent is no part of the appliance")
        if len(set(self.head)) != len(self.head):
            raise FieldProblem("head", "each address once")
        if BOX_LABEL in self.labels:
            raise FieldProblem(f"labels.{BOX_LABEL}", "another label: every box is its own box")
        if self.role == "member" and self.address and self.address in self.head:
            raise FieldProblem("role", "auto or head, as head names this box's address")
        for name, tenant in self.tenants.items():
            seen, parent = [name], tenant.parent
            while parent is not None:
                if parent not in self.tenants:
                    raise FieldProblem(f"tenants.{seen[-1]}.parent", f"one of {', '.join(sorted(self.tenants))}")
                if parent in seen:
                    raise FieldProblem(f"tenants.{name}.parent", f"no circle: {' -> '.join([*seen, parent])}")
                seen.append(parent)
                parent = self.tenants[parent].parent
        return self

    def fleet_tenants(self) -> tuple[FleetTenant, ...]:
        """As the fleet's controller takes them."""
        return tuple(FleetTenant(name, t.weight, t.parent) for name, t in self.tenants.items())
