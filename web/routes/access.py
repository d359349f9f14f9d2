"""Logging in and out, users, API tokens, sessions, secrets, and the record of changes."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

from fastapi import Depends, Path, Query, Request, Response

from edge.access.access import Access
from edge.access.credentials import csrf_token
from edge.access.logins import LoggedIn
from edge.appliance.answers.access import (
    AuditAnswer,
    LoggedInAnswer,
    Me,
    NewTokenAnswer,
    SecretAnswer,
    SessionAnswer,
    SetupAnswer,
    TokenAnswer,
    UserAnswer,
)
from edge.appliance.answers.read import read
from edge.core.errors import NotFound
from web.access_bodies import (
    Login,
    LoginLink,
    NewToken,
    NewUser,
    OwnPassword,
    SecretValue,
    Setup,
    UserPatch,
    parse_private,
)
from web.auth import session_cookie
from web.examples import access as examples
from web.parts import Body, Caller, Service, Who, example, takes, visit_of
from web.rest_router import rest_router
from web.roles import EVERY_ADMIN, OPEN, VIEWER, WAY_IN, Row

router = rest_router("access")
ROLES: Final = {
    "POST /login": OPEN,
    "POST /login/link": OPEN,
    "GET /setup": Row(None, before_change=True),
    "POST /setup": OPEN,
    "POST /logout": WAY_IN,
    "GET /me": WAY_IN,
    "POST /me/password": WAY_IN,
    "GET /users": EVERY_ADMIN,
    "POST /users": EVERY_ADMIN,
    "PATCH /users/{name}": EVERY_ADMIN,
    "DELETE /users/{name}": EVERY_ADMIN,
    "GET /tokens": VIEWER,  # one's own; an admin's: all
    "POST /tokens": VIEWER,
    "DELETE /tokens/{token}": VIEWER,
    "GET /sessions": VIEWER,
    "DELETE /sessions/{session}": VIEWER,
    "GET /audit": EVERY_ADMIN,
    "GET /secrets": EVERY_ADMIN,
    "PUT /secrets/{name}": EVERY_ADMIN,
    "DELETE /secrets/{name}": EVERY_ADMIN,
}


async def _access(request: Request) -> Access:
    access: Access | None = request.app.state.access
    if access is None:
        raise NotFound("no user logs in here: web.access is off")
    return access


AccessInForce = Annotated[Access, Depends(_access)]
Name = Annotated[str, Path(max_length=63, description="name of a user", examples=["ann"])]
Id = Annotated[str, Path(max_length=64, pattern="^[0-9a-f]+$", examples=["6d1c0f6d3ad1c7b2"])]
SecretName = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$", examples=["junction"])]


def _from(request: Request) -> tuple[str, str]:
    return visit_of(request).address, request.headers.get("user-agent", "")


def _entered(request: Request, response: Response, found: LoggedIn) -> LoggedInAnswer:
    who = found.principal
    response.headers.update(_PRIVATE)
    response.set_cookie(
        session_cookie(request.headers.get("host", "")),
        found.secret,
        path="/",
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return LoggedInAnswer(
        name=who.name, role=who.role, cameras=_shown(who.cameras), tenants=_shown(who.tenants), csrf=found.csrf,
        expires_utc_s=found.expires_utc_s,
    )  # fmt: skip


def _shown(limit: frozenset[str] | None) -> tuple[str, ...] | None:
    return None if limit is None else tuple(sorted(limit))


#: No cache keeps these answers.
_PRIVATE = {"cache-control": "no-store"}


@router.post(
    "/login",
    responses=example(examples.LOGGED_IN),
    openapi_extra=takes("Login", {"name": "ann", "password": "…"}),
)
async def login(body: Body, request: Request, response: Response, access: AccessInForce) -> LoggedInAnswer:
    """Log in; the session is a cookie. Refused tries are limited by name and address: 429 says when to try again."""
    asked = parse_private(Login, body)
    return _entered(request, response, await access.logins.by_password(asked.name, asked.password, *_from(request)))


@router.post("/login/link", responses=example(examples.LOGGED_IN), openapi_extra=takes("LoginLink", {"token": "…"}))
async def login_link(body: Body, request: Request, response: Response, access: AccessInForce) -> LoggedInAnswer:
    """Log in by a one-time link."""
    asked = parse_private(LoginLink, body)
    return _entered(request, response, await access.logins.by_link(asked.token, *_from(request)))


@router.get("/setup", responses=example({"open": False, "logged_in": True}))
async def setup_open(request: Request) -> SetupAnswer:
    """Whether there is no admin yet, so that the set-up link makes the first one; and whether the caller is known."""
    access: Access | None = request.app.state.access
    is_open = access is not None and await access.logins.setup_open()
    return SetupAnswer(open=is_open, logged_in=visit_of(request).principal is not None)


@router.post(
    "/setup",
    responses=example(examples.LOGGED_IN),
    openapi_extra=takes("Setup", {"token": "…", "name": "ann", "password": "…"}),
)
async def setup(body: Body, request: Request, response: Response, access: AccessInForce) -> LoggedInAnswer:
    """Make the first admin with the link that the first start printed, and log in."""
    asked = parse_private(Setup, body)
    return _entered(
        request, response, await access.logins.by_setup_link(asked.token, asked.name, asked.password, *_from(request))
    )


@router.post("/logout", status_code=204, response_class=Response)
async def logout(request: Request, access: AccessInForce, caller: Caller, by: Who) -> Response:
    """End this session."""
    await access.sessions.logout(caller, by)
    answer = Response(status_code=204)
    name = session_cookie(request.headers.get("host", ""))
    answer.delete_cookie(name, path="/", httponly=True, samesite="strict")
    return answer


@router.get("/me", responses=example(examples.ME))
async def me(request: Request, response: Response, caller: Caller) -> Me:
    """The caller, their rights, and the CSRF token that changes need in the header x-csrf-token."""
    access: Access | None = request.app.state.access
    secret = visit_of(request).secret
    response.headers.update(_PRIVATE)
    return Me(
        name=caller.name,
        role=caller.role,
        cameras=_shown(caller.cameras),
        tenants=_shown(caller.tenants),
        kind=caller.kind,
        csrf=csrf_token(secret) if access is not None and caller.kind == "session" else None,
        expires_utc_s=caller.expires_utc_s,
        must_change=caller.must_change,
    )


@router.post(
    "/me/password",
    status_code=204,
    response_class=Response,
    openapi_extra=takes("OwnPassword", {"current": "…", "new": "…"}),
)
async def own_password(body: Body, request: Request, access: AccessInForce, caller: Caller) -> None:
    """Change one's password; one's other sessions end."""
    asked = parse_private(OwnPassword, body)
    await access.users.change_own_password(caller, asked.current, asked.new, visit_of(request).address)


@router.get("/users", responses=example([examples.USER]))
async def users(access: AccessInForce) -> list[UserAnswer]:
    """Every user."""
    return read(list[UserAnswer], await access.users.all())


@router.post(
    "/users",
    status_code=201,
    responses={201: example(examples.USER)[200]},
    openapi_extra=takes(
        "NewUser", {"name": "ann", "role": "operator", "cameras": None, "tenants": None, "password": "…"}
    ),
)
async def add_user(body: Body, access: AccessInForce, by: Who) -> UserAnswer:
    """Add a user. They must choose a password of their own before anything else (`must_change`): until then all
    other requests get 403 `password_change_needed`."""
    asked = parse_private(NewUser, body)
    return read(UserAnswer, await access.users.add(asked.model_dump(), by))


@router.patch("/users/{name}", responses=example(examples.USER), openapi_extra=takes("UserPatch", {"role": "viewer"}))
async def change_user(name: Name, body: Body, access: AccessInForce, by: Who) -> UserAnswer:
    """Change role, cameras, tenants or password, or keep a user out. In force at once, for open streams too."""
    asked = parse_private(UserPatch, body)
    given = {field: getattr(asked, field) for field in asked.model_fields_set}
    return read(UserAnswer, await access.users.change(name, given, by))


@router.delete("/users/{name}", status_code=204, response_class=Response)
async def remove_user(name: Name, access: AccessInForce, by: Who) -> None:
    """Remove a user with sessions and tokens. The last admin stays."""
    await access.users.remove(name, by)


@router.get("/tokens", responses=example([examples.TOKEN]))
async def tokens(access: AccessInForce, caller: Caller) -> list[TokenAnswer]:
    """One's API tokens; an admin's: everybody's."""
    return read(list[TokenAnswer], await access.tokens.of(caller))


