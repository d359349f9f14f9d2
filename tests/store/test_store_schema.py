"""Schema upgrades, and databases that cannot be used."""

from __future__ import annotations

import errno
import os
import socket
import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from store_helpers import add, chain

from edge import cli
from edge.access.records import Records
from edge.core.clock import SystemClock
from edge.core.errors import Conflict, InvalidValue, StoreError, Unavailable
from edge.core.finding import ObjectSearch
from edge.store import database as db
from edge.store.database import Database
from edge.store.store import Store, default_url
from edge.store.tables import metadata


def test_the_migrations_build_what_the_tables_say(url: str) -> None:
    database = Database(url)
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
        found = sa.inspect(connection)
        for table in metadata.sorted_tables:  # what the comparison leaves out
            for key in table.foreign_keys:
                (same,) = [
                    f for f in found.get_foreign_keys(table.name) if f["constrained_columns"] == [key.parent.name]
                ]
                assert same["options"].get("ondelete") == key.ondelete
            checks = {c["name"] for c in found.get_check_constraints(table.name)}
            assert checks == {c.name for c in table.constraints if isinstance(c, sa.CheckConstraint)}
    database.close()


def test_unique_rules_hold_in_the_database_itself(url: str) -> None:
    """Not only in our code: one promoted version per camera, one open window."""
    database = Database(url)
    with database.read() as connection:
        indexes = {
            index["name"]: index["unique"]
            for table in ("versions", "windows")
            for index in sa.inspect(connection).get_indexes(table)
        }
    database.close()
    assert indexes["uq_versions_promoted"]
    assert indexes["uq_windows_open"]


def test_upgrade_from_nothing_and_again(empty_url: str) -> None:
    database = Database(empty_url)
    assert db.current(database) is None
    assert db.upgrade(database) == (None, db.head())
    assert db.upgrade(database) == (db.head(), db.head())
    assert db.current(database) == db.head()
    database.close()


def test_two_upgrades_at_once_are_one(empty_url: str) -> None:
    done: list[object] = []

    def run() -> None:
        database = Database(empty_url)
        try:
            done.append(db.upgrade(database)[0])
        except Exception as error:
            done.append(error)
        database.close()

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done, key=str) == [db.head(), db.head(), None]


def test_a_failed_upgrade_leaves_nothing(empty_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database(empty_url)
    with database.write() as connection:
        connection.execute(sa.text("CREATE TABLE journal (id INTEGER)"))  # in the migration's way
    with pytest.raises(StoreError):
        db.upgrade(database)
    with database.read() as connection:
        assert sa.inspect(connection).get_table_names() == ["journal"]
    database.close()


def test_a_newer_schema_is_refused_and_left_alone(url: str, tmp_path: Path) -> None:
    database = Database(url)
    with database.write() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(
        StoreError, match=rf"written by a newer Magpie \(schema 9999; this one knows up to {db.head()}\)"
    ):
        Store(url, tmp_path)
    assert db.current(database) == "9999"
    database.close()
    Store(None, tmp_path).close()  # the folder was given back


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("mysql://root:secret@host/db", "got 'mysql://...'"),
        ("nonsense secret", "not a database address"),
        ("sqlite://", "a SQLite file"),
        ("sqlite:///:memory:", "a SQLite file"),
        ("postgresql://ann:secret@host:port/db", "not a database address"),
    ],
)
def test_an_unusable_address_is_refused_without_its_password(address: str, said: str) -> None:
    with pytest.raises(InvalidValue, match=r"store\.url") as caught:
        Database(address)
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_server_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    with socket.socket() as held:  # bound and not listening: connecting is refused
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        address = f"postgresql://zoe:secret@127.0.0.1:{port}/magpie?password=secret2"
        with pytest.raises(Unavailable, match=f"postgresql://127.0.0.1:{port}/magpie") as caught:
            Store(address, tmp_path)
    assert "secret" not in str(caught.value)
    assert "zoe" not in str(caught.value)


