"""The fetcher against a server that breaks off and lies: a file gets its name whole and right, or not at all."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import multiprocessing
import os
import pickle
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lying_server import Answer, LyingServer, certificate, wait_until
from models_kit import CONTENT, entry_of, largest_file

from edge.core.clock import ManualClock
from edge.core.errors import DiskFull, InvalidValue, StoreError
from edge.models.catalogue import CatalogueEntry
from edge.models.fetch import (
    Fetched,
    Fetcher,
    FetchFailed,
    FetchPatience,
    FetchProgress,
    FetchWaiting,
    Happening,
    StartedAnew,
    Trouble,
    mirror_address,
)
from edge.models.folder import ModelsFolder

WRONG = bytes(255 - b for b in CONTENT)
PATIENCE = FetchPatience(timeout_s=5.0)


class Bench:
    """A fetcher whose clock and pauses are the test's; `heard` has its messages."""

    def __init__(self, folder: ModelsFolder, patience: FetchPatience = PATIENCE) -> None:
        self.folder, self.clock = folder, ManualClock()
        self.heard: list[Happening] = []
        self.pauses: list[float] = []
        self.chunk_s = 0.0  # each piece that comes takes so long
        self.fetcher = Fetcher(folder, self.clock, self._pause, self._note, patience)

    def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.clock.advance(seconds)

    def _note(self, happening: Happening) -> None:
        self.heard.append(happening)
        if isinstance(happening, FetchProgress):
            self.clock.advance(self.chunk_s)

    def fetch(self, entry: CatalogueEntry, *addresses: str) -> Fetched:
        return self.fetcher.fetch(entry, addresses)

    def troubles(self) -> list[str]:
        return [t.kind for t in self.heard if isinstance(t, Trouble)]

    def names(self) -> set[str]:
        """The names in the folder, but locks."""
        return {p.name for p in self.folder.path.iterdir() if p.suffix != ".lock"}


@pytest.fixture
def bench(folder: ModelsFolder) -> Bench:
    return Bench(folder)


def refused(bench: Bench, entry: CatalogueEntry, *addresses: str) -> list[str]:
    """The kinds of what every address did wrong; nothing has the file's name afterwards."""
    with pytest.raises(FetchFailed) as failed:
        bench.fetch(entry, *addresses)
    assert not bench.folder.file(entry.file).exists()
    assert not bench.folder.file(f"{entry.file}.json").exists()
    assert pickle.loads(pickle.dumps(failed.value)).troubles == failed.value.troubles
    for trouble in failed.value.troubles:
        assert trouble.address in str(failed.value)
        assert trouble.message in str(failed.value)
    return [t.kind for t in failed.value.troubles]


def test_a_file_comes_with_its_notice(bench: Bench) -> None:
    with LyingServer(CONTENT) as server:
        done = bench.fetch(entry_of(), server.url())
        again = bench.fetch(entry_of(), server.url())
    assert (done.how, done.address, done.bytes) == ("came", server.url(), len(CONTENT))
    assert again.how == "was_here"
    assert done.path.read_bytes() == CONTENT
    assert len(server.asked) == 1
    assert (server.asked[0].range, server.asked[0].encoding) == ("", "identity")
    assert bench.names() == {"net.onnx", "net.onnx.json"}
    assert json.loads((bench.folder.path / "net.onnx.json").read_text()) == {
        "name": "net", "file": "net.onnx", "address": server.url(), "sha256": hashlib.sha256(CONTENT).hexdigest(),
        "bytes": len(CONTENT), "licence": "Apache-2.0", "attribution": "Ann Author", "origin": "fetched",
        "at": "2023-11-14T22:13:20Z", "modified": False,
    }  # fmt: skip
    assert [h for h in bench.heard if not isinstance(h, FetchProgress)] == []
    assert bench.heard[-1] == FetchProgress("net", len(CONTENT), len(CONTENT))


def test_a_file_that_was_put_there_by_hand_gets_a_notice_too(bench: Bench) -> None:
    bench.folder.make()
    bench.folder.file("net.onnx").write_bytes(CONTENT)
    assert bench.fetch(entry_of(), "http://127.0.0.1:1/never-asked").how == "was_here"
    notice = bench.folder.notice("net.onnx")
    assert notice is not None
    assert (notice.origin, notice.address, notice.licence) == ("found", "", "Apache-2.0")


