"""Back-up and restore on both databases: whole, of a running store, and refused where something is wrong."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import sqlite3
import tarfile
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_helpers import add, chain, check_invariants

from edge.cli import main
from edge.core.alarms import Alarm
from edge.core.errors import Conflict, MagpieError, NotFound, StoreError
from edge.core.tracks import TrackedObject
from edge.core.truth import Answer, FrameKey, Question
from edge.store import database as db
from edge.store.answers import AnswerRecord
from edge.store.store import Store, default_url
from edge.store.tables import metadata
from edge.store.values import NewEvent
from edge.upkeep import rows
from edge.upkeep.archive import ArchiveReader, ArchiveWriter, Manifest
from edge.upkeep.backup import back_up, restore

Place = Callable[..., str]
KINDS = ("sqlite", "postgresql")
NOT_BACK = ("sessions", "links")


def fill(store: Store) -> None:
    """Something of everything, with a lineage whose rows come children first."""
    store.settings.put_camera("gate", {"id": "gate", "name": "Tor — “Süd” 🚗"}, "operator")
    store.settings.put_settings("retraining", {"window_s": 120.0, "a_min": None}, "operator")
    chain(store, "first", "second", "third")
    add(store, "a-made-earlier", parent="third")
    store.windows.open_window(1, 60.0, "relay", {})
    store.journal.append_events([NewEvent(float(n), "camera.added", "gate", None, {"n": n}) for n in range(1300)])
    store.settings.put_settings("rules", {"rules": [{"id": "any", "kind": "object"}]}, "ann")
    store.settings.put_settings("outputs", {"mqtt": {"host": "broker", "password_from": "secret:mqtt"}}, "ann")
    store.alarms.put_alarms([Alarm(7, "any", "Any", "object", "warning", "gate", "9", "new", 5.0, "car", object=9)])
    said = Answer(Question(FrameKey(1, 2), "box", 0), "yes", "ann", 1000.0)
    store.answers.add_answers([AnswerRecord("gate", said, (), "car", None, (0.1, 0.1, 0.2, 0.2), 640, 360)])
    store.alarms.put_alarms(
        [Alarm(8, "disk", "Disk", "disk", "critical", None, "", "end", 6.0, "full", ended_utc_s=7.0)]
    )
    box = (0.1, 0.2, 0.3, 0.4)
    store.alarms.put_objects([TrackedObject(9, "gate", "car", 0.9, box, 4.0, 5.0, 1.0, 6, ("drive",), {"drive": 0.5})])
    message = {"destination": "mqtt", "lane": "gate", "kind": "alarm", "message": "m", "at_utc_s": 5.0, "bytes": 99}
    of_ann = {"owner": "ann", "created_utc_s": 1.0, "expires_utc_s": 9e9}
    some: dict[str, dict[str, Any]] = {
        "users": {"name": "ann", "role": "admin", "password": "$argon2id$...", "cameras": ["gate"], "disabled": False,
                  "must_change": False, "created_utc_s": 1.0, "changed_utc_s": 1.0},
        "tokens": of_ann | {"id": "t1", "name": "scraper", "role": "viewer", "prefix": "mgp_ab", "hash": "a" * 64},
        "sessions": of_ann | {"id": "s1", "hash": "b" * 64, "address": "::1", "agent": "x", "last_used_utc_s": 1.0},
        "links": of_ann | {"hash": "c" * 64, "kind": "login"},
        "outbox": message | {"body": {"phase": "new", "n": [1, None]}},
        "dead_letters": message | {"body": {}, "died_utc_s": 6.0, "tries": 3, "reason": "410"},
    }  # fmt: skip
    with store.database.write() as c:
        for name, row in some.items():
            c.execute(sa.insert(metadata.tables[name]).values(**row))


def state(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table, as plain values, but for sessions and links, which do not come back."""
    database = db.Database(url)
    with database.read() as connection:
        found = {
            table.name: sorted(tuple(map(repr, row)) for row in connection.execute(sa.select(table)))
            for table in metadata.sorted_tables
            if table.name not in NOT_BACK
        }
    database.close()
    return found


def fill_folder(url: str, folder: Path) -> None:
    """A store with data, and the pictures beside it."""
    with Store(url, folder) as store:
        fill(store)
    (folder / "exemplars" / "gate").mkdir(parents=True)
    (folder / "exemplars" / "gate" / "old-1.jpg").write_bytes(b"picture")
    (folder / "pictures" / "gate").mkdir(parents=True)
    (folder / "pictures" / "gate" / "w1.jpg").write_bytes(b"window")