@router.post(
    "/tokens",
    status_code=201,
    responses={201: example(examples.TOKEN | {"token": "mgp_…"}, "the token itself is shown only here")[200]},
    openapi_extra=takes("NewToken", {"name": "home automation", "role": "viewer", "expires_days": 365}),
)
async def add_token(body: Body, response: Response, access: AccessInForce, caller: Caller, by: Who) -> NewTokenAnswer:
    """Make an API token, to be sent as `Authorization: Bearer TOKEN`; never with more rights than who makes it."""
    asked = parse_private(NewToken, body)
    given = asked.model_dump(exclude_none=True)
    response.headers.update(_PRIVATE)
    return read(NewTokenAnswer, await access.tokens.add(caller, given, by))


@router.delete("/tokens/{token}", status_code=204, response_class=Response)
async def remove_token(token: Id, access: AccessInForce, caller: Caller, by: Who) -> None:
    """Delete a token: its clients lose access at once."""
    await access.tokens.remove(caller, token, by)


@router.get("/sessions", responses=example([examples.SESSION]))
async def sessions(access: AccessInForce, caller: Caller) -> list[SessionAnswer]:
    """One's logins in browsers; an admin's: everybody's."""
    return read(list[SessionAnswer], await access.sessions.of(caller))


@router.delete("/sessions/{session}", status_code=204, response_class=Response)
async def end_session(session: Id, access: AccessInForce, caller: Caller, by: Who) -> None:
    """End a session; its open streams end too."""
    await access.sessions.end(caller, session, by)


@router.get("/audit", responses=example([examples.AUDIT]))
async def audit(
    service: Service,
    limit: Annotated[int, Query(ge=1, le=1000, description="how many at most")] = 100,
    before: Annotated[int | None, Query(ge=1, le=2**53, description="only records with a lower id")] = None,
) -> list[AuditAnswer]:
    """The record of changes: user, time, address and value; also refused logins. Newest first."""
    return await asyncio.to_thread(service.secrets.audit, limit, before)


@router.get("/secrets", responses=example([examples.SECRET]))
async def secrets(service: Service) -> list[SecretAnswer]:
    """Names of the secrets that are kept, and what refers to them as `secret:NAME`. Values are never shown."""
    return await asyncio.to_thread(service.secrets.names)


@router.put(
    "/secrets/{name}",
    status_code=204,
    response_class=Response,
    openapi_extra=takes("SecretValue", {"value": "…"}),
)
async def put_secret(name: SecretName, body: Body, service: Service, by: Who) -> None:
    """Keep a secret, or replace it."""
    await asyncio.to_thread(service.secrets.put, name, parse_private(SecretValue, body).value, by)


@router.delete("/secrets/{name}", status_code=204, response_class=Response)
async def delete_secret(name: SecretName, service: Service, by: Who) -> None:
    """Forget a secret. 409 while something refers to it."""
    await asyncio.to_thread(service.secrets.delete, name, by)