@pytest.mark.parametrize("reset", [False, True])
def test_what_broke_off_goes_on_exactly_there(bench: Bench, reset: bool) -> None:
    cut = Answer(cut=100_000, reset=reset, headers={"ETag": '"a"'})
    with LyingServer(CONTENT, cut, cut, Answer(headers={"ETag": '"a"'})) as server:
        bench.fetch(entry_of(), server.url())
    assert bench.folder.file("net.onnx").read_bytes() == CONTENT
    assert server.asked[0].range == ""
    starts = [int(a.range.removeprefix("bytes=").rstrip("-")) for a in server.asked[1:]]
    if not reset:  # a reset may take bytes with it that were under way
        assert starts == [100_000, 200_000]
    assert all(a.if_range == '"a"' for a in server.asked[1:])
    assert bench.troubles() == ["broke_off"] * 2


# All cuts together are shorter than the file.
@settings(max_examples=30)
@given(st.lists(st.integers(1, 59_000), max_size=5), st.booleans(), st.booleans())
def test_wherever_it_breaks_off_the_file_is_the_same(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], ranges: bool, chunked: bool
) -> None:
    bench = Bench(ModelsFolder(tmp_path_factory.mktemp("models")), FetchPatience(tries=7, timeout_s=5.0))
    answers = [Answer(cut=cut, ranges=ranges, chunked=chunked) for cut in cuts] + [
        Answer(ranges=ranges, chunked=chunked)
    ]
    with LyingServer(CONTENT, *answers) as server:
        bench.fetch(entry_of(), server.url())
    assert bench.folder.file("net.onnx").read_bytes() == CONTENT
    assert len(server.asked) == len(cuts) + 1
    assert bench.names() == {"net.onnx", "net.onnx.json"}


def test_another_run_goes_on_too_and_from_another_mirror(folder: ModelsFolder) -> None:
    begun = Answer(cut=120_000, headers={"ETag": '"first"'})
    with LyingServer(CONTENT, begun, Answer(status=404, content=b"")) as first:
        assert refused(Bench(folder), entry_of(), first.url()) == ["status"]
    assert folder.part("net.onnx").read_bytes() == CONTENT[:120_000]
    with LyingServer(CONTENT) as second:
        bench = Bench(folder)
        assert bench.fetch(entry_of(), first.url(), second.url()).address == second.url()
    assert [a.range for a in second.asked] == ["bytes=120000-"]
    assert second.asked[0].if_range == ""  # the first mirror's marks say nothing about the second's
    assert folder.file("net.onnx").read_bytes() == CONTENT
    assert bench.names() == {"net.onnx", "net.onnx.json"}


def test_a_beginning_of_something_else_is_not_continued(folder: ModelsFolder) -> None:
    with LyingServer(WRONG, Answer(cut=50_000), Answer(status=404, content=b"")) as server:
        refused(Bench(folder), entry_of(WRONG), server.url())
    with LyingServer(CONTENT) as server:
        Bench(folder).fetch(entry_of(), server.url())
    assert [a.range for a in server.asked] == [""]


@pytest.mark.parametrize("note", [b"", b"{", b"[]", b'{"of": 3}'])
def test_a_beginning_whose_note_is_damaged_is_not_continued(folder: ModelsFolder, note: bytes) -> None:
    folder.make()
    folder.part("net.onnx").write_bytes(CONTENT[:1000])
    folder.file("net.onnx.part.json").write_bytes(note)
    with LyingServer(CONTENT) as server:
        Bench(folder).fetch(entry_of(), server.url())
    assert [a.range for a in server.asked] == [""]


