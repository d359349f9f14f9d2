"""MQTT with a real broker: states, last will, discovery, switches; the broker away; logins; TLS."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from joined_outputs import FakeSite, Joined, Opener
from outputs_kit import MOSQUITTO, Listener, Mosquitto, alarm, free_port, in_order, news, until
from topics_kit import MINUTE

from edge.appliance.answers.outputs import OutputsAnswer
from edge.appliance.answers.read import plain
from edge.core.errors import NotFound
from edge.store.store import Store

PERSISTENT = ("allow_anonymous true", "persistence true", "max_queued_messages 0")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path / "broker") as started:
        yield started


def _mqtt(port: int, **more: Any) -> dict[str, Any]:
    return {"mqtt": {"host": "127.0.0.1", "port": port, **more}}


async def test_states_are_retained_and_the_last_will_tells_of_the_end(broker: Mosquitto, joined: Opener) -> None:
    one = await joined(_mqtt(broker.port))
    with Listener(broker.port) as heard:
        await until(lambda: heard.retained.get("magpie/available") == "online", "online")
        assert heard.retained["magpie/north/state"] == "live"
        assert heard.retained["magpie/north/accuracy"] == "0.6000"
        assert heard.retained["magpie/north/drift"] == "0.1000"
        assert heard.retained["magpie/south/model"] == "south-v1"
        assert json.loads(heard.retained["magpie/state"])["cameras_live"] == 2
        device = json.loads(heard.retained["homeassistant/device/magpie_depot_camera_north/config"])
        assert device["device"]["name"] == "North"
        one.site.cameras["south"] = "reconnecting"
        one.site.accuracy = None
        one.outputs.mqtt.publish_states()
        await until(lambda: heard.retained.get("magpie/south/state") == "reconnecting", "the state changes")
        unknown = {f"magpie/{c}/{what}" for c in ("north", "south") for what in ("accuracy", "drift")}
        await until(lambda: not unknown & set(heard.retained), "what is not known is not retained")
        await until(lambda: not unknown & set(one.outputs.mqtt.known), "all is sent, and acknowledged")
        for _ in range(3):
            one.outputs.mqtt.publish_states()
            assert one.outputs.mqtt.sender is not None
            assert one.outputs.mqtt.sender.retained.settled, "what did not change is not sent"
        await one.outputs.close()
        await until(lambda: heard.retained.get("magpie/available") == "offline", "goodbye")


async def test_alarms_and_events_go_to_the_common_and_to_the_camera_topic(broker: Mosquitto, joined: Opener) -> None:
    with Listener(broker.port) as heard:
        one = await joined(_mqtt(broker.port))
        one.outputs.deliver(alarm(1))
        one.outputs.deliver(news(2, "south"))
        one.outputs.deliver(alarm(3, camera=None, kind="disk"))
        await until(lambda: len(heard.bodies("magpie/alarms")) == 2, "alarms")
        await until(lambda: heard.bodies("magpie/south/events"), "the event")
        (mine,) = heard.bodies("magpie/north/alarms")
        assert mine == heard.bodies("magpie/alarms")[0]
        assert (mine["id"], mine["message"]) == (1, "car number 1")
        assert len(mine["message_id"]) == 32
        assert heard.bodies("magpie/events") == heard.bodies("magpie/south/events")
        await until(lambda: heard.retained.get("magpie/north/alarm/object") == "ON", "the alarm is on")
        assert heard.retained["magpie/alarm/disk"] == "ON"
        one.outputs.deliver(alarm(1, phase="end"))
        await until(lambda: heard.retained.get("magpie/north/alarm/object") == "OFF", "the alarm is off")
        await until(lambda: one.state()["waiting"] == 0, "all sent")
        assert one.state()["sent"] == 4


async def test_objects_and_counts_are_left_out_where_they_are_not_wanted(broker: Mosquitto, joined: Opener) -> None:
    with Listener(broker.port) as heard:
        one = await joined(_mqtt(broker.port, objects=False, counts=False, discovery=False))
        one.outputs.deliver(news(2, "south"))
        one.outputs.deliver(MINUTE)
        one.outputs.deliver(alarm(1))
        await until(lambda: heard.bodies("magpie/alarms"), "the alarm")
        assert not heard.bodies("magpie/events") + heard.bodies("magpie/counts")
        assert not [topic for topic in heard.retained if topic.startswith("homeassistant/")]


async def test_a_broker_that_was_away_gets_everything_in_order(tmp_path: Path, joined: Opener) -> None:
    """Killed while events come, and started again: none is missing, and each camera's are in order."""
    lines = (*PERSISTENT, f"persistence_location {tmp_path}/broker/", "user root")
    with Mosquitto(tmp_path / "broker", *lines) as broker, Listener(broker.port, session="keeper") as heard:
        await until(lambda: heard.subscribed, "the listener")
        one = await joined(_mqtt(broker.port))
        await until(lambda: one.state()["connected"], "connected")
        made: list[int] = []

        def count_up(count: int) -> None:
            for _ in range(count):
                made.append(len(made))
                one.outputs.deliver(alarm(made[-1], ("north", "south")[made[-1] % 2]))

        for _ in range(2):
            count_up(120)
            await until(lambda: len(heard.bodies("magpie/alarms")) > 20, "some arrive")
            broker.stop()
            count_up(200)
            await until(lambda: not one.state()["connected"], "the loss is seen")
            await until(lambda: not one.outputs.outbox.unwritten, "what is made meanwhile is in the database")
            broker.start()
            await until(lambda: one.state()["connected"] and one.state()["waiting"] == 0, "caught up")
        await until(lambda: len({b["id"] for b in heard.bodies("magpie/alarms")}) == len(made), "everything arrives")
        for camera in ("north", "south"):
            mine = [b["id"] for b in heard.bodies(f"magpie/{camera}/alarms")]
            assert in_order(mine)
            assert len(set(mine)) == len(made) / 2
        # A message that came twice has the same id twice.
        numbers = {b["message_id"]: b["id"] for b in heard.bodies("magpie/alarms")}
        assert len(numbers) == len(made)
        assert one.state()["lost"] == 0
        # Told once when it went and once when it came back, not at each try.
        assert len(one.site.kinds("output.down")) == len(one.site.kinds("output.up")) == 2


