"""Virtual RTSP cameras: an RTSP 1.0 server for the demo, try-outs and tests, with faults on demand.

RTSP: RFC 2326 (TCP-interleaved and UDP), authentication: RFC 7617 and RFC 2069 (Basic, Digest), RTP and sender
reports: RFC 3550, H.264 payload: RFC 6184 (single NAL, FU-A), H.265 payload: RFC 7798 (single NAL, FU).

    python -m edge.demo.rtsp_server 8554 gate=gate.mp4 yard=yard_stills/
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hashlib
import hmac
import logging
import os
import random
import re
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import quote, unquote, urlsplit

from edge.core import checks
from edge.core.errors import InvalidValue, MagpieError, Unavailable
from edge.demo.video_sources import (
    CLOCK_HZ,
    AccessUnit,
    Codec,
    FileSource,
    StillsSource,
    VideoFormat,
    VideoSource,
    nal_type,
)

log = logging.getLogger("magpie.demo.rtsp")

Scheme = Literal["digest", "basic"]
REALM = "magpie"
SESSION_S = 60
NTP_EPOCH_S = 2_208_988_800  # seconds from 1900 to 1970
MAX_PAYLOAD = 1400
MAX_BACKLOG_BYTES = 4_000_000  # of a slow TCP client, before pictures are left out
MAX_JOIN_UNITS = 600  # pictures since the last key frame, kept for clients that join
REPORT_EVERY_S = 5.0
LINGER_S = 2.0  # how long an unwatched camera goes on
METHODS = ("OPTIONS", "DESCRIBE", "SETUP", "PLAY", "PAUSE", "GET_PARAMETER", "SET_PARAMETER", "TEARDOWN")


@dataclass(frozen=True)
class CameraStats:
    """Counters of one virtual camera. `units_left_out` were not sent to a client that is too slow."""

    viewers: int
    units: int
    packets: int
    packets_lost_on_purpose: int
    units_left_out: int
    failures: int


@dataclass
class _Faults:
    freeze: bool = False
    drop: float = 0.0
    corrupt: float = 0.0


def rtp_payloads(codec: Codec, nal: bytes, limit: int = MAX_PAYLOAD) -> list[bytes]:
    """One NAL unit as RTP payloads: itself, or fragments (FU-A of RFC 6184 5.8; FU of RFC 7798 4.4.3)."""
    if len(nal) <= limit:
        return [nal]
    kind = nal_type(codec, nal)
    if codec == "h264":
        header, body = bytes((nal[0] & 0xE0 | 28,)), nal[1:]
    else:
        header, body = bytes((nal[0] & 0x81 | 49 << 1, nal[1])), nal[2:]
    step = limit - len(header) - 1
    out = []
    for at in range(0, len(body), step):
        first, last = at == 0, at + step >= len(body)
        out.append(header + bytes((first << 7 | last << 6 | kind,)) + body[at : at + step])
    return out


def session_description(video: VideoFormat, host: str) -> str:
    """SDP (RFC 4566) of one camera."""
    sets = [base64.b64encode(s).decode() for s in video.parameter_sets]
    if video.codec == "h264":
        name, profile = "H264", video.parameter_sets[0][1:4].hex().upper()
        parameters = f"packetization-mode=1;profile-level-id={profile};sprop-parameter-sets={','.join(sets)}"
    else:
        name = "H265"
        names = ("sprop-vps", "sprop-sps", "sprop-pps")
        parameters = ";".join(f"{k}={v}" for k, v in zip(names, sets, strict=False))
    lines = (
        "v=0", f"o=- 1 1 IN IP4 {host}", "s=magpie virtual camera", "c=IN IP4 0.0.0.0", "t=0 0", "a=control:*",
        "m=video 0 RTP/AVP 96", f"a=rtpmap:96 {name}/{CLOCK_HZ}", f"a=fmtp:96 {parameters}",
        f"a=framerate:{video.fps:g}", "a=control:trackID=0", "",
    )  # fmt: skip
    return "\r\n".join(lines)


class RtspServer:
    """Serves each of `cameras` at `rtsp://host:port/name`, from its own thread between `start` and `stop`.

    Port 0 takes a free one. `credentials` are (user, password), asked for by `scheme`. A camera produces while a client
    watches, or all the time with `always`. Faults for tests can be set from any thread at any time.

    :raises InvalidValue: a name, scheme or port is not allowed.
    """

    def __init__(
        self,
        host: str,
        port: int,
        cameras: Mapping[str, VideoSource],
        credentials: tuple[str, str] | None = None,
        scheme: Scheme = "digest",
        *,
        always: bool = False,
        seed: int = 0,
    ) -> None:
        checks.in_range("rtsp_server.port", port, 0, 65535)
        checks.one_of("rtsp_server.scheme", scheme, ("digest", "basic"))
        checks.not_empty("rtsp_server.cameras", list(cameras))
        for name in cameras:
            if not name or name != name.strip("/ ") or any(c in name for c in "?#\r\n"):
                raise InvalidValue("rtsp_server.cameras", name, "names fit for a URL path")
        self.host, self.port = host, port
        self._credentials, self._scheme = credentials, scheme
        self._nonce = os.urandom(16).hex()
        self._always = always
        self._rng = random.Random(seed)
        self._sources = dict(cameras)
        self._cameras: dict[str, _Camera] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._server: asyncio.Server | None = None
        self._connections: set[_RtspConnection] = set()
        self._hang = False

    # -- life --------------------------------------------------------------------------------------------------

    def start(self) -> RtspServer:
        """Open the port and begin to serve; returns when clients can connect.

        :raises Unavailable: the port cannot be opened.
        :raises CameraError: a source cannot be shown.
        """
        if self._loop is not None:
            raise RuntimeError("an RtspServer is started once")
        formats = {name: source.describe() for name, source in self._sources.items()}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="rtsp-server", daemon=True)
        self._thread.start()
        count = len(formats)
        for n, (name, video) in enumerate(formats.items()):
            phase_s = n / count / video.fps  # live cameras do not all draw in the same instant
            rng = random.Random(self._rng.random())
            self._cameras[name] = _Camera(name, self._sources[name], video, self._loop, self._always, phase_s, rng)
        try:
            self._call(self._listen())
        except OSError as error:
            self.stop()
            where = f"{self.host}:{self.port}"
            raise Unavailable(f"cannot serve RTSP on {where}: {error.strerror}", "choose another port") from None
        for camera in self._cameras.values():
            camera.start()
        return self

    def stop(self) -> None:
        """Close all connections and end all threads."""
        if self._loop is None or self._thread is None or not self._thread.is_alive():
            return
        for camera in self._cameras.values():
            camera.stop()
        self._call(self._close_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5.0)
        self._loop.close()

    def __enter__(self) -> RtspServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def url(self, name: str, with_credentials: bool = False) -> str:
        """The camera's URL; with user and password inside only if asked for."""
        host = "127.0.0.1" if self.host in ("", "0.0.0.0") else self.host
        user = ""
        if with_credentials and self._credentials:
            user = ":".join(quote(c, safe="") for c in self._credentials) + "@"
        return f"rtsp://{user}{host}:{self.port}/{quote(name)}"

    def stats(self, name: str) -> CameraStats:
        """Counters of one camera since the start."""
        return self._cameras[name].stats()

    # -- faults ------------------------------------------------------------------------------------------------

    def freeze_media(self, name: str, on: bool = True) -> None:
        """The camera stays connected and answers, but sends no pictures."""
        self._cameras[name].faults.freeze = on

    def drop_packets(self, name: str, share: float) -> None:
        """Lose this share (0-1) of the RTP packets."""
        checks.in_range("share", share, 0.0, 1.0)
        self._cameras[name].faults.drop = share

    def corrupt_packets(self, name: str, share: float) -> None:
        """Flip a byte in this share (0-1) of the RTP packets."""
        checks.in_range("share", share, 0.0, 1.0)
        self._cameras[name].faults.corrupt = share

    def hang(self, on: bool = True) -> None:
        """Accept connections, but neither answer nor send anything, as a stopped process would."""
        self._hang = on

    def refuse_connections(self, on: bool = True) -> None:
        """Close the port (or open it again). Connections that exist go on."""
        self._call(self._unlisten() if on else self._listen())

    def kill_connections(self) -> None:
        """Cut every connection at once."""
        self._call(self._cut())

    # -- inside the loop ---------------------------------------------------------------------------------------

    def _call(self, work: object) -> None:
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10.0)  # type: ignore[arg-type]

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, self.host or None, self.port, backlog=64)
            self.port = self._server.sockets[0].getsockname()[1]

    async def _unlisten(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _cut(self) -> None:
        for connection in list(self._connections):
            connection.abort()

    async def _close_all(self) -> None:
        await self._unlisten()
        await self._cut()
        me = asyncio.current_task()
        tasks = [t for t in asyncio.all_tasks() if t is not me]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _RtspConnection(self, reader, writer)
        self._connections.add(connection)
        try:
            await connection.run()
        finally:
            self._connections.discard(connection)

    def authorised(self, method: str, header: str) -> bool:
        """Whether the Authorization header of a request is right."""
        if self._credentials is None:
            return True
        user, password = self._credentials
        kind, _, rest = header.partition(" ")
        if self._scheme == "basic":
            expected = base64.b64encode(f"{user}:{password}".encode()).decode()
            return kind.lower() == "basic" and hmac.compare_digest(rest.strip().encode(), expected.encode())
        given = dict(re.findall(r'(\w+)="([^"]*)"', rest))
        secret = _md5(f"{user}:{REALM}:{password}")
        request = _md5(f"{method}:{given.get('uri', '')}")
        expected = _md5(f"{secret}:{self._nonce}:{request}")
        right = given.get("username") == user and given.get("nonce") == self._nonce
        return (
            kind.lower() == "digest"
            and right
            and hmac.compare_digest(given.get("response", "").encode(), expected.encode())
        )

    def challenge(self) -> str:
        """Value of the WWW-Authenticate header."""
        if self._scheme == "basic":
            return f'Basic realm="{REALM}"'
        return f'Digest realm="{REALM}", nonce="{self._nonce}"'


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


@dataclass
class _Packets:
    """Packets of one source since the start: sent, lost on purpose, and left out for a slow viewer."""

    sent: int = 0
    lost: int = 0
    left_out: int = 0


class _Camera:
    """One mounted source: a producer thread that paces it, and the viewers that its pictures go to."""

    def __init__(
        self,
        name: str,
        source: VideoSource,
        video: VideoFormat,
        loop: asyncio.AbstractEventLoop,
        always: bool,
        phase_s: float,
        rng: random.Random,
    ) -> None:
        self.name, self.video, self.rng = name, video, rng
        self.faults = _Faults()
        self._source, self._loop, self._always = source, loop, always
        self._epoch_s = time.monotonic() + phase_s
        self._viewers: set[_Viewer] = set()
        self._since_key: list[AccessUnit] = []
        self._lock = threading.Lock()  # viewers, pictures since the last key frame, parked or not
        self._parked = not always
        self._left_s = float("-inf")
        self._stop, self._wanted = threading.Event(), threading.Event()
        if always:
            self._wanted.set()
        self._thread = threading.Thread(target=self._produce, name=f"rtsp-{name}", daemon=True)
        self._units = self._failures = 0
        self.packets = _Packets()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._wanted.set()
        if self._thread.is_alive():
            self._thread.join(5.0)

    def stats(self) -> CameraStats:
        return CameraStats(
            len(self._viewers), self._units, self.packets.sent, self.packets.lost, self.packets.left_out, self._failures
        )

    def utc(self, stream_s: float) -> float:
        """UTC epoch seconds of a stream time."""
        return time.time() + stream_s - self._elapsed()

    def join(self, viewer: _Viewer) -> None:
        """Add a viewer; it gets what came since the last key frame at once."""
        with self._lock:
            if viewer in self._viewers:
                return
            if not self.faults.freeze:
                for unit in self._since_key:
                    viewer.send(unit)
            self._viewers.add(viewer)
            self._parked = False
            self._wanted.set()

    def leave(self, viewer: _Viewer) -> None:
        """Remove a viewer. Producing goes on for a moment, for the client that comes straight back."""
        with self._lock:
            self._viewers.discard(viewer)
            self._left_s = time.monotonic()

    def _park(self) -> bool:
        """Stop producing if no client has watched for a while."""
        with self._lock:
            unwatched_s = time.monotonic() - self._left_s
            if self._always or self._viewers or unwatched_s < LINGER_S:
                return False
            self._parked = True
            self._wanted.clear()
            self._since_key.clear()
            return True

    def _elapsed(self) -> float:
        return time.monotonic() - self._epoch_s

    def _produce(self) -> None:
        _be_nice()
        while not self._stop.is_set():
            self._wanted.wait()
            try:
                self._produce_while_wanted()
            except MagpieError as error:
                self._failures += 1
                log.warning("virtual camera %s: %s", self.name, error)
                self._stop.wait(1.0)
            except Exception:
                # A drawing function or a damaged file must not end the camera for good.
                self._failures += 1
                log.exception("virtual camera %s: its source failed", self.name)
                self._stop.wait(1.0)

    def _produce_while_wanted(self) -> None:
        start_s = max(0.0, self._elapsed())
        for unit in self._source.units(start_s, self._elapsed, self._stop):
            late_s = self._elapsed() - unit.due_s
            if late_s < 0:
                self._stop.wait(-late_s)
            if self._stop.is_set() or self._park():
                return
            if late_s > 2.0:  # too slow a machine, or it was suspended: go on from here
                self._epoch_s += late_s
            self._loop.call_soon_threadsafe(self._publish, unit)

    def _publish(self, unit: AccessUnit) -> None:
        with self._lock:
            if self._parked:
                return
            self._units += 1
            if unit.key:
                self._since_key.clear()
            if self._since_key or unit.key:
                self._since_key.append(unit)
            if len(self._since_key) > MAX_JOIN_UNITS:
                self._since_key.clear()
            if not self.faults.freeze:
                for viewer in self._viewers:
                    viewer.send(unit)


def _be_nice() -> None:
    """Virtual cameras leave the processor to the appliance that they feed (Linux: priority of this thread)."""
    try:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 5)
    except (AttributeError, OSError):
        log.debug("the priority of a virtual camera's thread could not be lowered")


