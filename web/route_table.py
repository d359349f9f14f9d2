"""All routes, found in the modules of `web.routes`: their routers, and the row of each (web.roles)."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping
from functools import cache
from types import ModuleType
from typing import Final

from fastapi import APIRouter

from web import routes
from web.rest_router import PREFIX
from web.roles import OPEN, VIEWER, Row

#: The built page, which asks for what it shows at the routes; and the description of these.
_OWN: Final[Mapping[str, Row]] = {"GET /": OPEN, "MOUNT /": OPEN, f"GET {PREFIX}/openapi.json": VIEWER}
_PARAMETER = re.compile(r"\{[^}]*\}")


def modules() -> Iterator[ModuleType]:
    """The modules of `web.routes`, by name."""
    for found in sorted(pkgutil.iter_modules(routes.__path__), key=lambda m: m.name):
        yield importlib.import_module(f"{routes.__name__}.{found.name}")


def routers() -> Iterator[APIRouter]:
    """The routers of all modules: `router`, and `probes` where a module has it."""
    for module in modules():
        yield from (getattr(module, name) for name in ("router", "probes") if hasattr(module, name))


def _key(method: str, template: str) -> str:
    # The name of a parameter is the route's own business.
    return f"{'GET' if method == 'HEAD' else method} {_PARAMETER.sub('{}', template)}"


def rows() -> Mapping[str, Row]:
    """Method and path -> its row. Raises ValueError for a route that two modules declare."""
    table = dict(_OWN)
    for module in modules():
        mine = {route.replace(" ", f" {PREFIX}", 1): row for route, row in getattr(module, "ROLES", {}).items()}
        mine |= getattr(module, "ROOT_ROLES", {})
        if twice := sorted(mine.keys() & table.keys()):
            raise ValueError(f"{module.__name__}: {', '.join(twice)} is declared by another module, too")
        table |= mine
    return table


@cache
def by_key() -> Mapping[str, Row]:
    """`rows`, where parameters have no names; made once."""
    return {_key(*route.split(" ")): row for route, row in rows().items()}


def row_of(method: str, template: str) -> Row | None:
    """The row of a route ("GET", "/api/v1/cameras/{camera}"); None: it has none, and no user may use it. HEAD is as
    GET; how a parameter is called does not matter."""
    return by_key().get(_key(method, template))
