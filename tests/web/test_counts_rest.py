"""GET /cameras/ID/counts: who sees them, as JSON and as CSV, and what is refused."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import httpx
from access_kit import Accounts
from appliance_double import DictAppliance

from web.app import create_app


async def test_counts_as_json_and_as_a_table(tmp_path: Path, sqlite_template: Path) -> None:
    box, accounts = DictAppliance(), Accounts(tmp_path, sqlite_template)
    web = create_app(box, tmp_path, accounts.access)
    viewer, other = accounts.person("viewer"), accounts.person("viewer", {"south"})
    asked = "/api/v1/cameras/north/counts?from=1790000000&to=1790007200"
    async with httpx.AsyncClient(transport=httpx.ASGITransport(web), base_url="http://box") as client:
        assert (await client.get(asked)).status_code == 401
        assert (await client.get(asked, headers=other)).status_code == 404
        found = (await client.get(asked, headers=viewer)).json()
        assert found["camera"] == "north"
        assert found["totals"][0]["class"] == "car"
        compared = asked.replace("counts?", "counts/compared?")
        assert (await client.get(compared, headers=other)).status_code == 404
        beside = (await client.get(compared, headers=viewer)).json()
        assert beside["from_utc_s"] - beside["before_from_utc_s"] == 7 * 86_400
        assert (beside["compared"], beside["totals"][0]["before"]) == (0.5, 36)
        refused = await client.get(f"{compared}&before=1790000000", headers=viewer)
        assert refused.json()["error"]["problems"][0]["path"] == "before"
        report = "/api/v1/cameras/north/counts/report.html?day=2026-11-26"
        assert (await client.get(report, headers=other)).status_code == 404
        page = await client.get(report, headers=viewer)
        assert page.headers["content-type"].startswith("text/html")
        assert "attachment" in page.headers["content-disposition"]
        assert "default-src 'none'" in page.headers["content-security-policy"]
        for day in ("1970-01-01", "2026-11-31", "0"):
            refused = await client.get(report.replace("2026-11-26", day), headers=viewer)
            assert refused.json()["error"]["problems"][0]["path"].endswith("day"), day
        table = await client.get(asked.replace("counts?", "counts.csv?"), headers=viewer)
        assert table.headers["content-type"].startswith("text/csv")
        assert "north-counts-" in table.headers["content-disposition"]
        rows = list(csv.DictReader(io.StringIO(table.text)))
        assert [r["objects"] for r in rows] == ["41", ""], "what was not watched is no zero"
        assert rows[0]["low"] == "40.2"
        assert rows[1]["watched"] == "0.0"
        assert (await client.get(asked.replace("counts?", "counts.parquet?"), headers=other)).status_code == 404
        for bad, field in (
            ("from=2&to=1", "to"),
            ("from=x&to=1", "query.from"),
            ("from=1&to=2&step=week", "query.step"),
        ):
            refused = await client.get(f"/api/v1/cameras/north/counts?{bad}", headers=viewer)
            assert refused.status_code == 422, refused.text
            assert refused.json()["error"]["problems"][0]["path"] == field