def test_a_damaged_beginning_is_found_by_the_hash_and_fetched_once_more(folder: ModelsFolder) -> None:
    """A power loss may leave anything in what was not yet fsynced."""
    with LyingServer(CONTENT, Answer(cut=120_000), Answer(status=404, content=b"")) as server:
        refused(Bench(folder), entry_of(), server.url())
    part = folder.part("net.onnx")
    part.write_bytes(bytes(1000) + part.read_bytes()[1000:])
    bench = Bench(folder)
    with LyingServer(CONTENT) as server:
        bench.fetch(entry_of(), server.url())
    assert [a.range for a in server.asked] == ["bytes=120000-", ""]
    assert bench.troubles() == ["wrong_content"]
    assert folder.file("net.onnx").read_bytes() == CONTENT


def test_all_bytes_came_and_the_power_failed_before_the_check(folder: ModelsFolder) -> None:
    folder.make()
    note = {"of": entry_of().sha256, "pieces": 1, "address": "http://127.0.0.1:1/", "validator": ""}
    folder.file("net.onnx.part.json").write_text(json.dumps(note))
    folder.part("net.onnx").write_bytes(CONTENT)
    assert Bench(folder).fetch(entry_of(), "http://127.0.0.1:1/never-asked").how == "came"
    folder.file("net.onnx").unlink()
    folder.file("net.onnx.part.json").write_text(json.dumps(note))
    folder.part("net.onnx").write_bytes(WRONG)
    with LyingServer(CONTENT) as server:
        Bench(folder).fetch(entry_of(), server.url())
    assert folder.file("net.onnx").read_bytes() == CONTENT


def test_a_server_that_ignores_range_is_reported_and_taken_from_the_start(bench: Bench) -> None:
    with LyingServer(CONTENT, Answer(cut=100_000), Answer(ranges=False)) as server:
        bench.fetch(entry_of(), server.url())
    assert server.asked[1].range == "bytes=100000-"
    assert StartedAnew("net", server.url(), 100_000) in bench.heard
    assert bench.folder.file("net.onnx").read_bytes() == CONTENT


@pytest.mark.parametrize("mark", ["ETag", "Last-Modified"])
def test_a_file_that_changes_in_the_middle(bench: Bench, mark: str) -> None:
    """The old one begins, the new one (which is the right one) goes on: nothing of both is put together."""
    old = {mark: '"old"' if mark == "ETag" else "Sat, 21 Nov 2026 10:00:00 GMT"}
    new = {mark: '"new"' if mark == "ETag" else "Sun, 22 Nov 2026 10:00:00 GMT"}
    with LyingServer(CONTENT, Answer(content=WRONG, cut=100_000, headers=old), Answer(headers=new)) as server:
        bench.fetch(entry_of(), server.url())
    assert server.asked[1].if_range == old[mark]
    assert StartedAnew("net", server.url(), 100_000) in bench.heard
    assert len(server.asked) == 2
    assert bench.folder.file("net.onnx").read_bytes() == CONTENT


def test_a_file_that_changes_in_the_middle_of_a_server_that_does_not_look(bench: Bench) -> None:
    """It answers with a part of the new file although the condition names the old one."""
    tail = Answer(
        content=CONTENT[100_000:], status=206, headers={"ETag": '"new"'},
        content_range=f"bytes 100000-{len(CONTENT) - 1}/{len(CONTENT)}",
    )  # fmt: skip
    begun = Answer(content=WRONG, cut=100_000, headers={"ETag": '"old"'})
    with LyingServer(CONTENT, begun, tail, Answer(headers={"ETag": '"new"'})) as server:
        bench.fetch(entry_of(), server.url())
    assert bench.troubles() == ["broke_off", "changed"]
    assert bench.folder.file("net.onnx").read_bytes() == CONTENT


def test_a_weak_etag_continues_nothing(bench: Bench) -> None:
    weak = {"ETag": 'W/"a"'}
    with LyingServer(CONTENT, Answer(cut=100_000, headers=weak), Answer(headers=weak)) as server:
        bench.fetch(entry_of(), server.url())
    assert server.asked[1].if_range == ""
    assert bench.folder.file("net.onnx").read_bytes() == CONTENT