@pytest.fixture(scope="module")
def filled_sqlite(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Path:
    """A filled folder to copy, which is quicker than filling each time."""
    folder = tmp_path_factory.mktemp("filled")
    shutil.copy(sqlite_template, folder / "magpie.db")
    fill_folder(default_url(folder), folder)
    return folder


@pytest.fixture
def filled(tmp_path: Path, place: Place, filled_sqlite: Path, request: pytest.FixtureRequest) -> tuple[str, Path]:
    """Address and folder of a store with data, on SQLite unless the test asks for another."""
    kind = getattr(request, "param", "sqlite")
    folder = tmp_path / "data"
    if kind == "sqlite":
        shutil.copytree(filled_sqlite, folder)
        return default_url(folder), folder
    url = place(kind, folder)
    fill_folder(url, folder)
    return url, folder


@pytest.mark.parametrize("filled", KINDS, indirect=True)
@pytest.mark.parametrize("target", KINDS)
def test_what_was_saved_comes_back_on_either_database(
    filled: tuple[str, Path], target: str, tmp_path: Path, place: Place
) -> None:
    url, folder = filled
    before = state(url)
    file = tmp_path / "magpie.tar"
    report = back_up(file, folder, url)
    assert report.models == 4
    assert report.files == 1
    assert report.damaged == ()
    assert file.stat().st_mode & 0o077 == 0
    there = tmp_path / "there"
    new = place(target, there, empty=True)
    done = restore(file, there, new)
    assert done.models == 4
    assert state(new) == before
    assert all(before[name] for name in ("users", "tokens", "alarms", "answers", "objects", "outbox", "dead_letters"))
    database = db.Database(new)
    with database.read() as connection:
        for name in NOT_BACK:
            assert not connection.execute(sa.select(metadata.tables[name])).all(), "who was logged in logs in again"
    database.close()
    assert (there / "exemplars" / "gate" / "old-1.jpg").read_bytes() == b"picture"
    assert not (there / "pictures").exists()
    with Store(new, there) as store:
        assert store.check_blobs().damaged == ()
        assert store.versions.promoted("gate").id == "third"
        last = store.journal.events(limit=1)[0].id
        assert store.journal.append("camera.changed", camera="gate") > last  # numbers go on
        check_invariants(store)
    assert not list(there.glob(".*upkeep*"))
    assert not list(there.glob(".magpie*"))


def test_pictures_are_saved_where_asked_for(filled: tuple[str, Path], tmp_path: Path) -> None:
    url, folder = filled
    file, there = tmp_path / "magpie.tar", tmp_path / "there"
    back_up(file, folder, url, pictures=True)
    restore(file, there)
    assert (there / "pictures" / "gate" / "w1.jpg").read_bytes() == b"window"


@pytest.mark.parametrize("pictures", [False, True])
@pytest.mark.parametrize("filled", KINDS, indirect=True)
def test_pictures_of_alarms_and_objects_are_there_or_are_not_said_to_be(
    filled: tuple[str, Path], tmp_path: Path, pictures: bool, place: Place
) -> None:
    url, folder = filled
    for name in ("alarms/gate/7.jpg", "objects/gate/9.jpg", "alarms/8.jpg", "answers/gate/00000001-00000002.jpg"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"jpeg")
    with Store(url, folder) as store:
        assert all((store.alarms.set_picture("alarms", 7, 4), store.alarms.set_picture("objects", 9, 4)))
        assert store.alarms.set_picture("alarms", 8, 4)
    file, there = tmp_path / "magpie.tar", tmp_path / "there"
    back_up(file, folder, url, pictures=pictures)
    new = place("sqlite", there, empty=True)
    restore(file, there, new)
    with Store(new, there) as store:
        said = [store.alarms.alarm(7).picture, store.alarms.alarm(8).picture, store.alarms.tracked_object(9).picture]
        assert said == [pictures] * 3
        assert store.alarms.alarm_picture_bytes() == (12 if pictures else 0)
    assert (there / "alarms" / "8.jpg").exists() == pictures
    assert (there / "answers" / "gate" / "00000001-00000002.jpg").exists() == pictures


def test_a_running_store_is_saved_as_of_one_instant(filled: tuple[str, Path], tmp_path: Path) -> None:
    """Models and events come and go while the back-up is made: what is in it fits together."""
    url, folder = filled
    stop = threading.Event()
    with Store(url, folder) as store:

        def write() -> None:
            parent = "third"
            for n in range(10_000):
                if stop.is_set():
                    return
                name = f"later-{n}"
                add(store, name, parent=parent)
                store.versions.promote(name, "gate", "better")
                store.journal.append("model.promoted", camera="gate", data={"version": name})
                parent = name

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for n in range(5):
                back_up(tmp_path / f"{n}.tar", folder, url)
        finally:
            stop.set()
            writer.join()
    for n in range(5):
        there = tmp_path / f"there-{n}"
        restore(tmp_path / f"{n}.tar", there)
        with Store(None, there) as again:
            assert again.check_blobs().damaged == ()
            check_invariants(again)


def test_a_damaged_model_is_left_out_and_reported(filled: tuple[str, Path], tmp_path: Path) -> None:
    url, folder = filled
    digest = hashlib.sha256(b"first").hexdigest()
    (folder / "models" / f"{digest}.safetensors").write_bytes(b"other")
    gone = hashlib.sha256(b"second").hexdigest()
    (folder / "models" / f"{gone}.safetensors").unlink()
    report = back_up(tmp_path / "magpie.tar", folder, url)
    assert report.models == 2
    assert {line.split(":")[0] for line in report.damaged} == {digest, gone}
    there = tmp_path / "there"
    assert len(restore(tmp_path / "magpie.tar", there).damaged) == 2
    with Store(None, there) as store:
        assert store.recover().promoted["gate"].id == "third"


def test_data_is_not_overwritten_without_force_and_kept_with_it(filled: tuple[str, Path], tmp_path: Path) -> None:
    url, folder = filled
    file = tmp_path / "magpie.tar"
    back_up(file, folder, url)
    saved = state(url)
    with Store(url, folder) as store:
        store.settings.put_camera("later", {"id": "later"}, "operator")
    changed = state(url)
    with pytest.raises(Conflict, match="has data"):
        restore(file, folder, url)
    assert state(url) == changed
    done = restore(file, folder, url, force=True)
    assert state(url) == saved
    assert done.kept is not None
    assert state(f"sqlite:///{done.kept}") == changed


def test_postgres_is_replaced_at_once(tmp_path: Path, place: Place) -> None:
    folder = tmp_path / "data"
    url = place("postgresql", folder)
    with Store(url, folder) as store:
        fill(store)
    file = tmp_path / "magpie.tar"
    back_up(file, folder, url)
    saved = state(url)
    with Store(url, folder) as store:
        store.settings.put_camera("later", {"id": "later"}, "operator")
    with pytest.raises(Conflict, match="has data"):
        restore(file, folder, url)
    assert restore(file, folder, url, force=True).kept is None
    assert state(url) == saved


def test_not_under_a_running_appliance(filled: tuple[str, Path], tmp_path: Path) -> None:
    url, folder = filled
    file = tmp_path / "magpie.tar"
    back_up(file, folder, url)
    with Store(url, folder), pytest.raises(Conflict, match="in use"):
        restore(file, folder, url, force=True)


def test_a_damaged_database_can_be_replaced(filled: tuple[str, Path], tmp_path: Path) -> None:
    url, folder = filled
    file = tmp_path / "magpie.tar"
    back_up(file, folder, url)
    saved = state(url)
    (folder / "magpie.db").write_bytes(b"not a database" * 1000)
    (folder / "magpie.db-wal").write_bytes(b"rest")
    restore(file, folder, url, force=True)
    assert state(url) == saved


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_any_changed_byte_of_the_content_is_noticed(
    filled: tuple[str, Path], tmp_path: Path, at: float, flip: int
) -> None:
    """Before anything is changed: a damaged archive restores nothing. (A byte of tar's padding may change.)"""
    url, folder = filled
    file = tmp_path / "magpie.tar"
    if not file.exists():
        back_up(file, folder, url)
    data = bytearray(file.read_bytes())
    with tarfile.open(file) as tar:
        spans = [(m.offset_data, m.size) for m in tar if m.size]
    offset = int(at * sum(size for _, size in spans))
    for start, size in spans:
        if offset < size:
            data[start + offset] ^= flip
            break
        offset -= size
    bad, there = tmp_path / "bad.tar", tmp_path / "nothing"
    bad.write_bytes(data)
    with pytest.raises(MagpieError):
        restore(bad, there)
    assert not (there / "magpie.db").exists()
    assert not (there / "models").exists()


@pytest.mark.parametrize("part", [0.2, 0.7, 0.97])
def test_a_back_up_that_was_cut_off_is_refused(filled: tuple[str, Path], tmp_path: Path, part: float) -> None:
    url, folder = filled
    file = tmp_path / "magpie.tar"
    back_up(file, folder, url)
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * part)])
    with pytest.raises(StoreError):
        restore(file, tmp_path / "there")
    assert not (tmp_path / "there" / "magpie.db").exists()


