"""ONVIF devices on loopback for tests, written here by the specification (Core 2.x: device service, WS-Discovery,
WS-Security digest; Media 1 and 2), with their faults on demand. A server of others is in tests/trials."""

from __future__ import annotations

import base64
import hashlib
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from xml.sax.saxutils import escape

_ENVELOPE = (
    '<?xml version="1.0" encoding="UTF-8"?><s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope" '
    'xmlns:tds="http://www.onvif.org/ver10/device/wsdl" xmlns:trt="http://www.onvif.org/ver10/media/wsdl" '
    'xmlns:tr2="http://www.onvif.org/ver20/media/wsdl" xmlns:tt="http://www.onvif.org/ver10/schema">'
    "<s:Body>{body}</s:Body></s:Envelope>"
)
_FAULT = (
    "<s:Fault><s:Code><s:Value>s:Sender</s:Value>{sub}</s:Code><s:Reason><s:Text>{text}</s:Text></s:Reason></s:Fault>"
)
_SUBCODE = '<s:Subcode><s:Value xmlns:ter="http://www.onvif.org/ver10/error">ter:{code}</s:Value></s:Subcode>'
NONCE = "a0b1c2"
#: Ten entities of ten, nine times: a thousand million.
BOMB = (
    '<?xml version="1.0"?><!DOCTYPE z [<!ENTITY a0 "0123456789">'
    + "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10))
    + "]><z>&a9;</z>"
)


@dataclass(frozen=True)
class Stream:
    """A profile of a device; `codec` "": without an encoder."""

    token: str
    codec: str = "H264"
    width: int | str = 640
    height: int = 360
    fps: float | str = 15
    kbps: int = 512
    url: str = ""

    def xml(self, newer: bool) -> str:
        size = f"<tt:Resolution><tt:Width>{self.width}</tt:Width><tt:Height>{self.height}</tt:Height></tt:Resolution>"
        rate = f"<tt:FrameRateLimit>{self.fps}</tt:FrameRateLimit><tt:BitrateLimit>{self.kbps}</tt:BitrateLimit>"
        parts = f"<tt:Encoding>{self.codec}</tt:Encoding>{size}<tt:RateControl>{rate}</tt:RateControl>"
        if not newer:
            inner = f'<tt:VideoEncoderConfiguration token="e">{parts}</tt:VideoEncoderConfiguration>'
        else:
            inner = f'<tr2:Configurations><tr2:VideoEncoder token="e">{parts}</tr2:VideoEncoder></tr2:Configurations>'
        tag, name = ("tr2", "tr2:Name") if newer else ("trt", "tt:Name")
        named = f"<{name}>{self.token}</{name}>"
        return f'<{tag}:Profiles token="{self.token}">{named}{inner if self.codec else ""}</{tag}:Profiles>'


STREAMS = (
    Stream("main", "H265", 3840, 2160, 25, 8192),
    Stream("sub", "H264", 704, 576, 15, 512),
    Stream("third", "H264", 256, 144, 10, 128),
)


