"""Roles, cameras and names: properties of the values that decide who may do what."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.core.access import (
    ROLES,
    Principal,
    Requester,
    Role,
    allows,
    at_least,
    camera_limit,
    checked_password,
    label,
    narrowed,
    user_name,
)
from edge.core.errors import InvalidValue

CAMERAS = ("north", "south", "east", "west")
roles = st.sampled_from(ROLES)
limits = st.none() | st.frozensets(st.sampled_from(CAMERAS))
principals = st.builds(Principal, st.just("ann"), roles, limits)


@given(roles, roles, limits, roles, st.booleans())
def test_a_lower_role_never_may_more(
    lower: Role, higher: Role, cameras: frozenset[str] | None, least: Role, all_: bool
) -> None:
    if at_least(higher, lower) and allows(Principal("a", lower, cameras), least, all_):
        assert allows(Principal("a", higher, cameras), least, all_)


@given(principals, roles)
def test_what_needs_no_role_is_open_and_the_rest_is_not(principal: Principal, least: Role) -> None:
    assert allows(None, None)
    assert allows(principal, None)
    assert not allows(None, least)
    assert allows(principal, least) == at_least(principal.role, least)


@given(principals, roles)
def test_some_cameras_are_not_every_camera(principal: Principal, least: Role) -> None:
    if principal.cameras is not None:
        assert not allows(principal, least, every_camera=True)
        assert {c for c in CAMERAS if principal.may_see(c)} == set(principal.cameras)
    else:
        assert all(principal.may_see(c) for c in CAMERAS)
    assert principal.may_see(None)
    assert principal.visible(CAMERAS) == tuple(c for c in CAMERAS if principal.may_see(c))


@given(roles, limits, roles, limits)
def test_a_token_may_what_both_may(
    a: Role, seen_a: frozenset[str] | None, b: Role, seen_b: frozenset[str] | None
) -> None:
    role, cameras = narrowed(a, seen_a, b, seen_b)
    made, one, other = Principal("x", role, cameras), Principal("x", a, seen_a), Principal("x", b, seen_b)
    for least in ROLES:
        assert made.may(least) == (one.may(least) and other.may(least))
    for camera in CAMERAS:
        assert made.may_see(camera) == (one.may_see(camera) and other.may_see(camera))
    assert made.sees_all == (one.sees_all and other.sees_all)
    assert narrowed(a, seen_a, role, cameras) == (role, cameras)


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(InvalidValue):
        Principal("x", "root")  # type: ignore[arg-type]


@given(st.text(max_size=80))
def test_a_name_is_kept_in_one_form_or_refused(text: str) -> None:
    try:
        name = user_name("name", text)
    except InvalidValue:
        return
    assert user_name("name", name) == name == user_name("name", name.upper())
    assert not set(name) & set("/\\<>\"' \n\x00")


@pytest.mark.parametrize("given_", [None, 3, "", " ", "-x", "a b", "a/b", "<b>", "ann\n", "x" * 64, "ünal"])
def test_names_that_are_none(given_: object) -> None:
    if given_ == "ann\n":
        assert user_name("name", given_) == "ann"  # as a line that was typed
        return
    with pytest.raises(InvalidValue):
        user_name("name", given_)


@pytest.mark.parametrize(
    "password",
    ["", "short", "a" * 300, "aaaaaaaaaaaa", "ababababab", "password123", "P@ssw0rd!!", "1234567890", "qwertyuiop",
     "evelyn1234", "EVELYNevelyn", "administrator1", "letmein2026", "line\nbreak1234", "half\ud800surrogate",
     None, 1234567890],
)  # fmt: skip
def test_passwords_that_would_be_guessed(password: object) -> None:
    with pytest.raises(InvalidValue) as refused:
        checked_password("password", password, "evelyn")
    assert refused.value.given == "(not shown)"


@pytest.mark.parametrize(
    "password", ["7 herons by the weir", "correct horse battery", "Übermut-tut-gut", "xk29-vv41-qz"]
)
def test_passwords_that_are_good(password: str) -> None:
    assert checked_password("password", password, "evelyn") == password


@given(st.text(max_size=40), st.sampled_from(["ann", "evelyn", "ann@site.example"]))
def test_a_password_is_taken_as_it_is_or_refused(password: str, name: str) -> None:
    try:
        taken = checked_password("password", password, name)
    except InvalidValue:
        return
    assert taken == password
    assert 10 <= len(password) <= 256
    assert not password.casefold().startswith(name) or len(password) >= len(name) + 6


@pytest.mark.parametrize("given_", ["north", [1], ["North"], ["../x"], {"a": 1}, ["a"] * 1001, 3])
def test_camera_limits_that_are_none(given_: object) -> None:
    with pytest.raises(InvalidValue):
        camera_limit("cameras", given_)


def test_camera_limits() -> None:
    assert camera_limit("cameras", None) is None
    assert camera_limit("cameras", []) == frozenset()
    assert camera_limit("cameras", ["a", "b", "a"]) == {"a", "b"}
    assert label("name", " wall display ") == "wall display"
    with pytest.raises(InvalidValue):
        label("name", "two\nlines")


def test_who_asked_is_a_name_that_knows_its_address() -> None:
    requester = Requester("ann", "192.0.2.7")
    assert requester == "ann"
    assert requester.address == "192.0.2.7"
