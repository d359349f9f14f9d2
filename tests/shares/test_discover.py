"""Devices and the choice of share kind, with stand-ins for nvidia-smi and the MPS program."""

from __future__ import annotations

import stat
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
from share_kit import FakeMps

from edge.core.errors import ShareError
from edge.core.shares import SMS_OF_A_WORKER, ShareChoice, ShareKind
from edge.shares import discover, open_partitioner

ROW = "GPU-0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0, NVIDIA L4, 23034, 615.10, 8.9, Default, [N/A]"
UUID = ROW.split(",")[0]


def smi(fake: FakeMps, query: str, listing: str = "", code: int = 0) -> dict[str, str]:
    """Put an nvidia-smi beside the MPS stand-in; returns the environment."""
    program = fake.path.parent / "nvidia-smi"
    program.write_text(
        f"#!{sys.executable} -SE\nimport sys\n"
        f"sys.stdout.write({listing!r} if '-L' in sys.argv else {query!r})\n"
        f"sys.stderr.write('NVIDIA-SMI has failed\\n' if {code} else '')\nsys.exit({code})\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return fake.environ


def test_a_machine_without_a_gpu_has_its_cpu() -> None:
    found = discover.discover({"PATH": "/nowhere"})
    (cpu,) = found.devices
    assert (cpu.kind, cpu.id) == ("cpu", "cpu")
    assert cpu.units is not None
    assert cpu.units > 0
    assert "nvidia-smi is not on PATH" in found.notes[0]


def test_gpus_are_listed_before_the_cpu(fake_mps: FakeMps) -> None:
    gpu, cpu = discover.devices(smi(fake_mps, ROW + "\n"))
    assert (gpu.kind, gpu.id, gpu.name) == ("gpu", UUID, "NVIDIA L4")
    assert gpu.memory_bytes == 23034 * 2**20
    assert gpu.gpu is not None
    assert (gpu.gpu.driver, gpu.gpu.compute_capability, gpu.gpu.short_id) == ("615.10", "8.9", "0f1e2d3c")
    assert cpu.kind == "cpu"


def test_the_parts_of_a_cut_up_gpu_stand_for_it(fake_mps: FakeMps) -> None:
    row = ROW.replace("[N/A]", "Enabled")
    listing = (
        f"GPU 0: NVIDIA L4 (UUID: {UUID})\n"
        "  MIG 3g.20gb     Device  0: (UUID: MIG-aaaa)\n  MIG 1g.5gb      Device  1: (UUID: MIG-bbbb)\n"
    )
    found = discover.devices(smi(fake_mps, row + "\n", listing))
    assert [(d.kind, d.id, d.name) for d in found[:-1]] == [
        ("mig", "MIG-aaaa", "NVIDIA L4 MIG 3g.20gb"),
        ("mig", "MIG-bbbb", "NVIDIA L4 MIG 1g.5gb"),
    ]
    none = discover.discover(smi(fake_mps, row + "\n", f"GPU 0: NVIDIA L4 (UUID: {UUID})\n"))
    assert [d.kind for d in none.devices] == ["cpu"]
    assert "has no MIG device" in none.notes[0]


def test_a_broken_driver_is_a_note(fake_mps: FakeMps) -> None:
    found = discover.discover(smi(fake_mps, "", code=9))
    assert [d.kind for d in found.devices] == ["cpu"]
    assert found.notes == ("GPU: nvidia-smi failed: NVIDIA-SMI has failed",)
    odd = discover.discover(smi(fake_mps, "what, is, this\n"))
    assert "cannot be read" in odd.notes[0]


def choose(fake: FakeMps, short_dir: Path, facts: dict[str, Any] | None, prefer: Any = None) -> discover.Choice:
    (gpu, _) = discover.devices(smi(fake, ROW + "\n"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(discover, "probe_gpu", lambda *_: facts)
        choice = discover.open_partitioner(gpu, prefer, run_dir=short_dir, environ=fake.environ)
    choice.partitioner.close()
    return choice


GREEN = {"ok": True, "sms": 58, "granule": 2, "green": True, "green_reason": "3.9 times as long on 14 SMs"}


@pytest.mark.parametrize(
    ("facts", "prefer", "kind"),
    [
        (GREEN, None, "mps+green"),
        ({**GREEN, "green": False, "green_reason": "needs CUDA driver 12.8"}, None, "mps"),
        (GREEN, "mps", "mps"),
        (GREEN, "coop", "coop"),
        ({"ok": False, "reason": "torch sees no CUDA device"}, None, "coop"),
    ],
)
def test_the_best_kind_that_the_probe_showed_is_taken(
    fake_mps: FakeMps, short_dir: Path, facts: dict[str, Any], prefer: Any, kind: str
) -> None:
    choice = choose(fake_mps, short_dir, facts, prefer)
    caps = choice.partitioner.caps
    assert caps.kind == kind
    assert [a.kind for a in choice.attempts if a.ok] == [kind]
    assert all(a.reason for a in choice.attempts)
    if kind == "mps+green":
        assert caps.units == 58
        assert caps.workers == 58 / SMS_OF_A_WORKER
        assert caps.step == pytest.approx(2 / 58)
    assert [p for p in short_dir.iterdir() if p.name.startswith("mgp-mps")] == [], "a daemon's folder was left"


def test_a_kind_that_cannot_be_had_says_why(fake_mps: FakeMps, short_dir: Path) -> None:
    with pytest.raises(ShareError, match=r"share kind mps cannot be had .*: no client can run under MPS"):
        choose(fake_mps, short_dir, {"ok": False, "reason": "x"}, "mps")
    fake_mps.behave("dead")
    with pytest.raises(ShareError, match=r"no CUDA-capable device"):
        choose(fake_mps, short_dir, GREEN, "mps+green")
    with pytest.raises(ShareError, match="is for the CPU"):
        choose(fake_mps, short_dir, GREEN, "cgroup")


def test_without_the_mps_program_time_slicing_is_left(fake_mps: FakeMps, short_dir: Path) -> None:
    fake_mps.path.unlink()
    environ = {**smi(fake_mps, ROW + "\n"), "PATH": str(fake_mps.path.parent)}
    gpu = discover.devices(environ)[0]
    choice = discover.open_partitioner(gpu, environ=environ, run_dir=short_dir)
    choice.partitioner.close()
    assert choice.partitioner.caps.kind == "coop"
    assert "not on PATH" in choice.attempts[0].reason


def test_the_probe_says_what_stood_in_its_way() -> None:
    """The real probe in a real child; without a GPU its answer is a reason, never a traceback."""
    facts = discover.probe_gpu(discover.GpuInfo(UUID, "x", 0), {}, timeout_s=60)
    assert facts["ok"] or facts["reason"] == "torch sees no CUDA device"
    slow = discover.probe_gpu(discover.GpuInfo(UUID, "x", 0), {}, timeout_s=0.01)
    assert not slow["ok"]
    assert "did not answer" in slow["reason"]


def test_whatever_opens_a_sites_device_takes_the_same(
    fake_mps: FakeMps, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`magpie profile SITE` measures what `magpie run SITE` uses: with a GPU, "auto" is the GPU for both."""
    gpu, cpu = discover.devices(smi(fake_mps, ROW + "\n"))
    opened: list[tuple[str, object]] = []

    def note(device: discover.DeviceInfo, prefer: object, **_: object) -> discover.Choice:
        opened.append((device.id, prefer))
        return discover.Choice(None)  # type: ignore[arg-type]

    monkeypatch.setattr(discover, "open_partitioner", note)
    monkeypatch.setattr(discover, "devices", lambda: (gpu, cpu))
    for device, kind in (("auto", "auto"), ("cpu", "cgroup"), (gpu.id, "mps")):
        open_partitioner(device, kind)
    assert opened == [(gpu.id, None), ("cpu", "cgroup"), (gpu.id, "mps")]
    monkeypatch.setattr(discover, "devices", lambda: (cpu,))
    open_partitioner()
    assert opened[-1] == ("cpu", None)


def test_a_site_may_ask_for_every_share_kind_there_is() -> None:
    assert set(get_args(ShareChoice)) == {"auto", *get_args(ShareKind)}
