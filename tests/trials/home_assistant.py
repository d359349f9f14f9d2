"""A Home Assistant with its MQTT integration, run by the Python of its own environment. Orders come as lines of JSON on
standard input, answers go as lines of JSON to standard output: {"order": "states"}, {"order": "call", "service":
"turn_off", "entity": "switch..."}, {"order": "end"}. Arguments: the broker's port."""

import asyncio
import json
import logging
import sys
import tempfile
from pathlib import Path

from homeassistant import bootstrap, config_entries, core, loader
from homeassistant.auth import auth_manager_from_config
from homeassistant.const import __version__
from homeassistant.setup import async_setup_component

BROKER = {
    "entry_id": "a" * 26, "domain": "mqtt", "title": "broker", "version": 1, "minor_version": 1, "source": "user",
    "unique_id": None, "disabled_by": None, "discovery_keys": {}, "subentries": [], "pref_disable_new_entities": False,
    "pref_disable_polling": False, "options": {"discovery": True, "discovery_prefix": "homeassistant"},
    "created_at": "2026-01-01T00:00:00+00:00", "modified_at": "2026-01-01T00:00:00+00:00",
}  # fmt: skip


def write_settings(folder: Path, port: int) -> None:
    """The broker as a person would have entered it."""
    (folder / ".storage").mkdir()
    (folder / "configuration.yaml").touch()
    entry = BROKER | {"data": {"broker": "127.0.0.1", "port": port}}
    stored = {"version": 1, "minor_version": 5, "key": "core.config_entries", "data": {"entries": [entry]}}
    (folder / ".storage" / "core.config_entries").write_text(json.dumps(stored))


async def start(folder: Path) -> core.HomeAssistant:
    """Registries, logins and the MQTT integration; not the page, which needs more packages."""
    hass = core.HomeAssistant(str(folder))
    hass.config.skip_pip = True
    loader.async_setup(hass)
    hass.config_entries = config_entries.ConfigEntries(hass, {})
    await bootstrap.async_load_base_functionality(hass)
    hass.auth = await auth_manager_from_config(hass, [{"type": "homeassistant"}], [])
    assert await async_setup_component(hass, "mqtt", {})
    await hass.async_start()
    return hass


def tell(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


async def main() -> None:
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        write_settings(Path(folder), int(sys.argv[1]))
        hass = await start(Path(folder))
        tell({"version": __version__})
        while True:
            line = await asyncio.to_thread(sys.stdin.readline)
            order = json.loads(line) if line else {"order": "end"}
            if order["order"] == "end":
                break
            if order["order"] == "call":
                domain = order["entity"].partition(".")[0]
                await hass.services.async_call(domain, order["service"], {"entity_id": order["entity"]}, blocking=True)
                tell({"called": order["service"]})
            else:
                tell({s.entity_id: s.state for s in hass.states.async_all()})
        await hass.async_stop(force=True)


asyncio.run(main())
