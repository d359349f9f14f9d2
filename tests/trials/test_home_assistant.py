"""A running Home Assistant finds the appliance, shows it, switches it, and outlives its broker.

Home Assistant has an environment of its own: `MAGPIE_HOME_ASSISTANT` names its Python (a command line), see
CONTRIBUTING.md. Without one this is skipped.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from appliance_kit import cameras, site_of
from outputs_kit import Mosquitto

from benchmarks.waiting import PATIENCE_S
from edge.appliance.appliance import Appliance
from edge.commands.front_process import front_process
from edge.demo.cameras import serve_cameras
from edge.settings import OutputsSettings, RuleSettings, parse

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(480)]

SCRIPT = Path(__file__).with_name("home_assistant.py")


class HomeAssistant:
    """The other process, asked line by line."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def ask(self, **order: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        return await self.answer()

    async def answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), PATIENCE_S)
        assert line, "Home Assistant has ended"
        answer = json.loads(line)
        assert isinstance(answer, dict)
        return answer

    async def until(
        self, condition: Callable[[dict[str, str]], object], what: str, timeout_s: float = PATIENCE_S
    ) -> Any:
        """Its states as soon as the condition holds."""
        states: dict[str, str] = {}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while True:
                    states = await self.ask(order="states")
                    if condition(states):
                        return states
                    await asyncio.sleep(0.2)
        pytest.fail(f"not within {timeout_s:g} s: {what}; it has {states}")


@contextlib.asynccontextmanager
async def home_assistant(command: list[str], port: int) -> AsyncIterator[HomeAssistant]:
    process = await asyncio.create_subprocess_exec(
        *command, "-c", SCRIPT.read_text(encoding="utf-8"), str(port),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        running = HomeAssistant(process)
        assert "version" in await running.answer()
        yield running
    finally:
        process.terminate()
        await process.wait()


async def test_it_is_found_shown_switched_and_outlives_its_broker(tmp_path: Path) -> None:
    command = shlex.split(os.environ.get("MAGPIE_HOME_ASSISTANT", ""))
    if not command:
        pytest.skip("no Home Assistant here (MAGPIE_HOME_ASSISTANT names the Python of its environment)")
    data = tmp_path / "data"
    data.mkdir()
    async with contextlib.AsyncExitStack() as stack:
        port = stack.enter_context(serve_cameras(cameras(1), data))
        broker = stack.enter_context(Mosquitto(tmp_path / "broker"))
        home = await stack.enter_async_context(home_assistant(command, broker.port))
        site = site_of(port, data, count=1, window_s=60.0).model_copy(
            update={
                "outputs": parse(OutputsSettings, {"mqtt": {"host": "127.0.0.1", "port": broker.port}}),
                "rules": (parse(RuleSettings, {"id": "disk-low", "kind": "disk", "below": 1.0}),),
            }
        )
        (camera,) = (c.id for c in site.cameras)
        async with Appliance(site, front_process) as appliance:

            def retrains() -> bool:
                return bool(appliance.services.cameras.one(camera).settings.retraining.enabled)

            found = await home.until(lambda s: "on" in switches(s).values(), "the switch is found and on", 120.0)
            (switch,) = switches(found)
            shown = await home.until(connected, "the camera is connected")
            assert "unavailable" not in shown.values()
            assert any(e.startswith("binary_sensor.") and s == "on" for e, s in shown.items()), "the alarm is shown"

            await home.ask(order="call", service="turn_off", entity=switch)
            await home.until(lambda s: s[switch] == "off", "the switch shows that it is off")
            assert not retrains()

            broker.stop()
            await home.until(lambda s: s[switch] == "unavailable", "without a broker nothing is shown as known")
            broker.start()  # it kept nothing: everything has to be said again
            back = await home.until(lambda s: s[switch] == "off", "everything is back after the broker", 120.0)
            assert set(back) == set(shown)
            await home.ask(order="call", service="turn_on", entity=switch)
            await home.until(lambda s: s[switch] == "on", "it can be switched again")
            assert retrains()
        await home.until(lambda s: s[switch] == "unavailable", "an appliance that is off is not shown as known")


def connected(states: dict[str, str]) -> bool:
    return "on" in [state for entity, state in states.items() if entity.endswith("_connection")]


def switches(states: dict[str, str]) -> dict[str, str]:
    return {entity: state for entity, state in states.items() if entity.startswith("switch.")}