@pytest.mark.parametrize(
    "name", ["../evil", "/etc/evil", "models/../../evil", "exemplars/../../../evil", "magpie.db", "exemplars/.hidden/x"]
)
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    file = tmp_path / "evil.tar"
    digest = hashlib.sha256(b"evil").hexdigest()
    manifest = Manifest(0.0, "0", "sqlite", db.head(), False).to_json()
    manifest["members"] = {name: {"bytes": 4, "sha256": digest}}
    with tarfile.open(file, "w") as tar:
        for member, content in ((name, b"evil"), ("manifest.json", json.dumps(manifest).encode())):
            info = tarfile.TarInfo(member)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    with pytest.raises(StoreError, match="does not belong"):
        restore(file, tmp_path / "there")
    assert not (tmp_path / "evil").exists()


def test_links_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "evil.tar"
    with tarfile.open(file, "w") as tar:
        info = tarfile.TarInfo("exemplars/x")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc"
        tar.addfile(info)
    with pytest.raises(StoreError, match="does not belong"):
        restore(file, tmp_path / "there")


def test_a_newer_magpies_back_up_is_refused(filled: tuple[str, Path], tmp_path: Path) -> None:
    url, folder = filled
    with closing(sqlite3.connect(folder / "magpie.db")) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    file = tmp_path / "magpie.tar"
    back_up(file, folder, url)
    with pytest.raises(StoreError, match="newer Magpie"):
        restore(file, tmp_path / "there")


