"""Files that cameras may show: a path and no other protocol, and by REST only of some folders."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from edge.core.errors import InvalidValue, InvalidValues
from edge.ingest.probe import probe_camera
from edge.ingest.source import CameraSource
from edge.settings import CameraSettings, parse

PROTOCOLS = ["http:127.0.0.1:9/x", "concat:/srv/a.jpg|/srv/b.jpg", "subfile,,start,0,end,9,,:/etc/passwd", "pipe:0"]


@pytest.mark.parametrize("url", PROTOCOLS)
def test_other_protocols_are_refused(url: str) -> None:
    with pytest.raises(InvalidValues, match="begins as another protocol"):
        parse(CameraSettings, {"id": "a", "url": url, "classes": ["car"]})


def test_a_playlist_of_a_file_reaches_no_server(tmp_path: Path) -> None:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    playlist = tmp_path / "live.m3u8"
    place = f"127.0.0.1:{server.server_address[1]}"
    playlist.write_text(f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nhttp://{place}/a.ts\n#EXT-X-ENDLIST\n")
    try:
        for url in (str(playlist), f"http:{place}/a"):
            assert not probe_camera(CameraSource("a", url))["ok"]
    finally:
        server.shutdown()
        server.server_close()
    assert asked == []


def test_by_rest_files_of_the_allowed_folders_are_shown_and_no_others(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "a.mp4").touch()
    (inside / "link").symlink_to(outside)
    allowed = [str(inside)]
    for good in (inside / "a.mp4", inside, f"file://{inside}/a.mp4"):
        CameraSource("a", str(good)).check_folder("", allowed)
    CameraSource("a", "rtsp://192.0.2.1/x").check_folder("", ())
    CameraSource("a", str(outside)).check_folder(str(outside), ())  # it is there already
    for bad in (outside, inside / "link" / "a.mp4", f"{inside}/../outside/a.mp4", "/etc/passwd", f"{inside}x"):
        with pytest.raises(InvalidValue, match=r"web\.access\.media_folders") as refused:
            CameraSource("a", str(bad)).check_folder("", allowed)
        assert refused.value.path == "url"