class _Viewer:
    """One playing client: packs access units into RTP and reports the camera's wall clock by RTCP."""

    def __init__(
        self,
        camera: _Camera,
        write_rtp: Callable[[bytes], None],
        write_rtcp: Callable[[bytes], None],
        backlog: Callable[[], int],
        hung: Callable[[], bool],
    ) -> None:
        self.camera = camera
        self._rtp, self._rtcp, self._backlog, self._hung = write_rtp, write_rtcp, backlog, hung
        self._sequence = camera.rng.getrandbits(16)
        self._ssrc, self._base = camera.rng.getrandbits(32), camera.rng.getrandbits(32)
        self._packets = self._octets = 0
        self._reported_s = float("-inf")
        self._began = False

    def send(self, unit: AccessUnit) -> None:
        if self._hung():
            return
        if self._backlog() > MAX_BACKLOG_BYTES:
            self._began = False  # go on at a key frame
        if not self._began and not unit.key:
            self.camera.packets.left_out += 1
            return
        self._began = True
        stamp = (self._base + round(unit.shown_s * CLOCK_HZ)) & 0xFFFFFFFF
        if time.monotonic() - self._reported_s >= REPORT_EVERY_S:
            self._report(unit, stamp)
        codec, last = self.camera.video.codec, len(unit.nals) - 1
        for n, nal in enumerate(unit.nals):
            payloads = rtp_payloads(codec, nal)
            for m, payload in enumerate(payloads):
                self._packet(payload, stamp, n == last and m == len(payloads) - 1)

    def _report(self, unit: AccessUnit, stamp: int) -> None:
        """RTCP sender report (RFC 3550 6.4.1): which wall-clock time belongs to which RTP time."""
        self._reported_s = time.monotonic()
        ntp = self.camera.utc(unit.shown_s) + NTP_EPOCH_S
        seconds, fraction = int(ntp), int(ntp % 1 * 2**32)
        counts = (self._packets & 0xFFFFFFFF, self._octets & 0xFFFFFFFF)
        report = struct.pack("!BBHIIIIII", 0x80, 200, 6, self._ssrc, seconds & 0xFFFFFFFF, fraction, stamp, *counts)
        name = b"magpie"
        padding = b"\0" * (4 - (2 + len(name)) % 4)
        items = bytes((1, len(name))) + name + padding
        self._rtcp(report + struct.pack("!BBHI", 0x81, 202, 1 + len(items) // 4, self._ssrc) + items)

    def _packet(self, payload: bytes, stamp: int, marker: bool) -> None:
        camera = self.camera
        self._sequence = (self._sequence + 1) & 0xFFFF
        self._packets += 1
        self._octets += len(payload)
        if camera.faults.drop and camera.rng.random() < camera.faults.drop:
            camera.packets.lost += 1
            return
        if camera.faults.corrupt and len(payload) > 3 and camera.rng.random() < camera.faults.corrupt:
            damaged = bytearray(payload)
            damaged[camera.rng.randrange(3, len(damaged))] ^= 0xFF
            payload = bytes(damaged)
        camera.packets.sent += 1
        header = struct.pack("!BBHII", 0x80, 96 | marker << 7, self._sequence, stamp, self._ssrc)
        self._rtp(header + payload)


@dataclass
class _Request:
    method: str
    url: str
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def camera(self) -> str:
        """The camera's name: the path of the URL, without the track."""
        path = unquote(urlsplit(self.url).path).strip("/")
        return path.removesuffix("trackID=0").strip("/")


class _RtspConnection:
    """One client's control connection and its only session."""

    def __init__(self, server: RtspServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._server, self._reader, self._writer = server, reader, writer
        self._session = os.urandom(8).hex()
        self._viewer: _Viewer | None = None
        self._sockets: list[asyncio.DatagramTransport] = []

    def abort(self) -> None:
        self._end_session()
        self._writer.transport.abort()

    async def run(self) -> None:
        """Serve until the client goes, is silent for too long (UDP), or says something that is not RTSP."""
        try:
            while True:
                limit_s = 3 * SESSION_S if self._sockets else None
                async with asyncio.timeout(limit_s):
                    request = await self._next_request()
                if self._server._hang:
                    continue
                if request is None or not await self._handle(request):
                    return
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError, OSError):
            return  # the client is gone, or does not speak RTSP
        finally:
            self._end_session()
            self._writer.close()

    def _end_session(self) -> None:
        if self._viewer is not None:
            self._viewer.camera.leave(self._viewer)
            self._viewer = None
        for transport in self._sockets:
            transport.close()
        self._sockets.clear()

    async def _next_request(self) -> _Request | None:
        """The next request; None for one that cannot be read (it is answered here)."""
        while True:
            first = await self._reader.readexactly(1)
            if first == b"$":  # the client's RTCP between requests
                _, size = struct.unpack("!BH", await self._reader.readexactly(3))
                await self._reader.readexactly(size)
            elif first not in (b"\r", b"\n"):
                break
        head = (first + await self._reader.readuntil(b"\r\n\r\n")).decode("utf-8", "replace")
        line, *rest = head.strip().split("\r\n")
        headers = {k.strip().lower(): v.strip() for k, _, v in (h.partition(":") for h in rest)}
        words = line.split()
        length = headers.get("content-length", "0")
        if len(words) != 3 or not words[2].startswith("RTSP/1.") or not length.isdecimal() or len(length) > 5:
            self._reply(headers, 400, "Bad Request")
            return None
        await self._reader.readexactly(int(length))
        return _Request(words[0], words[1], headers)

    def _reply(self, request_headers: Mapping[str, str], code: int, text: str, body: str = "", **headers: str) -> None:
        lines = [f"RTSP/1.0 {code} {text}", f"CSeq: {request_headers.get('cseq', '0')}"]
        lines += [f"{k.replace('_', '-')}: {v}" for k, v in headers.items()]
        if body:
            lines += ["Content-Type: application/sdp", f"Content-Length: {len(body.encode())}"]
        if not self._writer.is_closing():
            self._writer.write(("\r\n".join(lines) + "\r\n\r\n" + body).encode())

    async def _handle(self, request: _Request) -> bool:
        """Answer one request; False ends the connection."""
        server, headers = self._server, request.headers
        if request.method not in METHODS:
            self._reply(headers, 501, "Not Implemented")
            return True
        if request.method == "OPTIONS":
            self._reply(headers, 200, "OK", Public=", ".join(METHODS))
            return True
        if not server.authorised(request.method, headers.get("authorization", "")):
            self._reply(headers, 401, "Unauthorized", WWW_Authenticate=server.challenge())
            return True
        if request.method in ("DESCRIBE", "SETUP"):
            camera = server._cameras.get(request.camera)
            if camera is None:
                self._reply(headers, 404, "Not Found")
            elif request.method == "DESCRIBE":
                host = self._writer.get_extra_info("sockname")[0]
                base = request.url.rstrip("/") + "/"
                description = session_description(camera.video, host)
                self._reply(headers, 200, "OK", description, Content_Base=base)
            else:
                await self._set_up(request, camera)
            return True
        return await self._control(request)

    async def _set_up(self, request: _Request, camera: _Camera) -> None:
        asked = request.headers.get("transport", "")
        if self._viewer is not None:
            self._reply(request.headers, 455, "Method Not Valid in This State")
            return
        ports = re.search(r"client_port=(\d{1,5})-(\d{1,5})", asked)
        if "RTP/AVP/TCP" in asked:
            channels = re.search(r"interleaved=(\d{1,3})-", asked)
            channel = min(int(channels[1]), 254) if channels else 0
            self._viewer = self._viewer_of(camera, self._interleaved(channel), self._interleaved(channel + 1))
            transport = f"RTP/AVP/TCP;unicast;interleaved={channel}-{channel + 1}"
        elif asked.startswith("RTP/AVP") and "multicast" not in asked and ports:
            await self._open_udp((int(ports[1]), int(ports[2])))
            rtp, rtcp = self._sockets
            self._viewer = self._viewer_of(camera, rtp.sendto, rtcp.sendto)
            own = "-".join(str(s.get_extra_info("sockname")[1]) for s in self._sockets)
            transport = f"RTP/AVP;unicast;client_port={ports[1]}-{ports[2]};server_port={own}"
        else:
            self._reply(request.headers, 461, "Unsupported Transport")
            return
        session = f"{self._session};timeout={SESSION_S}"
        self._reply(request.headers, 200, "OK", Session=session, Transport=transport)

    def _viewer_of(self, camera: _Camera, rtp: Callable[[bytes], None], rtcp: Callable[[bytes], None]) -> _Viewer:
        return _Viewer(camera, rtp, rtcp, self._writer.transport.get_write_buffer_size, lambda: self._server._hang)

    def _interleaved(self, channel: int) -> Callable[[bytes], None]:
        def write(data: bytes) -> None:
            if not self._writer.is_closing():
                self._writer.write(struct.pack("!BBH", 0x24, channel, len(data)) + data)

        return write

    async def _open_udp(self, client_ports: tuple[int, int]) -> None:
        loop = asyncio.get_running_loop()
        peer = self._writer.get_extra_info("peername")[0]
        mine = self._writer.get_extra_info("sockname")[0]
        for port in client_ports:
            transport, _ = await loop.create_datagram_endpoint(
                asyncio.DatagramProtocol, local_addr=(mine, 0), remote_addr=(peer, port)
            )
            self._sockets.append(transport)

    async def _control(self, request: _Request) -> bool:
        headers = request.headers
        if self._viewer is None and request.method in ("PLAY", "PAUSE"):
            self._reply(headers, 455, "Method Not Valid in This State")
            return True
        if headers.get("session", self._session).partition(";")[0] != self._session:
            self._reply(headers, 454, "Session Not Found")
            return True
        self._reply(headers, 200, "OK", Session=self._session, **self._play_headers(request))
        if request.method == "TEARDOWN":
            return False
        if request.method == "PLAY" and self._viewer is not None:
            await self._writer.drain()
            if self._viewer is not None:
                self._viewer.camera.join(self._viewer)
        elif request.method == "PAUSE" and self._viewer is not None:
            self._viewer.camera.leave(self._viewer)
        return True

    @staticmethod
    def _play_headers(request: _Request) -> dict[str, str]:
        return {"Range": "npt=0.000-"} if request.method == "PLAY" else {}


def serve_paths(
    host: str,
    port: int,
    paths: Mapping[str, Sequence[str | Path]],
    credentials: tuple[str, str] | None = None,
    scheme: Scheme = "digest",
) -> RtspServer:
    """A started server of files (several of one name are played in turn) or folders of stills.

    :raises InvalidValue, CameraError, Unavailable: a path cannot be shown, or the port cannot be opened.
    """
    cameras: dict[str, VideoSource] = {}
    for name, files in paths.items():
        stills = len(files) == 1 and Path(files[0]).is_dir()
        cameras[name] = StillsSource(files[0]) if stills else FileSource(*files)
    return RtspServer(host, port, cameras, credentials, scheme).start()


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m edge.demo.rtsp_server PORT name=path[,path...] ...`: serve until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m edge.demo.rtsp_server", description="Virtual RTSP cameras.")
    parser.add_argument("port", type=int, help="TCP port (0: any free one)")
    parser.add_argument("camera", nargs="+", help="name=path of a video file or a folder of stills; commas join files")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    parser.add_argument("--user", default="", help="ask for this user name")
    parser.add_argument("--password-env", default="", help="environment variable that holds the password")
    parser.add_argument("--scheme", choices=("digest", "basic"), default="digest", help="how to ask for the password")
    arguments = parser.parse_args(argv)
    try:
        paths = {}
        for text in arguments.camera:
            name, equals, files = text.partition("=")
            if not (name and equals and files):
                raise InvalidValue("camera", text, "name=path")
            paths[name] = files.split(",")
        credentials = None
        if arguments.user:
            password = os.environ.get(arguments.password_env)
            if password is None:
                raise InvalidValue("--password-env", arguments.password_env, "the name of a variable that is set")
            credentials = (arguments.user, password)
        server = serve_paths(arguments.host, arguments.port, paths, credentials, arguments.scheme)
    except MagpieError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    for name in paths:
        sys.stdout.write(server.url(name) + "\n")
    sys.stdout.flush()
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
