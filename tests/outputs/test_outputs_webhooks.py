"""Webhooks with a real receiver: signature, retries, order, dead letters, and receivers that misbehave."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections import Counter
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st
from joined_outputs import FakeSite, Joined, Opener
from outputs_kit import HttpReceiver, alarm, free_port, in_order, news, until

from edge.appliance.answers.outputs import OutputsAnswer
from edge.appliance.answers.read import plain
from edge.core.errors import Conflict, InvalidValue, InvalidValues, NotFound
from edge.outputs.webhooks import headers, key_of, signature
from edge.store.store import Store


def _hooks(*hooks: dict[str, Any]) -> dict[str, Any]:
    return {"webhooks": list(hooks)}


def _hook(url: str, name: str = "pager", **more: Any) -> dict[str, Any]:
    return {"id": name, "url": url, "timeout_s": 20.0, **more}


def _verified(secret: str, given: dict[str, str], body: bytes) -> bool:
    """As docs/outputs.md tells receivers to do it."""
    key = base64.b64decode(secret[6:]) if secret.startswith("whsec_") else secret.encode()
    signed = b".".join([given["webhook-id"].encode(), given["webhook-timestamp"].encode(), body])
    wanted = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return any(hmac.compare_digest(wanted, one) for one in given["webhook-signature"].split(" "))


@settings(max_examples=40)
@given(
    st.text(min_size=1).filter(lambda s: not s.startswith("whsec_")),
    st.text("0123456789abcdef", min_size=1),
    st.integers(0, 2**40),
    st.binary(),
)
def test_a_receiver_can_verify_any_signature_and_sees_any_change(
    secret: str, message: str, timestamp: int, body: bytes
) -> None:
    made = headers(secret, message, timestamp, body)
    assert _verified(secret, made, body)
    assert made["webhook-signature"] == signature(secret, message, timestamp, body)
    for other in (
        headers(secret, message, timestamp + 1, body),
        headers(secret, message + "0", timestamp, body),
        headers(secret, message, timestamp, body + b" "),
        headers(secret + "x", message, timestamp, body),
    ):
        assert other["webhook-signature"] != made["webhook-signature"]


def test_the_known_answer_of_the_convention() -> None:
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    assert len(key_of(secret)) == 24
    made = signature(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert made == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    for wrong in ("whsec_not base64!", "whsec_MfK", "whsec_Süd="):
        with pytest.raises(InvalidValue) as refused:
            key_of(wrong)
        assert wrong not in str(refused.value)


async def test_a_message_arrives_signed_and_once(joined: Opener) -> None:
    site = FakeSite(secrets={"secret:pager": "correct horse"})
    async with HttpReceiver() as receiver:
        one = await joined(_hooks(_hook(receiver.url, secret_from="secret:pager")), site)
        one.outputs.deliver(alarm(1))
        await until(lambda: receiver.posts, "the post")
        await until(lambda: one.state("pager")["waiting"] == 0, "done")
        (given_headers, body), (sent,) = receiver.posts[0], receiver.bodies()
        lower = {k.lower(): v for k, v in given_headers.items()}
        assert _verified("correct horse", lower, body)
        assert lower["content-type"] == "application/json"
        assert lower["webhook-id"] == sent["id"]
        assert (sent["kind"], sent["site"], sent["camera"], sent["data"]["id"]) == ("alarm", "depot", "north", 1)
        assert one.state("pager") | {"down_s": None} == one.state("pager")
        assert one.state("pager")["sent"] == 1


async def test_each_receiver_gets_what_it_asked_for(joined: Opener) -> None:
    async with HttpReceiver() as all_, HttpReceiver() as critical, HttpReceiver() as south, HttpReceiver() as off:
        one = await joined(
            _hooks(
                _hook(all_.url, "all", kinds=["alarm", "object"]),
                _hook(critical.url, "critical", severities=["critical"], phases=["new"]),
                _hook(south.url, "south", kinds=["object"], cameras=["south"]),
                _hook(off.url, "off", enabled=False),
            )
        )
        one.outputs.deliver(alarm(1))
        one.outputs.deliver(alarm(2, camera=None, severity="critical"))
        one.outputs.deliver(alarm(2, camera=None, severity="critical", phase="end"))
        one.outputs.deliver(news(3, "south"))
        one.outputs.deliver(news(4))
        await until(lambda: len(all_.posts) == 5, "all")
        await until(lambda: critical.posts and south.posts, "the others")
        ids = [[b["data"]["id"] for b in r.bodies()] for r in (all_, critical, south, off)]
        assert [sorted(i) for i in ids] == [[1, 2, 2, 3, 4], [2], [3], []]
        assert one.state("off")["message"] == "switched off"


async def test_a_receiver_that_was_away_gets_everything_in_order(joined: Opener) -> None:
    async with HttpReceiver() as receiver:
        one = await joined(_hooks(_hook(receiver.url)))
        made = 0
        for _ in range(2):
            for _ in range(60):
                one.outputs.deliver(alarm(made, ("north", "south", "west")[made % 3]))
                made += 1
            await until(lambda: receiver.posts, "some arrive")
            await receiver.stop()
            for _ in range(60):
                one.outputs.deliver(alarm(made, ("north", "south", "west")[made % 3]))
                made += 1
            await until(lambda: one.state("pager")["down_s"] is not None, "the loss is seen")
            assert one.state("pager")["message"]
            await receiver.start()
            await until(lambda: one.state("pager")["waiting"] == 0, "caught up")
        numbers = [b["data"]["id"] for b in receiver.bodies()]
        assert set(numbers) == set(range(made))
        for camera in range(3):
            assert in_order([n for n in numbers if n % 3 == camera])
        assert len(one.site.kinds("output.down")) == len(one.site.kinds("output.up")) == 2
        assert one.state("pager")["lost"] == one.state("pager")["dead"] == 0


async def test_a_message_that_fails_holds_up_its_own_camera_only(joined: Opener) -> None:
    tries: Counter[int] = Counter()

    def answer(body: dict[str, Any]) -> int:
        number = body["data"]["id"]
        tries[number] += 1
        return 500 if number == 0 and tries[0] < 4 else 200

    async with HttpReceiver(answer) as receiver:
        one = await joined(_hooks(_hook(receiver.url)))
        for n in range(10):
            one.outputs.deliver(alarm(n, ("north", "south")[n % 2]))
        await until(lambda: one.state("pager")["waiting"] == 0, "all delivered")
        numbers = [b["data"]["id"] for b in receiver.bodies()]
        assert tries[0] == 4
        assert [n for n in numbers if n % 2 == 0] == [0, 2, 4, 6, 8]
        assert numbers.index(9) < numbers.index(0), "the other camera did not wait"
        assert one.site.kinds("output.down") == []


async def test_a_slow_receiver_does_not_hold_up_another(joined: Opener) -> None:
    release = asyncio.Event()

    async def slow(_: dict[str, Any]) -> int:
        await release.wait()
        return 200

    async with HttpReceiver(slow) as stuck, HttpReceiver() as quick:
        one = await joined(_hooks(_hook(stuck.url, "stuck", timeout_s=120), _hook(quick.url, "quick")))
        for n in range(100):
            one.outputs.deliver(alarm(n))
        await until(lambda: len(quick.posts) == 100, "the quick one has all")
        assert stuck.posts == []
        release.set()
        await until(lambda: len(stuck.posts) == 100, "and in the end the slow one")
        assert in_order([b["data"]["id"] for b in stuck.bodies()])


@pytest.mark.parametrize("status", [400, 410, 422])
async def test_an_answer_that_will_never_be_another_makes_a_dead_letter(joined: Opener, status: int) -> None:
    answers = {1: status}
    async with HttpReceiver(lambda body: answers.get(body["data"]["id"], 200)) as receiver:
        one = await joined(_hooks(_hook(receiver.url)))
        for n in range(3):
            one.outputs.deliver(alarm(n))
        await until(lambda: len(receiver.posts) == 2, "the others arrive")
        await until(lambda: one.state("pager")["dead"] == 1, "one is given up")
        (letter,) = await one.outputs.dead_letters(10, None)
        assert letter.reason == f"the receiver answered {status}"
        assert (letter.tries, letter.camera, letter.body["id"]) == (1, "north", 1)
        assert len(one.site.kinds("output.dead")) == 1
        # Put right there, and tried again by hand: the same message.
        answers.clear()
        await one.outputs.retry_dead_letter(letter.id, "ann")
        await until(lambda: len(receiver.posts) == 3, "it arrives")
        assert receiver.bodies()[-1]["id"] == letter.message
        assert one.state("pager")["dead"] == 0
        for call in (one.outputs.retry_dead_letter, one.outputs.drop_dead_letter):
            with pytest.raises(NotFound):
                await call(letter.id, "ann")


async def test_after_so_many_tries_it_is_given_up(joined: Opener) -> None:
    tries: Counter[int] = Counter()

    def answer(body: dict[str, Any]) -> int:
        tries[body["data"]["id"]] += 1
        return 500 if body["data"]["id"] == 0 else 200

    async with HttpReceiver(answer) as receiver:
        one = await joined(_hooks(_hook(receiver.url, max_tries=3)))
        one.outputs.deliver(alarm(0))
        one.outputs.deliver(alarm(1))
        await until(lambda: receiver.posts, "the one behind it")
        (letter,) = await one.outputs.dead_letters(10, None)
        assert (letter.tries, tries[0]) == (3, 3)
        await one.outputs.drop_dead_letter(letter.id, "ann")
        assert await one.outputs.dead_letters(10, None) == []


async def test_redirects_are_not_followed(joined: Opener) -> None:
    async with HttpReceiver() as inside:
        moved = lambda _: web.Response(status=302, headers={"location": inside.url})  # noqa: E731
        async with HttpReceiver(moved) as receiver:
            one = await joined(_hooks(_hook(receiver.url, max_tries=2)))
            one.outputs.deliver(alarm(1))
            await until(lambda: one.state("pager")["dead"] == 1, "given up")
            assert "redirects are not followed" in (await one.outputs.dead_letters(1, None))[0].reason
            assert inside.posts == []


async def test_an_endless_answer_is_not_read_to_its_end(joined: Opener) -> None:
    written = 0

    class Endless(web.StreamResponse):
        async def write_eof(self, data: bytes = b"") -> None:
            nonlocal written
            while written < 200_000_000:
                await self.write(b"x" * 65536)
                written += 65536

    async with HttpReceiver(lambda _: Endless()) as receiver:
        one = await joined(_hooks(_hook(receiver.url)))
        one.outputs.deliver(alarm(1))
        await until(lambda: one.state("pager")["sent"] == 1, "taken as delivered")
        assert written < 50_000_000


async def test_a_receiver_that_says_when_is_not_asked_sooner(joined: Opener) -> None:
    answers = [web.Response(status=429, headers={"retry-after": "1"})]
    asked: list[float] = []

    def answer(_: dict[str, Any]) -> Any:
        asked.append(asyncio.get_running_loop().time())
        return answers.pop() if answers else 200

    async with HttpReceiver(answer) as receiver:
        one = await joined(_hooks(_hook(receiver.url)))
        one.outputs.deliver(alarm(1))
        await until(lambda: one.state("pager")["down_s"] is not None, "it has to wait")
        one.outputs.deliver(alarm(2, "south"))
        await until(lambda: len(receiver.posts) == 2, "both arrive")
        assert asked[1] - asked[0] >= 1.0  # PACE alone would have tried after 0.02 s


async def test_what_waits_survives_a_restart(store: Store) -> None:
    site, port = FakeSite(), free_port()
    hooks = _hooks(_hook(f"http://127.0.0.1:{port}/hook"))
    async with Joined(hooks, store, site) as one:
        for n in range(20):
            one.outputs.deliver(alarm(n))
        await until(lambda: "refused" in one.state("pager")["message"], "away")
    async with HttpReceiver() as receiver:
        receiver_there = _hooks(_hook(receiver.url))
        async with Joined(receiver_there, store, site) as again:
            await until(lambda: again.state("pager")["waiting"] == 0, "sent")
        assert [b["data"]["id"] for b in receiver.bodies()] == list(range(20))


async def test_a_secret_that_cannot_be_read_is_said_and_nothing_goes_unsigned(joined: Opener) -> None:
    site = FakeSite()
    async with HttpReceiver() as receiver:
        one = await joined(_hooks(_hook(receiver.url, secret_from="secret:pager")), site)
        one.outputs.deliver(alarm(1))
        await until(lambda: "secret_from" in one.state("pager")["message"], "said so")
        assert not (await one.outputs.test_webhook("pager")).ok
        assert receiver.posts == []
        site.secrets["secret:pager"] = "whsec_correct horse"
        await until(lambda: "base64" in one.state("pager")["message"], "said why it cannot sign")
        assert not (await one.outputs.test_webhook("pager")).ok
        assert receiver.posts == []
        site.secrets["secret:pager"] = "correct horse"
        await until(lambda: receiver.posts, "signed now")
        assert "horse" not in json.dumps([plain(OutputsAnswer, one.outputs.outputs()), site.notes])


async def test_webhooks_are_changed_while_it_runs_and_changes_are_kept(store: Store, joined: Opener) -> None:
    async with HttpReceiver() as receiver:
        one = await joined({})
        assert (await one.outputs.add_webhook(_hook(receiver.url), "ann")).state.waiting == 0
        with pytest.raises(Conflict):
            await one.outputs.add_webhook(_hook(receiver.url), "ann")
        with pytest.raises(InvalidValues, match="url"):
            await one.outputs.add_webhook(_hook("file:///etc/passwd", "x"), "ann")
        with pytest.raises(InvalidValue, match="id"):
            await one.outputs.change_webhook("pager", {"id": "other"}, "ann")
        for call in (one.outputs.test_webhook("no"), one.outputs.remove_webhook("no", "ann")):
            with pytest.raises(NotFound):
                await call
        test = await one.outputs.test_webhook("pager")
        assert test.ok, test
        assert receiver.bodies()[0]["kind"] == "test"
        await one.outputs.change_webhook("pager", {"enabled": False}, "ann")
        one.outputs.deliver(alarm(1))
        await one.outputs.change_webhook("pager", {"enabled": True, "kinds": ["alarm", "object"]}, "ann")
        one.outputs.deliver(news(2))
        await until(lambda: len(receiver.posts) == 2, "the object")
        await one.outputs.close()
        again = await joined({})
        (kept,) = again.outputs.outputs().webhooks
        assert kept.kinds == ("alarm", "object")
        assert store.settings.audit("settings/outputs")[0].changed_by == "ann"
        await again.outputs.remove_webhook("pager", "ann")
        assert again.outputs.outputs().webhooks == ()
        with pytest.raises(NotFound):
            again.outputs.outbox.queues.counts("webhook/pager")


async def test_metrics_and_reasons(joined: Opener) -> None:
    away = _hooks(_hook(f"http://127.0.0.1:{free_port()}/"))
    one = await joined(away)
    one.outputs.deliver(alarm(1))
    await until(lambda: one.outputs.metrics()[0]["up"] is False, "away")
    assert one.outputs.metrics()[0]["destination"] == "webhook/pager"
    assert one.outputs.metrics()[0]["waiting"] == 1
    assert one.outputs.reasons() == []
    await one.outputs.close()
    again = await joined(away, down_long_s=0.0)
    await until(lambda: again.outputs.metrics()[0]["up"] is False, "away")
    (reason,) = again.outputs.reasons()
    assert reason["code"] == "output_down"
    assert "refused" in reason["message"]


async def test_no_file_of_the_machine_is_named_by_rest(joined: Opener) -> None:
    kept = {"host": "127.0.0.1", "port": free_port(), "enabled": False, "password_from": "file:/etc/magpie/mqtt"}
    one = await joined(_hooks(_hook("https://pager.example/x", secret_from="file:/etc/magpie/pager")) | {"mqtt": kept})
    outputs = one.outputs
    with pytest.raises(InvalidValue, match="secret_references"):
        await outputs.add_webhook(_hook("https://pager.example/y", "other", secret_from="file:/etc/passwd"), "ann")
    with pytest.raises(InvalidValue, match="secret_references"):
        await outputs.change_webhook("pager", {"secret_from": "env:HOME"}, "ann")
    for patch in ({"password_from": "file:/etc/passwd"}, {"host": "192.0.2.9"}):
        for asked in (outputs.change_mqtt(patch, "ann"), outputs.test_mqtt(patch)):
            with pytest.raises(InvalidValue, match="secret_references"):
                await asked
    await outputs.change_webhook("pager", {"timeout_s": 5}, "ann")
    await outputs.change_mqtt({"username": "magpie"}, "ann")
    assert outputs.settings.mqtt is not None
    assert outputs.settings.mqtt.password_from == "file:/etc/magpie/mqtt", "what the site file named stays"
