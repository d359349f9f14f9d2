"""A whole appliance with a real camera tells a real broker and a real receiver, and obeys the switch."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path

import pytest
from appliance_kit import Watched, cameras, site_of
from outputs_kit import HttpReceiver, Listener, Mosquitto, until

from edge.appliance.appliance import Appliance
from edge.commands.front_process import front_process
from edge.demo.cameras import serve_cameras
from edge.settings import OutputsSettings, RuleSettings, parse

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(480)]


async def test_an_appliance_tells_what_happens_and_obeys_the_switch(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with contextlib.ExitStack() as stack:
        port = stack.enter_context(serve_cameras(cameras(1), data))
        broker = stack.enter_context(Mosquitto(tmp_path / "broker"))
        heard = stack.enter_context(Listener(broker.port))
        async with HttpReceiver() as receiver:
            outputs = {
                "mqtt": {"host": "127.0.0.1", "port": broker.port},
                "webhooks": [{"id": "pager", "url": receiver.url}],
            }
            site = site_of(port, data, count=1, window_s=60.0).model_copy(
                update={
                    "outputs": parse(OutputsSettings, outputs),
                    # More of the disk than can be free: an alarm that comes by itself.
                    "rules": (parse(RuleSettings, {"id": "disk-low", "kind": "disk", "below": 1.0}),),
                }
            )
            (camera,) = (c.id for c in site.cameras)
            async with Appliance(site, front_process) as appliance:
                watched = Watched(appliance)
                follower = asyncio.create_task(watched.follow())
                await until(lambda: heard.retained.get("magpie/available") == "online", "online")
                await until(lambda: heard.retained.get(f"magpie/{camera}/state") == "live", "live")
                assert heard.retained[f"magpie/{camera}/model"] == appliance.runtime.cameras[camera].version.id
                assert json.loads(heard.retained["magpie/state"])["cameras"] == 1

                await until(lambda: heard.bodies("magpie/alarms"), "the alarm by MQTT")
                await until(lambda: receiver.posts, "the alarm by webhook")
                assert heard.bodies("magpie/alarms")[0]["kind"] == receiver.bodies()[0]["data"]["kind"] == "disk"
                await until(lambda: heard.retained.get("magpie/alarm/disk") == "ON", "the alarm is on")

                assert heard.retained[f"magpie/{camera}/retraining"] == "ON"
                heard.publish(f"magpie/{camera}/retraining/set", "OFF")
                await until(lambda: heard.retained.get(f"magpie/{camera}/retraining") == "OFF", "switched off")
                assert appliance.services.cameras.one(camera).settings.retraining.enabled is False
                (changed,) = watched.of("camera.changed")
                assert changed.data["by"] == "mqtt"

                await appliance.services.cameras.remove(camera, "ann")
                passing = ("/set", "/events", "/alarms")  # heard, but never retained
                gone = [t for t in heard.retained if camera in t and not t.endswith(passing)]
                assert gone
                await until(lambda: not set(gone) & set(heard.retained), "its topics and devices go")
                snapshot = await appliance.services.state.metrics()
                assert [o.destination for o in snapshot.outputs] == ["mqtt", "webhook/pager"]
                assert all(o.up and not o.lost for o in snapshot.outputs)
                follower.cancel()
            await until(lambda: heard.retained.get("magpie/available") == "offline", "goodbye")