def test_a_damaged_database_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "magpie.db").write_bytes(b"not a database, but long enough to look like one" * 100)
    with pytest.raises(StoreError, match=r"magpie\.db.*damaged"):
        Store(None, tmp_path)


def test_a_file_where_the_folder_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(StoreError, match="data"):
        Store(None, tmp_path / "data")


def test_a_locked_database_is_unavailable_and_usable_afterwards(lite: Store, data_dir: Path) -> None:
    lite.close()
    store = Store(None, data_dir, busy_timeout_ms=20)
    other = sqlite3.connect(data_dir / "magpie.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="locked by another process"):
        store.journal.append("note")
    assert store.journal.events() == ()  # reading goes on
    other.execute("ROLLBACK")
    other.close()
    store.journal.append("note")
    store.close()


def test_commits_on_sqlite_are_durable(lite: Store) -> None:
    with lite.database.read() as connection:

        def pragma(name: str) -> object:
            return connection.execute(sa.text(f"PRAGMA {name}")).scalar()

        assert (pragma("journal_mode"), pragma("synchronous"), pragma("foreign_keys")) == ("wal", 2, 1)


def test_the_data_folder_is_closed_to_other_accounts_however_it_was_made(tmp_path: Path) -> None:
    fresh, open_before = tmp_path / "deep" / "fresh", tmp_path / "open"
    open_before.mkdir()
    open_before.chmod(0o755)
    before = os.umask(0)
    try:
        for folder in (fresh, open_before):
            with Store(None, folder):
                assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE(fresh.parent.stat().st_mode) == 0o700, "no other user can put another folder in its place"
    finally:
        os.umask(before)


def test_an_open_folder_of_another_account_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o755)

    def refuses(self: Path, mode: int) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "chmod", refuses)
        with pytest.raises(StoreError, match="can be looked into by other accounts") as refused:
            Store(None, tmp_path)
        patched.setattr(Path, "chmod", lambda self, mode: None)  # a file system that has no modes
        with pytest.raises(StoreError, match="cannot be closed from here"):
            Store(None, tmp_path)
    assert "chmod 700" in str(refused.value)
    tmp_path.chmod(0o700)
    with Store(None, tmp_path):
        pass


def test_a_folder_belongs_to_one_appliance(lite: Store, data_dir: Path) -> None:
    with pytest.raises(Conflict, match="is in use by another Magpie"):
        Store(None, data_dir)
    Store(None, data_dir, owner=False).close()  # to look is allowed
    lite.close()
    Store(None, data_dir).close()


def test_health_says_what_is_wrong(lite: Store, data_dir: Path) -> None:
    fine = lite.health()
    assert (fine.schema, fine.fault, fine.code) == (db.head(), None, None)
    assert fine.free_bytes > 0
    add(lite, "v0")
    assert lite.health().model_bytes == 2
    lite.database.close()
    (data_dir / "magpie.db").write_bytes(b"x" * 5000)
    for more in ("-wal", "-shm"):
        (data_dir / f"magpie.db{more}").unlink(missing_ok=True)
    broken = lite.health()
    assert (broken.code, broken.schema) == ("store", None)
    assert broken.fault is not None
    assert "damaged" in broken.fault


# --- the command ----------------------------------------------------------------------------------------------------


