"""Rules of the repository that a reviewer would otherwise have to remember."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from edge.settings import SiteSettings, parse, read_site
from golden.spec import read_teacher

REPO = Path(__file__).resolve().parents[2]


def tracked(pattern: str = "*") -> list[Path]:
    """Files that git tracks (or would)."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", pattern]
    out = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=False)
    if out.returncode:
        pytest.skip("not a git checkout")
    return [REPO / line for line in out.stdout.splitlines() if (REPO / line).is_file()]


def test_import_rules_hold() -> None:
    """The import contracts in pyproject.toml hold."""
    out = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"],
        cwd=REPO, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert out.returncode == 0, out.stdout + out.stderr


def test_the_control_process_never_loads_torch() -> None:
    code = "import edge.commands.running, web.app, sys; sys.exit('torch is loaded' if 'torch' in sys.modules else 0)"
    out = subprocess.run([sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True, check=False)
    assert out.returncode == 0, out.stderr


@pytest.mark.parametrize(
    "room", ["scheduler", "scheduler.controller", "microprofiler", "edge.core", "edge.commands.plan"]
)
def test_decisions_load_nothing_heavy(room: str) -> None:
    code = (
        f"import {room}, sys; heavy = {{'torch', 'cv2', 'fastapi', 'sqlalchemy', 'onnxruntime'}} & set(sys.modules); "
        "sys.exit(str(heavy) if heavy else 0)"
    )
    out = subprocess.run([sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True, check=False)
    assert out.returncode == 0, out.stderr


def test_the_shipped_site_configuration_is_valid() -> None:
    site = read_site(REPO / "configs" / "site.yaml")
    assert site.cameras


def test_every_commented_default_of_the_site_configuration_is_a_field() -> None:
    """A comment like `# a_min: null` must name a field that exists, or operators copy a key that is refused."""
    text = (REPO / "configs" / "site.yaml").read_text(encoding="utf-8")
    uncommented = re.sub(r"^(\s*)# (?=\s*[a-z_]+:)", r"\1", text, flags=re.M)
    value = yaml.safe_load(uncommented)
    parse(SiteSettings, value)


@pytest.mark.parametrize("path", sorted((REPO / "configs" / "teachers").glob("*.yaml")), ids=lambda p: p.name)
def test_every_shipped_teacher_description_is_valid(path: Path) -> None:
    read_teacher(path, {"MAGPIE_MODELS": "/models"})


def test_links_between_documents_lead_somewhere() -> None:
    broken = [
        f"{document.relative_to(REPO)}: {target}"
        for document in tracked("*.md")
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", document.read_text(encoding="utf-8"))
        if "://" not in target and not (document.parent / target).exists()
    ]
    assert not broken


def test_every_make_target_of_the_readme_exists() -> None:
    readme = (REPO / "README.md").read_text(encoding="utf-8")
    makefile = (REPO / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"\bmake ([a-z-]+)", readme)):
        assert re.search(rf"^{target}:", makefile, re.M), target


def test_waits_with_a_limit_do_not_swallow_cancellation() -> None:
    """On Python 3.11 `asyncio.wait_for` can lose a cancellation that comes as its inner wait ends; then what shall be
    stopped goes on, and closing hangs. `asyncio.timeout` does not."""
    users = [p for room in ("edge", "web") for p in tracked(f"{room}/*.py") if "asyncio.wait_for(" in p.read_text()]
    assert not users


def test_large_files_are_the_demo_weights_only() -> None:
    large = [p for p in tracked() if p.stat().st_size > 1_000_000 and p.suffix != ".png"]
    assert all(p.parent == REPO / "edge" / "demo" / "weights" for p in large), large
    assert all(p.stat().st_size < 10_000_000 for p in large)


def test_no_lock_file_records_download_addresses() -> None:
    for path in tracked():
        if path.name in ("constraints.txt", "package-lock.json"):
            text = path.read_text(encoding="utf-8")
            assert '"resolved": "http' not in text, path
            assert " @ http" not in text, path
