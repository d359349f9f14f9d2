#!/usr/bin/env python3
"""A stand-in for nvidia-cuda-mps-control: speaks dialects 2 and 3, records calls, and can be slow, faulty or die.

It is put on PATH under the program's name. State is a folder ($FAKE_MPS): `servers` (lines "pid status"), `clients`
(lines "pid server"), `calls` (what was asked), `behaviour` (words: slow, dead, mute, v3only, noquit).
The daemon itself is a process that sleeps until it gets the order to end, as the real one is.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

STATE = Path(os.environ["FAKE_MPS"])
PIPE = Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"])
PID_FILE = PIPE / "nvidia-cuda-mps-control.pid"
SLEEPER = "import time,sys\nwhile True: time.sleep(60)"


def rows(name: str) -> list[list[str]]:
    file = STATE / name
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


def behaviour() -> str:
    file = STATE / "behaviour"
    return file.read_text() if file.exists() else ""


def record(text: str) -> None:
    with (STATE / "calls").open("a") as f:
        f.write(text + "\n")


def dialect() -> str:
    file = PIPE / "dialect"
    return file.read_text() if file.exists() else "2"


def start(arguments: list[str]) -> int:
    if "dead" in behaviour():
        sys.stderr.write("Failed to start : no CUDA-capable device is detected\n")
        return 1
    v3 = "-p" in arguments or "v3only" in behaviour()
    sleeper = subprocess.Popen(
        [sys.executable, "-S", "-E", "-c", SLEEPER, "nvidia-cuda-mps-control"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    (PIPE / "dialect").write_text("3" if v3 else "2")
    PID_FILE.write_text(str(sleeper.pid))
    keys = ("CUDA_VISIBLE_DEVICES", "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")
    record("environment " + " ".join(f"{k}={os.environ.get(k)}" for k in keys))
    return 0


def quit_daemon() -> None:
    if "noquit" in behaviour():
        return
    os.kill(int(PID_FILE.read_text()), 15)
    PID_FILE.unlink()


def drop_client(pid: str) -> None:
    kept = [r for r in rows("clients") if r[0] != pid]
    (STATE / "clients").write_text("".join(" ".join(r) + "\n" for r in kept))


def v2(line: str) -> str:
    word, *rest = line.split()
    if word == "get_server_list":
        return "".join(r[0] + "\n" for r in rows("servers"))
    if word == "get_server_status":
        return next((r[1] + "\n" for r in rows("servers") if r[0] == rest[0]), "Server not found\n")
    if word == "get_client_list":
        return "".join(r[0] + "\n" for r in rows("clients") if r[1] == rest[0])
    if word == "terminate_client":
        drop_client(rest[1])
        return ""
    if word == "quit":
        quit_daemon()
        return ""
    return f"Unknown command: {line}\n"


def v3(arguments: list[str]) -> str:
    if arguments == ["-q"]:
        quit_daemon()
        return ""
    if arguments[:2] == ["server", "list"]:
        return "".join(f"uid_0,{r[0]},{r[1]}\n" for r in rows("servers"))
    if arguments[:2] == ["client", "list"]:
        return "".join(f"{r[0]},{r[1]},default\n" for r in rows("clients"))
    if arguments[:2] == ["client", "terminate"]:
        drop_client(arguments[2])
        return ""
    return "Unknown module\n"


def main() -> int:
    arguments = sys.argv[1:]
    if arguments[:1] == ["-d"]:
        record("start " + " ".join(arguments))
        return start(arguments)
    if "mute" in behaviour():
        time.sleep(60)
    if "slow" in behaviour():
        time.sleep(0.3)
    if not PID_FILE.exists():
        sys.stderr.write("Cannot find MPS control daemon process\n")
        return 1
    if arguments:
        record("v3 " + " ".join(arguments))
        if dialect() != "3":
            sys.stderr.write("Unrecognized option\n")
            return 1
        sys.stdout.write(v3(arguments))
        return 0
    for line in sys.stdin.read().splitlines():
        record("v2 " + line)
        sys.stdout.write(v2(line) if dialect() == "2" else "Unknown command\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
