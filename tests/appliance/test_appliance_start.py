"""A start that fails: what has begun ends in an order in which nothing acts on what is closing."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge.appliance.alarms import Alarms
from edge.appliance.appliance import Appliance
from edge.appliance.outputs import Outputs
from edge.commands.front_process import front_process
from edge.core.errors import StoreError
from edge.runtime.runtime import Runtime
from edge.settings import SiteSettings


async def test_outputs_stop_before_the_runtime_where_alarms_cannot_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A switch of MQTT may come at any time: it must find a runtime that is not closing."""
    ends: list[str] = []
    stop, close = Outputs.stop, Runtime.close

    async def stopped(self: Outputs) -> None:
        ends.append("outputs")
        await stop(self)

    async def closed(self: Runtime) -> None:
        ends.append("runtime")
        await close(self)

    async def fails(self: Alarms) -> None:
        raise StoreError("alarms cannot be read")

    monkeypatch.setattr(Outputs, "stop", stopped)
    monkeypatch.setattr(Runtime, "close", closed)
    monkeypatch.setattr(Alarms, "open", fails)
    site = SiteSettings.model_validate({"data_dir": str(tmp_path), "machine": {"share_kind": "coop"}})
    with pytest.raises(StoreError, match="alarms cannot be read"):
        await Appliance(site, front_process).open()
    assert ends.index("outputs") < ends.index("runtime")
