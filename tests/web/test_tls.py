"""https with certificates made for the test: what is refused before anything starts, and a change while it runs."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
import subprocess
from pathlib import Path

import grpc
import httpx
import pytest
import websockets
from appliance_double import DictAppliance
from oip_double import NumpyService

from edge.core.errors import InvalidValue
from edge.settings import TlsSettings
from web.app import create_app
from web.oip.grpc_server import OipGrpcServer
from web.server import WebServer
from web.tls import Tls

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")


def made(folder: Path, name: str, passphrase: str = "") -> TlsSettings:
    """A certificate of its own for 127.0.0.1, and its key."""
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    lock = ["-passout", f"pass:{passphrase}"] if passphrase else ["-nodes"]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", *lock, "-days", "2",
         "-keyout", str(key), "-out", str(certificate), "-subj", f"/CN={name}",
         "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    return TlsSettings(certificate=str(certificate), key=str(key))


def trust(settings: TlsSettings) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=settings.certificate)


def test_what_is_refused_before_anything_starts(tmp_path: Path) -> None:
    one, two = made(tmp_path, "one"), made(tmp_path, "two")
    locked = made(tmp_path, "locked", "opensesame")
    empty, broken = tmp_path / "empty.pem", tmp_path / "broken.pem"
    empty.write_text("")
    broken.write_text("-----BEGIN CERTIFICATE-----\nnot base64!\n-----END CERTIFICATE-----\n")
    for settings, path, words in (
        (one.model_copy(update={"key": two.key}), "web.tls.key", "the key of"),
        (one.model_copy(update={"certificate": str(tmp_path / "absent")}), "web.tls.certificate", "can be read"),
        (one.model_copy(update={"key": str(tmp_path)}), "web.tls.key", "can be read"),
        (one.model_copy(update={"certificate": str(empty)}), "web.tls.certificate", "PEM"),
        (one.model_copy(update={"key": one.certificate}), "web.tls.key", "private key"),
        (one.model_copy(update={"certificate": str(broken)}), "web.tls", "certificate and its key"),
        (locked, "web.tls", "without a passphrase"),
    ):
        with pytest.raises(InvalidValue) as refused:
            Tls(settings)
        assert refused.value.path == path, refused.value
        assert words in refused.value.allowed


def test_files_that_go_while_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the middle of a renewal: refused like others, so that looking at them goes on."""
    one, read = made(tmp_path, "one"), Path.read_bytes

    def last(path: Path) -> bytes:
        text = read(path)
        if str(path) == one.key:
            path.unlink()
        return text

    tls = Tls(one)
    os.utime(one.key, (1, 1))
    monkeypatch.setattr(Path, "read_bytes", last)
    with pytest.raises(InvalidValue, match="files that can be read"):
        tls.reload()


async def test_a_changed_certificate_is_taken_without_dropping_connections(tmp_path: Path) -> None:
    one, two = made(tmp_path, "one"), made(tmp_path, "two")
    now = TlsSettings(certificate=str(tmp_path / "now.pem"), key=str(tmp_path / "now.key"))

    def install(settings: TlsSettings) -> None:
        for source, target in ((settings.certificate, now.certificate), (settings.key, now.key)):
            shutil.copy(source, target + ".new")
            os.replace(target + ".new", target)

    install(one)
    tls = Tls(now)
    server = WebServer(create_app(DictAppliance(), static=tmp_path / "none"), "127.0.0.1", 0, tls)
    await server.start()
    url = f"127.0.0.1:{server.port}"
    try:
        async with (
            httpx.AsyncClient(verify=trust(one), base_url=f"https://{url}") as before,
            websockets.connect(f"wss://{url}/api/v1/live", ssl=trust(one)) as socket,
        ):
            assert (await before.get("/livez")).status_code == 200
            assert not tls.reload()
            install(two)
            assert tls.reload()
            async with httpx.AsyncClient(verify=trust(two), base_url=f"https://{url}") as after:
                assert (await after.get("/livez")).status_code == 200
            assert (await before.get("/livez")).status_code == 200  # on the connection that it has
            await socket.send("{}")
            assert isinstance(await socket.recv(), bytes)
            # A half that does not fit is not used.
            shutil.copy(one.key, now.key)
            with pytest.raises(InvalidValue):
                tls.reload()
            async with httpx.AsyncClient(verify=trust(two), base_url=f"https://{url}") as still:
                assert (await still.get("/livez")).status_code == 200
        async with httpx.AsyncClient(verify=trust(one), base_url=f"https://{url}") as stranger:
            with pytest.raises(httpx.ConnectError):
                await stranger.get("/livez")
    finally:
        await server.stop()


async def test_grpc_takes_a_changed_certificate_and_keeps_open_connections(tmp_path: Path) -> None:
    one, two = made(tmp_path, "one"), made(tmp_path, "two")
    now = TlsSettings(certificate=str(tmp_path / "now.pem"), key=str(tmp_path / "now.key"))

    def put(settings: TlsSettings) -> None:
        shutil.copy(settings.certificate, now.certificate)
        shutil.copy(settings.key, now.key)

    put(one)
    tls = Tls(now)
    server = OipGrpcServer(NumpyService(), "127.0.0.1", 0, tls=tls)
    await server.start()

    def channel(trusted: TlsSettings) -> grpc.aio.Channel:
        # A pool of its own: channels to one address otherwise share their connections.
        own = [("grpc.use_local_subchannel_pool", 1)]
        credentials = grpc.ssl_channel_credentials(Path(trusted.certificate).read_bytes())
        return grpc.aio.secure_channel(f"127.0.0.1:{server.port}", credentials, options=own)

    async def asked(of: grpc.aio.Channel) -> bytes:
        call = of.unary_unary("/inference.GRPCInferenceService/ServerLive")
        return bytes(await call(b"", timeout=20.0))

    try:
        async with channel(one) as before, channel(two) as after, channel(one) as late:
            live = await asked(before)
            put(two)
            assert await asyncio.to_thread(tls.reload)
            assert await asked(after) == live
            with pytest.raises(grpc.aio.AioRpcError):
                await asked(late)
            assert await asked(before) == live
            Path(now.key).write_text("no key")
            with pytest.raises(InvalidValue):
                tls.reload()
            async with channel(two) as still:
                assert await asked(still) == live
    finally:
        await server.stop(0.1)