def test_db_upgrade_and_current(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--data-dir", str(tmp_path / "new")]
    assert cli.main(["db", "current", *where]) == 1
    assert f"schema none (empty), newest known {db.head()}" in capsys.readouterr().out
    assert not (tmp_path / "new").exists()  # looking creates nothing
    assert cli.main(["db", "upgrade", *where]) == 0
    assert f"schema {db.head()}, was empty" in capsys.readouterr().out
    assert cli.main(["db", "upgrade", *where]) == 0
    assert f"schema {db.head()} (no change)" in capsys.readouterr().out
    assert cli.main(["db", "current", "--url", default_url(tmp_path / "new")]) == 0


def test_db_check_names_the_damaged_model(lite: Store, data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chain(lite, "v0", "v1")
    where = ["--data-dir", str(data_dir)]
    assert cli.main(["db", "check", *where]) == 0  # while the appliance runs
    assert "2 model files checked, 0 damaged" in capsys.readouterr().out
    current = lite.versions.promoted("gate")
    assert current is not None
    lite.blobs.path(current.blob).write_bytes(b"")
    assert cli.main(["db", "check", *where]) == 1
    assert "DAMAGED v1 (camera gate, promoted)" in capsys.readouterr().out
    assert cli.main(["db", "check", "--data-dir", str(data_dir / "none")]) == 1
    assert "there is no database here" in capsys.readouterr().err
    assert cli.main(["db", "upgrade", "--url", "mysql://x"]) == 1
    assert "store.url" in capsys.readouterr().err


def test_old_causes_workers_and_complaints_are_read_once(empty_url: str, tmp_path: Path) -> None:
    """Schema 0007: what stood in sentences and names only gets columns of its own."""
    database = Database(empty_url)
    with at_schema(database, "0006") as (connection, old):
        now = {"at_utc_s": 1.0}
        window = {
            "details": {},
            "outcome": "completed",
            "id": 3,
            "start_utc_s": 1.0,
            "length_s": 60.0,
            "policy": "relay",
            "settings": {},
            "open": False,
        }
        connection.execute(old.tables["windows"].insert().values(**window))
        causes = [
            "capacity changed", "camera gate-2 left", "gate: retraining completed, not promoted", "boundary",
            "gate-2: 3.1 GPU-s done where 5.0 were expected",
        ]  # fmt: skip
        plan = {"window": 3, "policy": "relay", "objective": 0.5, "problem": {}, "plan": {}} | now
        for cause in causes:
            connection.execute(old.tables["plans"].insert().values(cause=cause, **plan))
        used = dict.fromkeys(("asked", "granted", "used", "device_seconds", "wall_s", "throttled_fraction"), 0.1)
        workers = [("camera-gate-2", None), ("retrain-gate-2", None), ("camera-gate", "gate"), ("golden", None)]
        for worker, camera in workers:
            row = {"window": 3, "worker": worker, "role": "inference", "camera": camera} | used | now
            connection.execute(old.tables["share_usage"].insert().values(**row))
        said = [("complaint.disk_full", {"message": "little room"}), ("plan", {"policy": "relay"})]
        for kind, data in said:
            connection.execute(old.tables["journal"].insert().values(kind=kind, data=data, bytes=200, **now))
    assert db.upgrade(database)[0] == "0006"
    database.close()
    with Store(empty_url, tmp_path / "data") as store:
        detail = store.windows.window(3)
        assert [(p.cause, p.cause_code, p.cause_camera) for p in detail.plans] == list(
            zip(
                causes,
                ("capacity_changed", "camera_left", "retraining_completed", "recorded", "progress_unexpected"),
                (None, "gate-2", "gate", None, "gate-2"),
                strict=True,
            )
        )
        assert [(u.worker, u.camera) for u in detail.usage] == [
            ("camera-gate-2", "gate-2"), ("retrain-gate-2", "gate-2"), ("camera-gate", "gate"), ("golden", None),
        ]  # fmt: skip
        assert [(e.kind, e.data) for e in store.journal.events(newest_first=False)] == [
            ("complaint", {"code": "disk_full", "message": "little room"}), ("plan", {"policy": "relay"}),
        ]  # fmt: skip


@pytest.mark.parametrize("made_before", [False, True])
def test_a_database_file_is_closed_to_other_accounts_wherever_it_lies(tmp_path: Path, made_before: bool) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    folder.chmod(0o755)
    path = folder / "m.db"
    before = os.umask(0o022)
    try:
        if made_before:
            path.touch()
            Path(f"{path}-wal").touch()
            assert stat.S_IMODE(path.stat().st_mode) == 0o644
        database = db.Database(f"sqlite:///{path}")
        db.upgrade(database)
        found = {p.name: stat.S_IMODE(p.stat().st_mode) for p in folder.iterdir()}
        database.close()
    finally:
        os.umask(before)
    assert found
    assert set(found.values()) == {0o600}


def test_a_database_file_that_cannot_be_closed_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.db"
    path.touch()
    path.chmod(0o644)

    def refuses(self: Path, mode: int) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", refuses)
    database = db.Database(f"sqlite:///{path}")
    with pytest.raises(StoreError, match="can be read by other accounts") as refused:
        db.upgrade(database)
    assert "chmod 600" in str(refused.value)


@contextmanager
def at_schema(database: Database, revision: str) -> Iterator[tuple[sa.Connection, sa.MetaData]]:
    """A database as it was at `revision`, and its tables then."""
    with database.write() as connection:
        config = db.migrations()
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        old = sa.MetaData()
        old.reflect(connection)
        yield connection, old


def test_users_of_before_see_every_tenant(empty_url: str, tmp_path: Path) -> None:
    """Schema 0009: a user can be limited to some tenants."""
    database = Database(empty_url)
    with at_schema(database, "0008") as (connection, old):
        row = {
            "name": "ann", "role": "viewer", "cameras": ["north"], "password": None, "disabled": False,
            "must_change": False, "created_utc_s": 1.0, "changed_utc_s": 1.0, "last_login_utc_s": None,
        }  # fmt: skip
        connection.execute(old.tables["users"].insert().values(**row))
    assert db.upgrade(database)[0] == "0008"
    user = Records(database, SystemClock()).user("ann")
    assert (user.cameras, user.tenants) == (frozenset({"north"}), None)
    database.close()


def test_objects_of_before_have_no_attributes(empty_url: str, tmp_path: Path) -> None:
    """Schema 0008: what applications say of objects is kept with them."""
    database = Database(empty_url)
    with at_schema(database, "0007") as (connection, old):
        row = {
            "id": 5, "camera": "gate", "class_name": "car", "began_utc_s": 1.0, "score": 0.8, "dwell_s": 2.0,
            "box": [0.1, 0.2, 0.3, 0.4], "zone_s": {"drive": 2.0}, "picture_bytes": 0,
        }  # fmt: skip
        connection.execute(old.tables["objects"].insert().values(**row))
    assert db.upgrade(database)[0] == "0007"
    database.close()
    with Store(empty_url, tmp_path / "data") as store:
        assert store.alarms.tracked_object(5).attributes == {}
        found = store.finding.find_objects(ObjectSearch(zone="drive"), 9, None, None, 3.0).objects
        assert [o.id for o in found] == [5], "schema 0014 takes zones over"


def test_old_answers_name_their_author_and_their_importer_apart(empty_url: str, tmp_path: Path) -> None:
    """Schema 0016: both stood in one text, "ann via bob"."""
    database = Database(empty_url)
    with at_schema(database, "0015") as (connection, old):
        row = {
            "camera": "gate", "window": 3, "frame": 7, "kind": "box", "candidate": 0, "verdict": "yes", "marked": [],
            "width": 640, "height": 360, "at_utc_s": 1.0,
        }  # fmt: skip
        people = [
            ("ann", "page"), ("ann via bob", "import"), ("ann via bob", "import"), ("magpie labels", "import"),
            ("zoe via ann via magpie labels", "import"), ("via", "import"), (" via bob", "import"),
            ("ann via ", "import"), ("ann VIA bob", "import"), ("ann via bob", "page"),
        ]  # fmt: skip
        for by, source in people:
            connection.execute(old.tables["answers"].insert().values(answered_by=by, source=source, **row))
    assert db.upgrade(database) == ("0015", db.head())
    database.close()
    with Store(empty_url, tmp_path / "data") as store:
        kept = [r.answer for r in store.answers.page("gate")]
    assert [(a.by, a.imported_by) for a in kept] == [
        ("ann", None), ("ann", "bob"), ("ann", "bob"), ("magpie labels", None), ("zoe", "magpie labels"),
        ("via", None), (" via bob", None), ("ann via ", None), ("ann VIA bob", None), ("ann via bob", None),
    ]  # fmt: skip
    assert [a.source for a in kept] == [source for _, source in people]
