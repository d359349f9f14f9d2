"""The app: routes under /api/v1, health for machines, OpenAPI, and the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.responses import PlainTextResponse
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from edge.access.access import Access
from edge.appliance.service import ApplianceService
from web import bodies, errors
from web.auth import Auth
from web.errors import Json
from web.examples.errors import ERROR_SCHEMA
from web.guard import Guard
from web.hosts import Hosts
from web.parts import BODY_S, Ending
from web.rest_router import PREFIX
from web.route_table import routers, row_of

#: Where the build puts the page.
STATIC = Path(__file__).parent / "static"

_TAGS = [
    {"name": "access", "description": "Logging in, users, API tokens, sessions, secrets, the record of changes."},
    {"name": "state", "description": "The appliance now."},
    {"name": "cameras", "description": "Cameras and their settings."},
    {"name": "retraining", "description": "Settings of the retraining windows; in force from the next boundary on."},
    {"name": "windows", "description": "Plans, retrainings and measurements of windows."},
    {"name": "models", "description": "Versions of the cameras' students; model files of others."},
    {"name": "serving", "description": "Models served to clients beside the cameras, and what more would fit."},
    {"name": "tenants", "description": "Groups of served models or cameras that share the box, and how they do."},
    {"name": "fleet", "description": "The boxes that know each other, and who answers which camera."},
    {"name": "events", "description": "The journal."},
    {"name": "alarms", "description": "Rules, alarms, and the objects that were followed."},
    {"name": "clips", "description": "Video around alarms and moments that people asked for."},
    {"name": "outputs", "description": "MQTT broker, webhooks, and messages that could not be delivered."},
    {"name": "health", "description": "For supervisors and load balancers."},
]
_ABOUT = """Every error has the shape of `Error`. Unknown fields and parameters are refused. Times are UTC epoch
seconds, shares are fractions of one device, accuracies are 0-1, boxes are x1, y1, x2, y2 as fractions of the picture.
Live pictures with boxes come over the WebSocket `/api/v1/live`."""


class _Page(StaticFiles):
    """Built files. Names with a hash in them never change; the page itself is asked for anew each time."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        hashed = path.startswith("assets/") and response.status_code == 200
        response.headers["cache-control"] = "public, max-age=31536000, immutable" if hashed else "no-cache"
        return response


def create_app(
    service: ApplianceService,
    static: Path = STATIC,
    access: Access | None = None,
    hosts: Hosts | None = None,
    body_s: float = BODY_S,
) -> FastAPI:
    """The web app over `service`. `static` is the folder of the built page; without it REST works and "/" says so.

    `access` None (a site with web.access off, and tests): no user logs in, and every request is an admin's.
    `hosts`: the names under which it may be asked for; None: any. `body_s`: a body must be there within it.
    """
    app = FastAPI(
        title="Magpie",
        version=service.state.health().version,
        description=_ABOUT,
        openapi_url=f"{PREFIX}/openapi.json",
        openapi_tags=_TAGS,
        docs_url=None,  # its scripts would be loaded from elsewhere
        redoc_url=None,
        default_response_class=Json,
        redirect_slashes=False,
    )
    app.state.service = service
    app.state.closing = closing = Ending()
    app.state.access = access
    app.state.body_s = body_s
    errors.install(app)
    app.add_middleware(Auth, web=app, access=access, closing=closing, row_of=row_of)
    app.add_middleware(Guard, hosts=hosts)
    # As they are, not by include_router, which would make all of them (and the schemas of what they answer) anew.
    for router in routers():
        app.router.routes.extend(router.routes)
    if (static / "index.html").is_file():
        app.mount("/", _Page(directory=static, html=True), name="page")
    else:
        app.add_api_route("/", _no_page, include_in_schema=False, response_class=PlainTextResponse)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


async def _no_page() -> PlainTextResponse:
    text = f"Magpie is running. Its page was not built (pip install builds it); REST is at {PREFIX}/openapi.json\n"
    return PlainTextResponse(text, headers={"cache-control": "no-cache"})


def _openapi(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        schema = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            routes=app.routes,
            tags=app.openapi_tags,
        )
        known = schema.setdefault("components", {}).setdefault("schemas", {})
        known |= bodies.schemas() | {"Error": ERROR_SCHEMA}
        for path in schema["paths"].values():
            for operation in path.values():
                # FastAPI's own shape of validation errors is not what this app answers.
                operation.get("responses", {}).pop("422", None)
        for name in ("HTTPValidationError", "ValidationError"):
            known.pop(name, None)
        _put_examples(app, schema)
        app.openapi_schema = schema
    return app.openapi_schema


def _put_examples(app: FastAPI, schema: dict[str, Any]) -> None:
    """Examples of answers as they were given: FastAPI leaves out what is null, which an answer never does."""
    for context in iter_route_contexts(app.routes):
        route = context.original_route
        if not isinstance(route, APIRoute):
            continue
        operations = schema["paths"].get(context.path_format, {})
        for method in route.methods or ():
            shown = operations.get(method.lower(), {}).get("responses", {})
            for status, said in route.responses.items():
                for kind, content in said.get("content", {}).items():
                    if "example" in content and str(status) in shown:
                        shown[str(status)]["content"][kind]["example"] = content["example"]
