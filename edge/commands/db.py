"""`magpie db`: create or upgrade the database, show its schema, check the model files."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from edge.core.errors import StoreError
from edge.store import database as db
from edge.store.database import Database
from edge.store.store import Store, default_url


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `magpie db`."""
    parser.add_argument(
        "action",
        choices=("upgrade", "current", "check"),
        help="upgrade: create or upgrade; current: show the schema; check: read every model file and compare its hash",
    )
    parser.add_argument(
        "--url",
        default=os.environ.get("MAGPIE_DATABASE_URL"),
        help="database address (default: $MAGPIE_DATABASE_URL, else SQLite in the data folder)",
    )
    parser.add_argument(
        "--data-dir",
        type=Path,
        default=default_data_dir(),
        help="data folder (default: $MAGPIE_DATA_DIR, else ~/.local/share/magpie)",
    )


def default_data_dir() -> Path:
    """$MAGPIE_DATA_DIR, or the user's data folder."""
    given = os.environ.get("MAGPIE_DATA_DIR")
    return Path(given) if given else Path.home() / ".local" / "share" / "magpie"


def run(arguments: argparse.Namespace) -> int:
    """Carry out; raises MagpieError for what the user must know."""
    if arguments.action == "check":
        return _check(arguments.url, arguments.data_dir)
    database = Database(arguments.url or default_url(arguments.data_dir))
    try:
        if arguments.action == "upgrade":
            before, after = db.upgrade(database)
            _print(
                f"{database.name}: schema {after}"
                + (" (no change)" if before == after else f", was {before or 'empty'}")
            )
            return 0
        now = db.current(database)
        _print(f"{database.name}: schema {now or 'none (empty)'}, newest known {db.head()}")
        return 0 if now == db.head() else 1
    finally:
        database.close()


def _check(url: str | None, data_dir: Path) -> int:
    if url is None and not (data_dir / "magpie.db").exists():
        raise StoreError(f"{data_dir}: there is no database here", "give --data-dir or --url")
    with Store(url, data_dir, owner=False) as store:
        report = store.check_blobs()
    for line in report.damaged:
        _print(f"DAMAGED {line}")
    _print(f"{report.checked} model files checked, {len(report.damaged)} damaged or missing")
    return 1 if report.damaged else 0


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