@pytest.mark.parametrize("content", [CONTENT[:-1], CONTENT + b"x", b""])
def test_a_file_of_another_length_is_refused_before_it_is_read(bench: Bench, content: bytes) -> None:
    with LyingServer(content) as server:
        assert refused(bench, entry_of(), server.url()) == ["wrong_length"]
    assert len(server.asked) == 1
    assert not [h for h in bench.heard if isinstance(h, FetchProgress)]


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Answer(content=WRONG), "wrong_content"),
        (Answer(content=CONTENT + b"more" * 50_000, chunked=True), "too_long"),
        (Answer(content=CONTENT + b"more", length=len(CONTENT)), None),  # what follows the length is not the file's
        (Answer(status=206, content_range=f"bytes 0-{len(CONTENT) - 1}/{len(CONTENT)}"), "wrong_range"),
        (Answer(content=b"<!DOCTYPE html><p>log in</p>", headers={"Content-Type": "text/html"}), "web_page"),
        (Answer(content=b"\n <HTML>" + bytes(len(CONTENT) - 8)), "web_page"),
        (Answer(content=b"version https://git-lfs.github.com/spec/v1\n".ljust(len(CONTENT))), "wrong_content"),
        (Answer(headers={"Content-Encoding": "gzip"}), "encoded"),
        (Answer(status=404, content=b"no"), "status"),
        (Answer(status=403, content=b"no"), "status"),
        (Answer(status=204, content=b""), "status"),
        (Answer(status=302, content=b"", headers={"Location": "ftp://127.0.0.1/net.onnx"}), "redirect"),
        (Answer(status=302, content=b"", headers={"Location": "file:///etc/passwd"}), "redirect"),
        (Answer(status=302, content=b"", headers={"Location": "/net.onnx"}), "redirect"),  # in a circle
        (Answer(status=301, content=b""), "redirect"),  # to nowhere
    ],
)  # fmt: skip
def test_lies_are_reported_and_not_tried_again(bench: Bench, answer: Answer, kind: str | None) -> None:
    with LyingServer(CONTENT, answer) as server:
        if kind is None:
            assert bench.fetch(entry_of(), server.url()).how == "came"
            return
        assert refused(bench, entry_of(), server.url()) == [kind]
    assert bench.pauses == []
    assert bench.names() == set()


def test_a_part_that_was_not_asked_for(bench: Bench) -> None:
    odd = Answer(status=206, content_range=f"bytes 5-{len(CONTENT) - 1}/{len(CONTENT)}")
    with LyingServer(CONTENT, Answer(cut=100_000), odd, Answer()) as server:
        bench.fetch(entry_of(), server.url())
    assert bench.troubles() == ["broke_off", "wrong_range"]
    assert [a.range for a in server.asked] == ["", "bytes=100000-", ""]
    assert bench.folder.file("net.onnx").read_bytes() == CONTENT


def test_a_range_that_cannot_be_is_begun_anew(bench: Bench) -> None:
    with LyingServer(CONTENT, Answer(cut=100_000), Answer(status=416, content=b""), Answer()) as server:
        bench.fetch(entry_of(), server.url())
    assert [a.range for a in server.asked] == ["", "bytes=100000-", ""]


def test_a_server_that_always_breaks_off_and_lies_is_given_up(bench: Bench) -> None:
    """Progress alone does not keep it going for ever."""
    wrong = Answer(content=WRONG)
    with LyingServer(CONTENT, *[Answer(content=WRONG, cut=100_000), wrong] * 20) as server:
        assert refused(bench, entry_of(), server.url()) == ["wrong_content"]
    assert len(server.asked) <= 5


def test_a_server_that_gives_nothing_is_given_up_after_some_tries(bench: Bench) -> None:
    with LyingServer(CONTENT, Answer(cut=0)) as server:
        assert refused(bench, entry_of(), server.url()) == ["broke_off"]
    assert len(server.asked) == PATIENCE.tries
    assert bench.pauses == [1.0, 2.0, 4.0]


def test_bytes_that_come_do_not_count_as_a_failed_try(folder: ModelsFolder) -> None:
    bench = Bench(folder, FetchPatience(tries=2, timeout_s=5.0))
    with LyingServer(CONTENT, *[Answer(cut=70_000)] * 4, Answer()) as server:
        bench.fetch(entry_of(), server.url())
    assert len(server.asked) == 5
    assert bench.pauses == [1.0] * 4


