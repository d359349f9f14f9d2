"""A broker and a database server of our own, on a loopback port and a socket: for tests and benchmarks that stop and
start them."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.waiting import free_port, until
from edge.core.errors import Unavailable

START_LIMIT_S = 60.0


def mosquitto_program() -> str | None:
    """The MQTT broker of this machine, or None."""
    return shutil.which("mosquitto") or shutil.which("/usr/sbin/mosquitto")


def listens(port: int) -> bool:
    """Whether something takes connections at a loopback port."""
    try:
        socket.create_connection(("127.0.0.1", port), 1.0).close()
    except OSError:
        return False
    return True


class BrokerProcess:
    """mosquitto on a loopback port; it keeps sessions and messages of clients while it is stopped. Raises Unavailable
    where there is none."""

    def __init__(self, folder: Path) -> None:
        program = mosquitto_program()
        if program is None:
            raise Unavailable("mosquitto is not installed")
        self.port = free_port()
        config = folder / "mosquitto.conf"
        user = "user root\n" if os.geteuid() == 0 else ""
        config.write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\npersistence true\n{user}"
            f"persistence_location {folder}/\nmax_queued_messages 0\n"
        )
        self._command = [program, "-c", str(config)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, and wait until it takes connections. Raises TimeoutError."""
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: listens(self.port), "the broker listens", 20.0)

    def stop(self) -> None:
        """End it, with what it keeps written. Safe to call twice."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            process.wait()


class DatabaseProcess:
    """A PostgreSQL server on a socket file in `folder`, as user `magpie` without password; nothing of it is durable.
    Raises Unavailable where PostgreSQL is not installed or does not come up."""

    def __init__(self, folder: Path) -> None:
        programs = postgres_programs()
        if programs is None:
            raise Unavailable("PostgreSQL is not installed (no initdb on PATH or in /usr/lib/postgresql)")
        user = unprivileged()
        self._folder, self._data = folder, folder / "data"
        self._who: dict[str, Any] = (
            {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        )
        if user is not None:
            os.chown(folder, user.pw_uid, user.pw_gid)
        made = subprocess.run(
            [programs / "initdb", "-D", self._data, "-U", "magpie", "-A", "trust", "-E", "UTF8", "--locale=C",
             "--no-sync"],
            capture_output=True, text=True, cwd=folder, timeout=START_LIMIT_S, check=False, **self._who,
        )  # fmt: skip
        if made.returncode:
            raise Unavailable(f"initdb failed: {made.stderr.strip()[-300:]}")
        # Only a socket file: no port can be taken. It dies with the process that started it.
        quick = ["-c", "fsync=off", "-c", "full_page_writes=off", "-c", "listen_addresses=", "-c", "max_connections=40"]
        order = [programs / "postgres", "-D", self._data, "-k", folder, "-c", "shared_buffers=16MB", *quick]
        setpriv = shutil.which("setpriv")
        self._order = [setpriv, "--pdeathsig", "QUIT", *order] if setpriv else order
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str = "postgres") -> str:
        """The address of a database of it."""
        return f"postgresql://magpie@/{database}?host={self._folder}"

    def start(self) -> None:
        """Start, and wait until it answers. Raises Unavailable."""
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(self._order, cwd=self._folder, stdout=log, stderr=log, **self._who)
        problem = self._problem()
        if problem is not None:
            raise Unavailable(f"{problem}: {(self._folder / 'log').read_text()[-300:]}")

    def stop(self) -> None:
        """End it at once, connections and all. Safe to call twice."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGQUIT)
            process.wait(START_LIMIT_S)

    def _problem(self) -> str | None:
        assert self._process is not None
        end = time.monotonic() + START_LIMIT_S
        while time.monotonic() < end:
            if self._process.poll() is not None:
                return f"postgres ended at once ({self._process.returncode})"
            try:
                psycopg.connect(self.url()).close()
            except psycopg.OperationalError:
                time.sleep(0.02)
            else:
                return None
        return "postgres did not answer in time"


def postgres_programs() -> Path | None:
    """The folder of initdb and postgres, or None."""
    places = [shutil.which("initdb"), *sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), reverse=True)]
    for place in places:
        if place and (Path(place).parent / "postgres").exists():
            return Path(place).parent
    return None


def unprivileged() -> pwd.struct_passwd | None:
    """The account to run the server as: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    return names.get("postgres") or names["nobody"]
