"""CPU quotas in the words of either version of cgroups."""

from pathlib import Path

import pytest

from testbed import quota
from testbed.quota import Quotas, find

V1 = "cgroup {root}/cpu cgroup rw,relatime,cpu,cpuacct 0 0\n"
V2 = "cgroup2 {root}/all cgroup2 rw,nosuid 0 0\n"


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    (tmp_path / "cpu" / "mine").mkdir(parents=True)
    (tmp_path / "all" / "user.slice" / "mine.scope").mkdir(parents=True)
    (tmp_path / "own").write_text("4:cpu,cpuacct:/mine\n1:memory:/other\n0::/user.slice/mine.scope\n")
    return tmp_path


def found(machine: Path, mounts: str) -> Quotas | None:
    (machine / "mounts").write_text("proc /proc proc rw 0 0\n" + mounts.format(root=machine))
    return find("tag", machine / "mounts", machine / "own")


def hands_down(folder: Path, controllers: str) -> None:
    (folder / "cgroup.subtree_control").write_text(controllers)


def test_version_1_below_the_own_cgroup(machine: Path) -> None:
    quotas = found(machine, V1)
    assert quotas == Quotas(1, machine / "cpu" / "mine" / "tag")
    quotas.prepare()
    quotas.set("tm-1", 0.12)
    quotas.add("tm-1", 4711)
    member = quotas.parent / "tm-1"
    assert (member / "cpu.cfs_period_us").read_text() == "100000"
    assert (member / "cpu.cfs_quota_us").read_text() == "12000"
    assert (member / "cgroup.procs").read_text() == "4711"
    assert quotas.cores("tm-1") == 0.12


def test_version_1_wins_where_both_are_mounted(machine: Path) -> None:
    hands_down(machine / "all", "cpu memory\n")
    quotas = found(machine, V2 + V1)
    assert quotas is not None
    assert quotas.version == 1


def test_version_1_where_the_own_cgroup_is_not_to_be_seen(machine: Path) -> None:
    (machine / "own").write_text("4:cpu:/of/the/host\n")
    assert found(machine, V1) == Quotas(1, machine / "cpu" / "tag")


def test_version_2_in_the_nearest_cgroup_that_hands_the_cpu_down(machine: Path) -> None:
    hands_down(machine / "all", "cpu memory pids\n")
    hands_down(machine / "all" / "user.slice", "memory cpu\n")
    hands_down(machine / "all" / "user.slice" / "mine.scope", "cpuset memory\n")  # another controller
    quotas = found(machine, V2)
    assert quotas == Quotas(2, machine / "all" / "user.slice" / "tag")
    quotas.prepare()
    assert (quotas.parent / "cgroup.subtree_control").read_text() == "+cpu"
    quotas.set("tm-1", 0.12)
    assert (quotas.parent / "tm-1" / "cpu.max").read_text() == "12000 100000"
    assert quotas.cores("tm-1") == 0.12


@pytest.mark.parametrize("mounts", ["", V2, "cgroup {root}/memory cgroup rw,memory 0 0\n"])
def test_no_quota_where_the_cpu_controller_is_not(machine: Path, mounts: str) -> None:
    assert found(machine, mounts) is None


def test_a_quota_is_never_less_than_the_kernel_takes(tmp_path: Path) -> None:
    quotas = Quotas(2, tmp_path)
    quotas.set("tm-1", 0.001)
    assert (tmp_path / "tm-1" / "cpu.max").read_text() == "1000 100000"


@pytest.mark.parametrize("version", [1, 2])
def test_no_limit_is_no_quota(tmp_path: Path, version: int) -> None:
    quotas = Quotas(2 if version == 2 else 1, tmp_path)
    (tmp_path / "tm-1").mkdir()
    (tmp_path / "tm-1" / "cpu.max").write_text("max 100000\n")
    (tmp_path / "tm-1" / "cpu.cfs_quota_us").write_text("-1\n")
    assert quotas.cores("tm-1") is None
    assert quotas.cores("never-made") is None


def test_removing_takes_every_cgroup_and_twice_is_harmless(tmp_path: Path) -> None:
    quotas = Quotas(1, tmp_path / "tag")
    for name in ("tm-1", "tm-2"):
        (quotas.parent / name).mkdir(parents=True)
    quotas.remove(["tm-1"])
    assert [path.name for path in quotas.parent.iterdir()] == ["tm-2"]
    quotas.remove()
    quotas.remove()
    assert not quotas.parent.exists()


def test_a_cgroup_that_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(quota, "find", lambda _: Quotas(1, tmp_path / "file" / "tag"))
    quotas, why = quota.usable("tag")
    assert quotas is None
    assert "cannot be written" in why


@pytest.mark.skipif(quota.usable("perdix-test")[0] is None, reason="no cgroup can be written here")
def test_the_machines_own_cgroup_takes_a_quota_and_gives_it_back() -> None:
    quotas, _ = quota.usable("perdix-test")
    assert quotas is not None
    try:
        quotas.prepare()
        quotas.set("tm-1", 0.12)
        assert quotas.cores("tm-1") == 0.12
    finally:
        quotas.remove()
    assert not quotas.parent.exists()
