"""Requests made up from the OpenAPI document, by each role: never a fault of the appliance, never more than the role
may do."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Final

import pytest
import schemathesis
from access_kit import Accounts
from appliance_double import DictAppliance
from fuzz_kit import Client, ask_made_up, described, operations

from edge.core.access import ROLES, Principal, Role, allows
from web.app import create_app
from web.route_table import row_of

_FOLDER = tempfile.TemporaryDirectory(prefix="magpie-fuzz-")
_ACCOUNTS: Final = Accounts(Path(_FOLDER.name))
_APP: Final = create_app(DictAppliance(), Path("there is no built page here"), _ACCOUNTS.access)
#: Without a log-in, and then by each role.
_HEADERS: Final[dict[Role | None, dict[str, str]]] = {
    None: {},
    **{role: _ACCOUNTS.person(role, name=f"the-{role}") for role in ROLES},
}
_CLIENT: Final = Client(_APP)
#: Streams never end; their parameters are tested by hand.
schema = described(_CLIENT, _APP, "/api/v1/openapi.json", _HEADERS["admin"]).exclude(path_regex=r"stream(\.mjpeg)?$")


@pytest.mark.parametrize("operation", operations(schema), ids=" ".join)
def test_never_a_fault_and_never_more_than_the_role(operation: tuple[str, str]) -> None:
    ask_made_up(schema, operation, each_role)


def each_role(case: schemathesis.Case) -> None:
    # It also tries methods that a path does not have.
    row = row_of(case.method.upper(), case.path)
    answers = _CLIENT.each(case, list(_HEADERS.values()))
    for role, (status, body) in zip(_HEADERS, answers, strict=True):
        assert status < 500, (role, body)
        who = None if role is None else Principal("x", role, None, "token")
        if row is None:
            assert status in (401, 404, 405), (role, case.method, case.path, body)
        elif not allows(who, row.least, row.every_camera):
            wanted = 401 if role is None else 403
            assert status == wanted, (role, case.method, case.path, body)
        if status >= 400:
            error = json.loads(body)["error"]
            assert error["code"]
            assert error["message"]