@dataclass
class Device:
    """A device at http://127.0.0.1:PORT. `raw` has whole answers by operation ("GetProfiles", "media2:GetProfiles") in
    place of its own, `answered` the operations asked; `host` it gives as its own. It offers the newer media service,
    the older one or `both`, and knows GetCapabilities if it is `old`. A login goes by WS-Security or, `http_digest`,
    by HTTP; a `refusal` (status) of the former has a fault with a `subcode` or without, in its own `sentence`. The
    addresses of the streams in `kept_back` are refused, those of the streams in `late` never come."""

    streams: tuple[Stream, ...] = STREAMS
    username: str = ""
    password: str = ""
    newer: bool = True
    both: bool = False
    old: bool = False
    http_digest: bool = False
    refusal: int = 400
    subcode: bool = True
    sentence: str = "Please log in first"
    kept_back: tuple[str, ...] = ()
    late: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    raw: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    silent: bool = False
    answered: list[str] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)
    port: int = 0
    ending: threading.Event = field(default_factory=threading.Event)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def answer(
        self, operation: str, body: str, place: str = "", authorization: str = ""
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body; `place` is the last part of the path that was asked."""
        for name in (f"{place}:{operation}", operation):
            if name in self.raw:
                return self.raw[name]
        open_to_all = operation in ("GetServices", "GetCapabilities", "GetSystemDateAndTime")
        if self.username and not open_to_all and self.http_digest:
            if not self._known_by_http(authorization):
                challenge = f'Digest realm="camera", nonce="{NONCE}", qop="auth", algorithm=MD5'
                return 401, {"www-authenticate": challenge}, b""
        elif (self.username and not open_to_all and not self._known(body)) or self._of(self.kept_back, body):
            return self.refusal, {}, self.fault("NotAuthorized" if self.subcode else "", self.sentence)
        if self._of(self.late, body):
            self.ending.wait(30)
        made = {
            "GetServices": self._services,
            "GetSystemDateAndTime": self._time,
            "GetDeviceInformation": self._information,
            "GetProfiles": lambda _: self._profiles(place),
            "GetStreamUri": self._uri,
        } | ({"GetCapabilities": self._capabilities} if self.old else {})
        if operation not in made:
            return 500, {}, self.fault("ActionNotSupported", "Optional action not implemented")
        return 200, {}, _ENVELOPE.format(body=made[operation](body)).encode()

    @staticmethod
    def fault(code: str, sentence: str) -> bytes:
        """A SOAP fault; without a subcode if `code` is empty."""
        sub = _SUBCODE.format(code=code) if code else ""
        return _ENVELOPE.format(body=_FAULT.format(sub=sub, text=sentence)).encode()

    @staticmethod
    def _of(tokens: tuple[str, ...], body: str) -> bool:
        return "GetStreamUri" in body and any(f"ProfileToken>{token}<" in body for token in tokens)

    def _known_by_http(self, authorization: str) -> bool:
        """RFC 7616 with MD5 and qop auth."""
        given = dict(re.findall(r'(\w+)="?([^",]*)"?', authorization.removeprefix("Digest ")))
        if given.get("username") != self.username or given.get("nonce") != NONCE:
            return False
        secret = _md5(f"{self.username}:camera:{self.password}")
        asked = _md5(f"POST:{given['uri']}")
        return given["response"] == _md5(f"{secret}:{NONCE}:{given['nc']}:{given['cnonce']}:auth:{asked}")

    def _known(self, body: str) -> bool:
        found = [
            re.search(rf"<\w+:{tag}(?: [^>]*)?>([^<]*)<", body) for tag in ("Username", "Password", "Nonce", "Created")
        ]
        if any(f is None for f in found):
            return False
        user, digest, nonce, created = (f[1] for f in found if f is not None)
        late = datetime.now(UTC) - timedelta(hours=1) - datetime.fromisoformat(created)
        made = hashlib.sha1(base64.b64decode(nonce) + created.encode() + self.password.encode()).digest()
        return user == self.username and abs(late) < timedelta(minutes=5) and base64.b64decode(digest) == made

    def _services(self, _: str) -> str:
        newer, older = self.newer or self.both, self.both or not self.newer
        spaces = {"device": "ver10/device"} | ({"media2": "ver20/media"} if newer else {})
        spaces |= {"media": "ver10/media"} if older else {}
        rows = "".join(
            f"<tds:Service><tds:Namespace>http://www.onvif.org/{space}/wsdl</tds:Namespace>"
            f"<tds:XAddr>http://{self.host}:{self.port}/onvif/{name}</tds:XAddr></tds:Service>"
            for name, space in spaces.items()
        )
        return f"<tds:GetServicesResponse>{rows}</tds:GetServicesResponse>"

    def _capabilities(self, _: str) -> str:
        media = f"<tt:Media><tt:XAddr>http://{self.host}:{self.port}/onvif/media</tt:XAddr></tt:Media>"
        parts = f"<tds:Capabilities>{media}</tds:Capabilities>"
        return f"<tds:GetCapabilitiesResponse>{parts}</tds:GetCapabilitiesResponse>"

    def _time(self, _: str) -> str:
        """An hour late: a digest is made by the device's clock."""
        at = datetime.now(UTC) - timedelta(hours=1)
        day = f"<tt:Year>{at.year}</tt:Year><tt:Month>{at.month}</tt:Month><tt:Day>{at.day}</tt:Day>"
        hour = f"<tt:Hour>{at.hour}</tt:Hour><tt:Minute>{at.minute}</tt:Minute><tt:Second>{at.second}</tt:Second>"
        utc = f"<tt:UTCDateTime><tt:Time>{hour}</tt:Time><tt:Date>{day}</tt:Date></tt:UTCDateTime>"
        parts = f"<tds:SystemDateAndTime>{utc}</tds:SystemDateAndTime>"
        return f"<tds:GetSystemDateAndTimeResponse>{parts}</tds:GetSystemDateAndTimeResponse>"

    def _information(self, _: str) -> str:
        parts = "<tds:Manufacturer>Heron</tds:Manufacturer><tds:Model>H-2</tds:Model>"
        return f"<tds:GetDeviceInformationResponse>{parts}</tds:GetDeviceInformationResponse>"

    def _profiles(self, place: str) -> str:
        newer = place == "media2"
        tag = "tr2" if newer else "trt"
        rows = "".join(s.xml(newer) for s in self.streams)
        return f"<{tag}:GetProfilesResponse>{rows}</{tag}:GetProfilesResponse>"

    def _uri(self, body: str) -> str:
        asked = re.search(r"ProfileToken>([^<]*)<", body)
        stream = next(s for s in self.streams if asked is not None and s.token == asked[1])
        url = escape(stream.url or f"rtsp://{self.host}:554/{stream.token}?a=1&b=2")
        return f"<tr2:GetStreamUriResponse><tr2:Uri>{url}</tr2:Uri></tr2:GetStreamUriResponse>"


def _md5(text: str) -> str:
    return hashlib.md5(text.encode()).hexdigest()


@contextmanager
def served(device: Device) -> Iterator[Device]:
    """The device answers until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            found = re.search(r"Body>\s*<(?:\w+:)?(\w+)", body)
            operation = "" if found is None else found[1]
            device.answered.append(operation)
            device.bodies.append(body + str(self.headers))
            if device.silent:
                device.ending.wait(30)
                return
            place, login = self.path.rpartition("/")[2], self.headers.get("authorization", "")
            status, headers, answer = device.answer(operation, body, place, login)
            self.send_response(status)
            for name, value in {"content-type": "application/soap+xml", **headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            try:
                self.wfile.write(answer)
            except OSError:
                return

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    device.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield device
    finally:
        device.ending.set()
        server.shutdown()
        server.server_close()
        thread.join()


def match(*xaddrs: str, name: str = "Yard%20gate", endpoint: str = "urn:uuid:1") -> bytes:
    """An answer to a probe."""
    return (
        '<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope" '
        'xmlns:d="http://schemas.xmlsoap.org/ws/2005/04/discovery" '
        'xmlns:a="http://schemas.xmlsoap.org/ws/2004/08/addressing"><s:Body><d:ProbeMatches><d:ProbeMatch>'
        f"<a:EndpointReference><a:Address>{endpoint}</a:Address></a:EndpointReference>"
        f"<d:Scopes>onvif://www.onvif.org/name/{name} onvif://www.onvif.org/hardware/H-2</d:Scopes>"
        f"<d:XAddrs>{' '.join(xaddrs)}</d:XAddrs></d:ProbeMatch></d:ProbeMatches></s:Body></s:Envelope>"
    ).encode()


@contextmanager
def answering(answers: list[bytes], types: str = "dn:NetworkVideoTransmitter tds:Device") -> Iterator[int]:
    """These answers go to each probe on the multicast group on loopback whose types are all among `types`. Yields the
    port to probe."""
    ear = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    ear.bind(("", 0))
    group = socket.inet_aton("239.255.255.250") + socket.inet_aton("127.0.0.1")
    ear.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)
    ear.settimeout(0.05)
    ending = threading.Event()

    def run() -> None:
        while not ending.is_set():
            try:
                data, sender = ear.recvfrom(65535)
            except TimeoutError:
                continue
            wanted = re.search(r"Types>([^<]*)<", data.decode())
            if b"discovery/Probe<" in data and wanted is not None and set(wanted[1].split()) <= set(types.split()):
                for answer in answers:
                    ear.sendto(answer, sender)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield ear.getsockname()[1]
    finally:
        ending.set()
        thread.join()
        ear.close()
