"""Requests made up from the OpenAPI document: whatever comes, the appliance never answers with a fault of its own."""

from __future__ import annotations

from pathlib import Path

import schemathesis
from appliance_double import DictAppliance
from hypothesis import HealthCheck, Phase, settings

from web.app import create_app

#: Streams never end; their parameters are tested by hand.
schema = schemathesis.openapi.from_asgi(
    "/api/v1/openapi.json", create_app(DictAppliance(), static=Path("there is no built page here"))
).exclude(path_regex=r"stream(\.mjpeg)?$")


@schema.parametrize()
@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_never_a_fault(case: schemathesis.Case) -> None:
    response = case.call()
    assert response.status_code < 500, response.text
    if response.status_code >= 400:
        error = response.json()["error"]
        assert error["code"]
        assert error["message"]