def test_nothing_stays_of_a_back_up_that_failed(filled: tuple[str, Path], tmp_path: Path) -> None:
    url, folder = filled
    with pytest.raises(NotFound):
        back_up(tmp_path / "x.tar", tmp_path / "empty")
    with pytest.raises(MagpieError):
        back_up(tmp_path / "y.tar", folder, url, site=tmp_path / "missing.yaml")
    taken = tmp_path / "z.tar"
    taken.write_text("mine")
    with pytest.raises(Conflict):
        back_up(taken, folder, url)
    assert taken.read_text() == "mine"
    assert {p.name for p in tmp_path.glob("*.tar*")} == {"z.tar"}
    assert not list(tmp_path.glob(".*"))
    assert not list(folder.glob(".upkeep*"))


def test_a_member_that_changes_while_it_is_read_stops_the_back_up(tmp_path: Path) -> None:
    class Growing(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return b""

    with ArchiveWriter(tmp_path / "x.tar") as writer, pytest.raises(StoreError):
        writer._add("exemplars/x", Growing(), 10)
    assert not list(tmp_path.iterdir())


def test_the_commands(filled: tuple[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, folder = filled
    site = tmp_path / "site.yaml"
    site.write_text(f"# postgresql://magpie:hush@db/x\ndata_dir: {folder}\n", encoding="utf-8")
    file, there = tmp_path / "magpie.tar", tmp_path / "there"
    assert main(["backup", str(file), "--config", str(site)]) == 0
    assert "4 models" in capsys.readouterr().out
    assert b"hush" not in file.read_bytes()
    assert main(["restore", str(file), "--check"]) == 0
    assert "whole" in capsys.readouterr().out
    assert main(["restore", str(file), "--data-dir", str(there), "--site-to", str(tmp_path / "new.yaml")]) == 0
    assert "4 models" in capsys.readouterr().out
    assert "postgresql://***@db/x" in (tmp_path / "new.yaml").read_text(encoding="utf-8")
    assert main(["restore", str(file), "--data-dir", str(there)]) == 1
    assert "--force" in capsys.readouterr().err
    assert main(["restore", str(site), "--data-dir", str(there)]) == 1
    said = capsys.readouterr().err
    assert "not a back-up" in said
    assert "Traceback" not in said


def test_rows_hold_bytes_and_text(tmp_path: Path) -> None:
    given_rows = [{"a": b"\x00\xff", "b": "ü\u2028\n", "c": None, "d": {"x": [1.5, True]}, "e": 2**60}]
    stream = io.BytesIO()
    assert rows.write_rows(given_rows, stream) == 1
    assert list(rows.read_rows(stream.getvalue().splitlines())) == given_rows
    with pytest.raises(StoreError):
        list(rows.read_rows([b"[1]"]))


def test_the_back_up_can_be_opened_by_others(filled: tuple[str, Path], tmp_path: Path) -> None:
    """A plain tar with a plain database: Magpie is not needed to get at the data."""
    url, folder = filled
    file = tmp_path / "magpie.tar"
    back_up(file, folder, url)
    with tarfile.open(file) as tar:
        tar.extract("database.sqlite", tmp_path, filter="data")
    with closing(sqlite3.connect(tmp_path / "database.sqlite")) as connection:
        assert connection.execute("SELECT count(*) FROM journal").fetchone() == (1300,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    with ArchiveReader(file) as reader:
        assert reader.manifest.database == "sqlite"


# --- upgrades -------------------------------------------------------------------------------------------------------


@pytest.fixture
def newer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Magpie of tomorrow: one more migration. Returns its revision."""
    folder = tmp_path / "migrations"
    shutil.copytree(db.MIGRATIONS, folder)
    before = db.head()
    (folder / "versions" / "zz_test.py").write_text(
        f"import sqlalchemy as sa\nfrom alembic import op\nrevision = 'zz_test'\ndown_revision = {before!r}\n"
        "branch_labels = None\ndepends_on = None\n"
        "def upgrade() -> None:\n    op.add_column('cameras', sa.Column('note', sa.Text(), nullable=True))\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(db, "MIGRATIONS", folder)
    return "zz_test"


def test_sqlite_is_copied_before_its_schema_changes(
    tmp_path: Path, place: Place, request: pytest.FixtureRequest
) -> None:
    folder = tmp_path / "data"
    url = place("sqlite", folder)
    with Store(url, folder) as store:
        fill(store)
    assert not list(folder.glob("magpie.db.before-*"))  # nothing changed, nothing is copied
    before, old = state(url), db.head()
    revision = request.getfixturevalue("newer")
    with Store(url, folder) as store:
        assert (store.upgraded_from, store.schema) == (old, revision)
    (copy,) = folder.glob("magpie.db.before-*")
    assert revision in copy.name
    assert state(f"sqlite:///{copy}") == before


def test_postgres_says_how_before_its_schema_changes(
    tmp_path: Path, place: Place, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "data"
    url = place("postgresql", folder, empty=True)
    db.upgrade(db.Database(url))
    revision = request.getfixturevalue("newer")
    database = db.Database(url)
    with caplog.at_level("WARNING"):
        assert db.upgrade(database)[1] == revision
    database.close()
    assert "magpie backup" in caplog.text


def test_only_the_last_copies_are_kept(tmp_path: Path, place: Place, request: pytest.FixtureRequest) -> None:
    folder = tmp_path / "data"
    url = place("sqlite", folder)
    import os

    for n in range(5):
        old = folder / f"magpie.db.before-000{n}-x"
        old.write_text("")
        os.utime(old, (n, n))
    request.getfixturevalue("newer")
    database = db.Database(url)
    db.upgrade(database)
    database.close()
    names = sorted(p.name for p in folder.glob("magpie.db.before-*"))
    assert names[:2] == ["magpie.db.before-0003-x", "magpie.db.before-0004-x"]
    assert len(names) == 3


@pytest.mark.parametrize("target", KINDS)
def test_an_older_back_up_is_upgraded(
    tmp_path: Path, place: Place, target: str, filled: tuple[str, Path], request: pytest.FixtureRequest
) -> None:
    url, folder = filled
    file, before = tmp_path / "magpie.tar", state(url)
    back_up(file, folder, url)
    there = tmp_path / "there"
    new = place(target, there, empty=True)
    revision = request.getfixturevalue("newer")
    restore(file, there, new)
    database = db.Database(new)
    assert db.current(database) == revision
    database.close()
    assert state(new) == before