@pytest.mark.parametrize(
    ("headers", "pause"),
    [
        ({"Retry-After": "7"}, 7.0), ({"Retry-After": "86400"}, 60.0), ({"Retry-After": "soon"}, 1.0), ({}, 1.0),
        ({"Retry-After": "Sun, 22 Nov 2026 10:00:09 GMT", "Date": "Sun, 22 Nov 2026 10:00:00 GMT"}, 9.0),
    ],
)  # fmt: skip
def test_a_busy_server_says_when_to_come_again(bench: Bench, headers: dict[str, str], pause: float) -> None:
    busy = Answer(status=503, content=b"busy", headers=headers)

    with LyingServer(CONTENT, busy, Answer()) as server:
        bench.fetch(entry_of(), server.url())
    assert bench.pauses == [pause]


def test_a_server_that_says_nothing(folder: ModelsFolder) -> None:
    done = threading.Event()
    bench = Bench(folder, FetchPatience(tries=1, timeout_s=0.05))
    with LyingServer(CONTENT, Answer(hold=done.wait)) as server:
        assert refused(bench, entry_of(), server.url()) == ["timed_out"]
        done.set()


def test_a_server_that_is_next_to_silent(folder: ModelsFolder) -> None:
    bench = Bench(folder, FetchPatience(tries=1, slowest=1e5, over_s=3.0, timeout_s=5.0))
    bench.chunk_s = 1.0  # pieces of at most 64 KiB: less than 100 kB a second
    with LyingServer(CONTENT) as server:
        assert refused(bench, entry_of(), server.url()) == ["too_slow"]
    assert folder.part("net.onnx").stat().st_size > 0


def test_no_server_there(bench: Bench) -> None:
    assert refused(bench, entry_of(), "http://127.0.0.1:1/x", "http://nowhere.invalid:1/x") == [
        "unreachable", "unreachable",
    ]  # fmt: skip


def test_mirrors_are_tried_in_turn_and_each_is_reported(bench: Bench) -> None:
    with LyingServer(WRONG) as liar, LyingServer(b"<html>", Answer(headers={"Content-Type": "text/html"})) as portal:
        assert refused(bench, entry_of(), liar.url(), portal.url()) == ["wrong_content", "web_page"]
        with LyingServer(CONTENT) as good:
            assert bench.fetch(entry_of(), liar.url(), portal.url(), good.url()).address == good.url()


def test_the_entry_s_own_addresses_are_the_default(bench: Bench) -> None:
    with LyingServer(CONTENT) as server:
        assert bench.fetcher.fetch(entry_of(CONTENT, server.url())).how == "came"