async def test_what_waits_survives_a_restart(tmp_path: Path, store: Store) -> None:
    port = free_port()
    site = FakeSite()
    async with Joined(_mqtt(port), store, site) as one:
        for n in range(30):
            one.outputs.deliver(alarm(n))
        one.outputs.deliver(MINUTE)
        await until(lambda: "refused" in one.state()["message"], "the broker is away")
    with Mosquitto(tmp_path / "broker") as broker, Listener(broker.port) as heard:
        async with Joined(_mqtt(broker.port), store, site) as again:
            await until(lambda: again.state()["waiting"] == 0 and again.state()["connected"], "sent")
            await until(lambda: len(heard.bodies("magpie/alarms")) == 30, "arrived")
            await until(lambda: heard.bodies("magpie/north/counts"), "the minute, too")
    assert [b["id"] for b in heard.bodies("magpie/alarms")] == list(range(30))
    (minute,) = heard.bodies("magpie/counts")
    assert (minute["camera"], minute["start_utc_s"], minute["watched"]) == ("north", MINUTE.start_s, 0.98)


_SENDER = """
import asyncio, sys
from pathlib import Path
sys.path[:0] = [{tests!r}, {here!r}]
from joined_outputs import FakeSite, Joined
from outputs_kit import alarm
from edge.store.store import Store

async def main():
    store = Store(None, Path({folder!r}))
    async with Joined({{"mqtt": {{"host": "127.0.0.1", "port": {port}}}}}, store, FakeSite()) as one:
        for n in range(600):
            one.outputs.deliver(alarm(n, ("north", "south")[n % 2]))
        await one.outputs.outbox.flush()
        print("written", flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_kill_9_of_the_sender_loses_nothing_that_was_written(tmp_path: Path, store: Store) -> None:
    store.close()
    here = Path(__file__).parent
    with Mosquitto(tmp_path / "broker") as broker, Listener(broker.port) as heard:
        await until(lambda: heard.subscribed, "the listener")
        code = _SENDER.format(tests=str(here.parent), here=str(here), folder=str(tmp_path), port=broker.port)
        sender = await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE, cwd=here.parent.parent
        )
        assert sender.stdout is not None
        assert await asyncio.wait_for(sender.stdout.readline(), 60) == b"written\n"
        sender.send_signal(signal.SIGKILL)
        await sender.wait()
        await until(lambda: heard.retained.get("magpie/available") == "offline", "the last will")
        with Store(None, tmp_path) as again:
            async with Joined(_mqtt(broker.port), again, FakeSite()) as one:
                await until(lambda: one.state()["connected"] and one.state()["waiting"] == 0, "the rest is sent")
                await until(lambda: len({b["id"] for b in heard.bodies("magpie/alarms")}) == 600, "all arrive")
        for camera in ("north", "south"):
            assert in_order([b["id"] for b in heard.bodies(f"magpie/{camera}/alarms")])


async def test_the_switch_is_obeyed_and_nothing_else_is(broker: Mosquitto, joined: Opener) -> None:
    with Listener(broker.port) as heard:
        heard.publish("magpie/south/retraining/set", "OFF", retain=True)  # from an earlier time
        one = await joined(_mqtt(broker.port))
        await until(lambda: one.site.kinds("output.command_ignored"), "the old command is noted")
        assert "retained" in one.site.kinds("output.command_ignored")[0]["reason"]
        heard.publish("magpie/north/retraining/set", "OFF")
        await until(lambda: heard.retained.get("magpie/north/retraining") == "OFF", "the switch follows")
        assert one.site.switched == [("north", False, "mqtt")]

        def states_sent() -> int:
            return len([1 for topic, _ in heard.messages if topic == "magpie/north/retraining"])

        before = states_sent()
        heard.publish("magpie/north/retraining/set", "off")
        await until(lambda: states_sent() > before, "who sent what was not followed sees what is in force")
        for topic, payload in (
            ("magpie/north/retraining/set", '{"state": "ON"}'),
            ("magpie/nobody/retraining/set", "ON"),
            ("magpie/%23/retraining/set", "ON"),
            ("magpie/north/retraining/set", "x" * 100_000),
        ):
            heard.publish(topic, payload)
        heard.publish("magpie/north/retraining/set", "ON")
        await until(lambda: heard.retained.get("magpie/north/retraining") == "ON", "the switch still works")
        assert one.site.switched == [("north", False, "mqtt"), ("north", True, "mqtt")]
        # Noted once, not as often as it is sent.
        assert len(one.site.kinds("output.command_ignored")) == 1


async def test_two_boxes_of_a_site_do_not_take_each_others_place_at_the_broker(
    broker: Mosquitto, store: Store, tmp_path: Path
) -> None:
    """Nobody set a client id or a prefix: with the same id each would throw the other out, for ever."""
    (tmp_path / "other").mkdir()
    with Listener(broker.port) as heard, Store(None, tmp_path / "other") as second:
        async with (
            Joined(_mqtt(broker.port), store, FakeSite(), box="b1") as one,
            Joined(_mqtt(broker.port), second, FakeSite(), box="b2") as two,
        ):
            for name in ("b1", "b2"):
                await until(lambda name=name: heard.retained.get(f"magpie/{name}/available") == "online", name)
            assert "magpie/available" not in heard.retained
            tested = await two.outputs.test_mqtt({})
            assert "magpie/b2/test" in tested.message
            await until(lambda: one.state()["connected"] and two.state()["connected"], "both are")


async def test_everything_is_sent_again_when_home_assistant_starts(broker: Mosquitto, joined: Opener) -> None:
    with Listener(broker.port) as heard:
        await joined(_mqtt(broker.port, discovery_prefix="ha"))
        topic = "ha/device/magpie_depot/config"
        await until(lambda: topic in heard.retained, "the documents")
        seen = len([1 for name, _ in heard.messages if name == topic])
        heard.publish("ha/status", "offline")
        heard.publish("ha/status", "online")
        await until(lambda: len([1 for name, _ in heard.messages if name == topic]) == seen + 1, "once more")


async def test_topics_of_a_removed_camera_are_cleared_also_after_a_restart(tmp_path: Path, store: Store) -> None:
    site = FakeSite()
    with Mosquitto(tmp_path / "broker") as broker, Listener(broker.port) as heard:
        async with Joined(_mqtt(broker.port), store, site) as one:
            await until(lambda: heard.retained.get("magpie/available") == "online", "online")
            del site.cameras["south"]
            one.outputs.mqtt.publish_states()
            await until(lambda: not [t for t in heard.retained if "south" in t], "the camera's topics go")
            assert [t for t in heard.retained if "north" in t]
        # Removed while no client was connected.
        del site.cameras["north"]
        site.cameras["west"] = "live"
        async with Joined(_mqtt(broker.port), store, site):
            await until(lambda: heard.retained.get("magpie/west/state") == "live", "the new one comes")
            await until(lambda: not [t for t in heard.retained if "north" in t], "the old one goes")


async def test_another_prefix_and_no_broker_leave_nothing_behind(broker: Mosquitto, joined: Opener) -> None:
    with Listener(broker.port) as heard:
        one = await joined(_mqtt(broker.port))
        await until(lambda: heard.retained.get("magpie/available") == "online", "online")
        await one.outputs.change_mqtt({"prefix": "site/edge"}, "ann")
        await until(lambda: heard.retained.get("site/edge/north/state") == "live", "under the new prefix")
        await until(lambda: "magpie/north/state" not in heard.retained, "not under the old one")
        assert heard.retained["magpie/available"] == "offline"
        await one.outputs.remove_mqtt("ann")
        await until(lambda: not [t for t in heard.retained if not t.startswith("magpie/")], "nothing is left")
        assert one.outputs.outputs().mqtt is None
        with pytest.raises(NotFound):
            await one.outputs.remove_mqtt("ann")
        with pytest.raises(NotFound):
            await one.outputs.test_mqtt({})


async def test_a_message_that_breaks_the_connection_is_given_up_and_the_rest_goes_on(
    tmp_path: Path, joined: Opener
) -> None:
    small = ("allow_anonymous true", "max_packet_size 6000")
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(Mosquitto(tmp_path / "b", *small))
        heard = stack.enter_context(Listener(broker.port))
        one = await joined(_mqtt(broker.port, discovery=False))
        one.outputs.deliver(alarm(1))
        one.outputs.deliver(alarm(2, message="x" * 10_000))
        one.outputs.deliver(alarm(3))
        await until(lambda: len({b["id"] for b in heard.bodies("magpie/alarms")}) == 2, "the others arrive")
        (letter,) = await one.outputs.dead_letters(10, None)
        assert letter.body["id"] == 2
        assert "breaks the connection" in letter.reason
        await until(lambda: one.state()["waiting"] == 0, "nothing waits")
        assert one.state()["dead"] == 1


def _password_file(folder: Path) -> Path:
    passwords = folder / "passwords"
    tool = Path(str(MOSQUITTO)).with_name("mosquitto_passwd")
    if not tool.exists():
        tool = Path("/usr/bin/mosquitto_passwd")
    subprocess.run([str(tool), "-b", "-c", str(passwords), "magpie", "correct horse"], check=True, capture_output=True)
    passwords.chmod(0o644)
    return passwords


async def test_a_wrong_password_is_said_and_never_shown(tmp_path: Path, joined: Opener) -> None:
    if MOSQUITTO is None:
        pytest.skip("mosquitto is not installed")
    passwords = _password_file(tmp_path)
    tmp_path.chmod(0o755)
    site = FakeSite(secrets={"secret:mqtt": "wrong horse"})
    lines = ("allow_anonymous false", f"password_file {passwords}", "user root")
    with Mosquitto(tmp_path / "broker", *lines) as broker:
        one = await joined(_mqtt(broker.port, username="magpie", password_from="secret:mqtt"), site)
        await until(lambda: "refuses" in one.state()["message"], "refused")
        assert not one.state()["connected"]
        test = await one.outputs.test_mqtt({})
        assert (test.ok, test.took_s) == (False, None)
        assert "refuses" in test.message
        one.outputs.deliver(alarm(1))
        site.secrets["secret:mqtt"] = "correct horse"  # put right while it runs
        await until(lambda: one.state()["connected"] and one.state()["waiting"] == 0, "logged in, and sent")
        del site.secrets["secret:mqtt"]
        assert (await one.outputs.test_mqtt({})).message.startswith("outputs.mqtt.password_from")
        said = json.dumps([plain(OutputsAnswer, one.outputs.outputs()), site.notes, test], default=str)
        assert "horse" not in said


def _certificates(folder: Path) -> None:
    """A CA of our own and a certificate for 127.0.0.1 (openssl, as people make them)."""

    def run(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    run("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-days", "2",
        "-subj", "/CN=Test CA", "-addext", "keyUsage=critical,keyCertSign")  # fmt: skip
    run("req", "-newkey", "rsa:2048", "-nodes", "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=broker")
    (folder / "ext").write_text("subjectAltName=IP:127.0.0.1\n")
    run("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
        "-out", "server.pem", "-days", "2", "-extfile", "ext")  # fmt: skip
    for file in folder.iterdir():
        file.chmod(0o644)


async def test_tls_with_a_ca_of_ones_own(tmp_path: Path, joined: Opener) -> None:
    folder = tmp_path / "tls"
    folder.mkdir()
    _certificates(folder)
    lines = (
        "allow_anonymous true", f"cafile {folder}/ca.pem", f"certfile {folder}/server.pem",
        f"keyfile {folder}/server.key", "user root",
    )  # fmt: skip
    with Mosquitto(tmp_path / "broker", *lines) as broker:
        one = await joined(_mqtt(broker.port, tls=True))
        await until(lambda: "certificate is not trusted" in one.state()["message"], "not trusted")
        plain = await one.outputs.test_mqtt({"tls": False})
        assert not plain.ok
        missing = await one.outputs.test_mqtt({"ca_file": str(folder / "absent.pem")})
        assert "absent.pem" in missing.message or "No such file" in missing.message
        good = await one.outputs.test_mqtt({"ca_file": str(folder / "ca.pem")})
        assert good.ok, good
        await one.outputs.change_mqtt({"ca_file": str(folder / "ca.pem")}, "ann")
        one.outputs.deliver(alarm(1))
        await until(lambda: one.state()["connected"] and one.state()["sent"] == 1, "sent over TLS")


async def test_a_broker_that_never_answers_holds_no_other_up(joined: Opener) -> None:
    """It takes connections and says nothing: reported, the rest of the process goes on, and ending is quick."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        one = await joined(_mqtt(mute.getsockname()[1]))
        one.outputs.deliver(alarm(1))
        await until(lambda: one.state()["message"].endswith("it does not answer"), "said so")
        assert one.state()["waiting"] == 1
        threads = threading.active_count()
        await one.outputs.close()
        assert threading.active_count() <= threads


async def test_a_host_that_does_not_exist_is_said(joined: Opener) -> None:
    one = await joined({"mqtt": {"host": "no-such-host.invalid"}})
    await until(lambda: "name is not known" in one.state()["message"], "said so")
    assert len(one.site.kinds("output.down")) == 1
    assert one.outputs.reasons() == []  # not yet for long
