"""The place of the data, for `magpie backup` and `magpie restore`."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from edge.commands.db import default_data_dir
from edge.settings import read_site


def add_place(parser: argparse.ArgumentParser) -> None:
    """Options that say where the data is."""
    parser.add_argument("--config", type=Path, help="site configuration: its data folder and database")
    parser.add_argument(
        "--data-dir", type=Path, help="data folder (default: $MAGPIE_DATA_DIR, else ~/.local/share/magpie)"
    )
    parser.add_argument(
        "--url", help="database address (default: $MAGPIE_DATABASE_URL, else SQLite in the data folder)"
    )


def place(args: argparse.Namespace) -> tuple[Path, str | None]:
    """Data folder and database address. Options of the command line go before the configuration. Raises
    MagpieError (unreadable configuration)."""
    data_dir, url = args.data_dir, args.url
    if args.config is not None:
        site = read_site(args.config)
        data_dir = data_dir or Path(site.data_dir)
        url = url or site.database_url or None
    else:
        url = url or os.environ.get("MAGPIE_DATABASE_URL")
    return data_dir or default_data_dir(), url