def test_redirects_go_to_https_and_never_back(
    tmp_path: Path, folder: ModelsFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = certificate(tmp_path)
    with LyingServer(CONTENT, tls=made) as safe, LyingServer(CONTENT) as plain:
        assert refused(Bench(folder), entry_of(), safe.url()) == ["certificate"]
        monkeypatch.setenv("SSL_CERT_FILE", str(made))
        there = Answer(status=302, content=b"", headers={"Location": safe.url("/there")})
        with LyingServer(CONTENT, there) as first:
            assert Bench(folder).fetch(entry_of(), first.url()).how == "came"
        assert safe.asked[-1].path == "/there"
        folder.file("net.onnx").unlink()
        folder.file("net.onnx.json").unlink()
        back = Answer(status=302, content=b"", headers={"Location": plain.url()})
        with LyingServer(CONTENT, back, tls=made) as down:
            assert refused(Bench(folder), entry_of(), down.url()) == ["redirect"]
        assert plain.asked == []


def test_a_range_survives_a_redirect(bench: Bench) -> None:
    with LyingServer(CONTENT, Answer(cut=100_000), Answer()) as second:
        there = Answer(status=307, content=b"", headers={"Location": second.url("/moved")})
        with LyingServer(CONTENT, there) as first:
            bench.fetch(entry_of(), first.url())
    assert [a.range for a in second.asked] == ["", "bytes=100000-"]


# -- hashes known by their beginning, sizes known about


def published(content: bytes = CONTENT, about: int = len(CONTENT) + 1000) -> CatalogueEntry:
    known = entry_of(content)
    return dataclasses.replace(known, sha256="", sha256_prefix=known.sha256[:8], bytes=about, exact=False)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_hash_s_beginning_and_about_a_size(bench: Bench, chunked: bool) -> None:
    with LyingServer(CONTENT, Answer(chunked=chunked)) as server:
        done = bench.fetch(published(), server.url())
        assert done.sha256 == hashlib.sha256(CONTENT).hexdigest()
        assert bench.folder.verified(published()) == "here"
    with LyingServer(WRONG) as server:
        bench.folder.file("net.onnx").unlink()
        bench.folder.file("net.onnx.json").unlink()
        assert refused(bench, published(), server.url()) == ["wrong_content"]
        assert refused(bench, published(about=400_000), server.url()) == ["wrong_length"]


def test_the_file_that_came_first_is_the_one_that_is_meant(bench: Bench) -> None:
    """Another content whose hash begins alike would pass by the beginning alone."""
    with LyingServer(CONTENT) as server:
        bench.fetch(published(), server.url())
    notice = bench.folder.notice("net.onnx")
    assert notice is not None
    bench.folder.write_notice(dataclasses.replace(notice, sha256=notice.sha256[:8] + "0" * 56))
    assert bench.folder.verified(published()) == "changed"


def test_a_swapped_file_is_replaced_whole(bench: Bench) -> None:
    bench.folder.make()
    bench.folder.file("net.onnx").write_bytes(WRONG)
    with LyingServer(CONTENT, Answer(cut=10), Answer(status=404, content=b"")) as server, pytest.raises(FetchFailed):
        bench.fetch(entry_of(), server.url())
    assert bench.folder.file("net.onnx").read_bytes() == WRONG  # as it was, until the right one is here
    with LyingServer(CONTENT) as server:
        assert bench.fetch(entry_of(), server.url()).how == "replaced"
    assert bench.folder.file("net.onnx").read_bytes() == CONTENT


# -- folders and mirrors


def test_from_a_folder(bench: Bench, tmp_path: Path) -> None:
    source = tmp_path / "on a stick"
    source.mkdir()
    address = mirror_address(str(source), "net.onnx")
    assert refused(bench, entry_of(), address) == ["no_file"]
    (source / "net.onnx").write_bytes(WRONG)
    assert refused(bench, entry_of(), address) == ["wrong_content"]
    (source / "net.onnx").write_bytes(CONTENT[:-5])
    assert refused(bench, entry_of(), address) == ["wrong_length"]
    (source / "net.onnx").write_bytes(CONTENT)
    assert bench.fetch(entry_of(), address).how == "came"
    assert bench.folder.file("net.onnx").read_bytes() == CONTENT


def test_a_folder_continues_what_a_server_began(folder: ModelsFolder, tmp_path: Path) -> None:
    with LyingServer(CONTENT, Answer(cut=120_000), Answer(status=404, content=b"")) as server:
        refused(Bench(folder), entry_of(), server.url())
    (tmp_path / "net.onnx").write_bytes(CONTENT)
    bench = Bench(folder)
    bench.fetch(entry_of(), mirror_address(str(tmp_path), "net.onnx"))
    first = next(h for h in bench.heard if isinstance(h, FetchProgress))
    assert first.done > 120_000
    assert folder.file("net.onnx").read_bytes() == CONTENT


def test_addresses_of_mirrors(tmp_path: Path) -> None:
    assert mirror_address("https://mirror.example/models/", "net.onnx") == "https://mirror.example/models/net.onnx"
    assert mirror_address(f"file://{tmp_path}", "net.onnx") == f"file://{tmp_path}/net.onnx"
    assert mirror_address(str(tmp_path), "net.onnx") == f"file://{tmp_path}/net.onnx"
    for base, shown in (
        (str(tmp_path / "absent"), "absent"),
        ("ftp://mirror.example", "ftp"),
        ("https://ann:secret@mirror.example", "***@"),
        ("https://mirror.example:port", "port"),
        ("https://", "https"),
    ):
        with pytest.raises(InvalidValue) as wrong:
            mirror_address(base, "net.onnx")
        assert wrong.value.path == "--from"
        assert shown in str(wrong.value.given)
        assert "secret" not in str(wrong.value)


# -- several at once, and a disk that is full


def _pull(folder: Path, address: str, gate: str) -> None:
    heard: list[Happening] = []

    def note(happening: Happening) -> None:
        heard.append(happening)
        if isinstance(happening, FetchWaiting):
            Path(gate).touch()

    done = Fetcher(ModelsFolder(folder), ManualClock(), lambda _: None, note).fetch(entry_of(), (address,))
    os._exit(0 if done.path.read_bytes() == CONTENT else 1)


def test_two_processes_that_pull_one_file(folder: ModelsFolder, tmp_path: Path) -> None:
    """The second one waits, and finds the file of the first: the server is asked once."""
    gate = tmp_path / "somebody-waits"
    context = multiprocessing.get_context("spawn")
    with LyingServer(CONTENT, Answer(hold=lambda: wait_until(gate.exists))) as server:
        pulls = [context.Process(target=_pull, args=(folder.path, server.url(), str(gate))) for _ in range(2)]
        for pull in pulls:
            pull.start()
        for pull in pulls:
            pull.join()
    assert [pull.exitcode for pull in pulls] == [0, 0]
    assert len(server.asked) == 1


def test_a_pull_that_was_killed_goes_on_in_the_next_run(folder: ModelsFolder, tmp_path: Path) -> None:
    dead = threading.Event()
    with LyingServer(CONTENT, Answer(hold=dead.wait, hold_at=150_000), Answer()) as server:
        pull = multiprocessing.get_context("spawn").Process(
            target=_pull, args=(folder.path, server.url(), str(tmp_path / "gate"))
        )
        pull.start()
        part = folder.part("net.onnx")
        wait_until(lambda: part.exists() and part.stat().st_size == 150_000)
        pull.kill()
        pull.join()
        dead.set()
        assert not folder.file("net.onnx").exists()
        Bench(folder).fetch(entry_of(), server.url())  # the lock went with its holder
    assert [a.range for a in server.asked] == ["", "bytes=150000-"]
    assert folder.file("net.onnx").read_bytes() == CONTENT


def test_many_threads_that_pull_one_file(folder: ModelsFolder) -> None:
    how: list[str] = []
    with LyingServer(CONTENT, *[Answer(cut=40_000)] * 3, Answer()) as server:

        def pull() -> None:
            how.append(Bench(folder).fetch(entry_of(), server.url()).how)

        threads = [threading.Thread(target=pull) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(how) == ["came", *["was_here"] * 5]
    assert folder.file("net.onnx").read_bytes() == CONTENT
    assert len(server.asked) == 4


def test_a_disk_that_fills_up(bench: Bench) -> None:
    with LyingServer(CONTENT) as server:
        with largest_file(100_000), pytest.raises(DiskFull) as full:
            bench.fetch(entry_of(), server.url())
        assert "no space" in str(full.value)
        assert bench.names() == set()  # nothing is left to fill the disk
        assert bench.fetch(entry_of(), server.url()).how == "came"


def test_a_disk_without_room_is_reported_before_anything_comes(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs

    def small(path: Path) -> os.statvfs_result:
        values = list(real(path))
        values[0], values[1], values[4] = 4096, 4096, 10  # 40 kB are free
        return os.statvfs_result(values)

    monkeypatch.setattr(os, "statvfs", small)
    with LyingServer(CONTENT) as server, pytest.raises(DiskFull) as full:
        bench.fetch(entry_of(), server.url())
    assert "0.3 MB are to come" in str(full.value)
    assert not [h for h in bench.heard if isinstance(h, FetchProgress)]


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StoreError) as error:
            Bench(ModelsFolder(path)).fetch(entry_of(), "http://127.0.0.1:1/")
        assert str(tmp_path / "file") in str(error.value)
        assert os.strerror(errno.ENOTDIR) in str(error.value) or "File exists" in str(error.value)
