"""Requests made up from the protocol's OpenAPI document: whatever comes, it is never answered with a fault."""

from __future__ import annotations

import jsonschema
import pytest
import schemathesis
from fuzz_kit import BASE, Client, ask_made_up, described, operations
from oip_double import NumpyService

from web.oip.app import create_oip_app

_APP = create_oip_app(NumpyService())
_CLIENT = Client(_APP)
schema = described(_CLIENT, _APP, "/v2/openapi.json")


@pytest.mark.parametrize("operation", operations(schema), ids=" ".join)
def test_never_a_fault(operation: tuple[str, str]) -> None:
    ask_made_up(schema, operation, no_fault)


def no_fault(case: schemathesis.Case) -> None:
    if case.path_parameters and case.method == "GET":
        case.path_parameters["model"] = "echo_fp32"  # one that is there, to get past its name
    response = case.call(BASE, session=_CLIENT.session)
    assert response.status_code < 500, response.text
    if response.status_code >= 400 and not case.path.endswith("/ready"):
        assert isinstance(response.json()["error"], str)
    if response.status_code == 200 and response.headers["content-type"] == "application/json":
        case.validate_response(response)


def test_the_description_is_openapi() -> None:
    jsonschema.Draft202012Validator.check_schema({"$defs": schema.raw_schema["components"]["schemas"]})
    assert {"/v2/models/{model}/infer", "/v2/repository/index"} <= set(schema.raw_schema["paths"])
