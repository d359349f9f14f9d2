"""The pictures of the dashboard in docs/images: of which pages, in which looks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

#: Widths of the browser in pixels: a screen, and a telephone.
SCREEN, TELEPHONE = 1440, 390
Scheme = Literal["light", "dark"]
Look = tuple[int, Scheme]
EVERY_LOOK: Final[tuple[Look, ...]] = ((SCREEN, "light"), (TELEPHONE, "light"), (SCREEN, "dark"), (TELEPHONE, "dark"))


@dataclass(frozen=True)
class PagePicture:
    """One page. `route` may name `{window}`, the last window that is measured; `dark`: it has a picture in the dark,
    too; `fleet`: it is taken when the box is in a fleet; `login`: of a user who is logged in."""

    name: str
    route: str
    dark: bool = False
    fleet: bool = False
    login: bool = True

    @property
    def looks(self) -> tuple[Look, ...]:
        """The looks that docs/images has."""
        return EVERY_LOOK[:3] if self.dark else EVERY_LOOK[:2]

    def file(self, look: Look) -> str:
        """The name of the picture's file."""
        width, scheme = look
        return self.name + ("-dark" if scheme == "dark" else "") + ("-390" if width == TELEPHONE else "") + ".png"


PICTURES: Final = (
    PagePicture("wall", "#/wall", dark=True),
    PagePicture("camera", "#/camera/overpass", dark=True),
    PagePicture("find", "#/find"),
    PagePicture("day", "#/day/overpass", dark=True),
    PagePicture("counts", "#/counts/overpass", dark=True),
    PagePicture("windows", "#/windows"),
    PagePicture("window", "#/windows/{window}", dark=True),
    PagePicture("capacity", "#/capacity"),
    PagePicture("serving", "#/serving", dark=True),
    PagePicture("tenants", "#/tenants", dark=True),
    PagePicture("tenant", "#/tenants/entrance"),
    PagePicture("fleet", "#/fleet", fleet=True),
    PagePicture("fleet-wall", "#/fleet/wall", fleet=True),
    PagePicture("system", "#/system"),
    PagePicture("clips", "#/system/clips"),
    PagePicture("settings-cameras", "#/settings/cameras"),
    PagePicture("settings-zones", "#/settings/cameras/overpass/zones"),
    PagePicture("settings-lines", "#/settings/cameras/overpass/lines"),
    PagePicture("settings-retraining", "#/settings/retraining"),
    PagePicture("settings-rules", "#/settings/rules"),
    PagePicture("settings-users", "#/settings/users"),
    PagePicture("settings-outputs", "#/settings/outputs"),
    PagePicture("settings-secrets", "#/settings/secrets"),
    PagePicture("settings-audit", "#/settings/audit"),
    PagePicture("login", "#/login", dark=True, login=False),
)


def files() -> frozenset[str]:
    """The names of all pictures."""
    return frozenset(picture.file(look) for picture in PICTURES for look in picture.looks)
