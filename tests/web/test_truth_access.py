"""The rights to ask, answer and carry labels out: with the real records and tokens."""

from __future__ import annotations

from pathlib import Path

import pytest
from access_kit import Accounts, browser
from appliance_double import DictAppliance

from web.app import create_app
from web.examples.truth import ANSWERS, LABEL_FILE

V1 = "/cameras"


@pytest.mark.parametrize(
    ("method", "path", "body", "viewer"),
    [("GET", "", None, 200), ("GET", "/questions", None, 403), ("GET", "/pictures/3/1834.jpg", None, 200),
     ("POST", "/answers", ANSWERS, 403), ("GET", "/export", None, 200), ("POST", "/import", LABEL_FILE, 403)],
)  # fmt: skip
async def test_operators_answer_about_their_cameras_only_and_it_is_recorded(
    tmp_path: Path, sqlite_template: Path, method: str, path: str, body: object, viewer: int
) -> None:
    accounts = Accounts(tmp_path, sqlite_template)
    service = DictAppliance(("north", "south"))
    async with browser(create_app(service, tmp_path, accounts.access)) as client:

        async def ask(camera: str, headers: dict[str, str]) -> int:
            answer = await client.request(method, f"{V1}/{camera}/truth{path}", json=body, headers=headers)
            return answer.status_code

        operator = accounts.person("operator", {"south"})
        assert await ask("south", operator) == 200
        assert await ask("north", operator) == 404
        assert await ask("south", accounts.person("viewer")) == viewer
        assert await ask("south", {}) == 401
    with accounts.database.read() as c:
        query = "SELECT action FROM audit WHERE subject LIKE 'cameras/south/truth/%'"
        kept = c.exec_driver_sql(query).scalars().all()
    assert list(kept) == {"/answers": ["answered questions"], "/import": ["imported labels"]}.get(path, [])
