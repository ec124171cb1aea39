"""Tasks in processes: order, progress, failures, dying processes, Ctrl-C."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from perdix.replay.side_by_side import Raised, Task, Tell, side_by_side

ROOT = Path(__file__).resolve().parents[2]


def squared(number: int, tell: Tell) -> int:
    tell(float(number))
    return number * number


def picky(number: int, tell: Tell) -> int:
    tell(1.0)
    if number == 2:
        raise ValueError("two is not allowed")
    return number


def deadly(number: int, tell: Tell) -> int:
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def endless(_: int, tell: Tell) -> None:
    tell(1.0)
    time.sleep(600)


@pytest.mark.parametrize("processes", [1, 2])
def test_results_come_in_the_order_of_the_tasks(processes: int) -> None:
    seen: list[tuple[float, int]] = []
    tasks = [Task(squared, number) for number in (3, 1, 2)]
    assert side_by_side(tasks, processes=processes, on_progress=lambda *far: seen.append(far)) == [9, 1, 4]
    assert seen[-1] == (6.0, 3)
    assert sorted(seen) == seen


@pytest.mark.parametrize("processes", [1, 2])
def test_one_that_raises_is_told_and_the_others_go_on(processes: int) -> None:
    found = side_by_side([Task(picky, number) for number in (1, 2, 3)], processes=processes)
    assert found == [1, Raised("ValueError: two is not allowed"), 3]


def test_nothing_to_do_is_done() -> None:
    assert side_by_side([], processes=2) == []


@pytest.mark.slow
def test_one_whose_process_dies_takes_no_other_with_it() -> None:
    found = side_by_side([Task(deadly, number) for number in (1, 2, 3, 4)], processes=2)
    assert found[:1] + found[2:] == [1, 3, 4]
    assert isinstance(found[1], Raised)
    assert "its process ended" in found[1].reason


def test_ctrl_c_ends_every_process() -> None:
    def interrupt(far: float, _ended: int) -> None:
        if far > 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        side_by_side([Task(endless, number) for number in range(3)], processes=2, on_progress=interrupt)
    assert multiprocessing.active_children() == []


def test_processes_do_not_outlive_a_parent_that_is_killed(tmp_path: Path) -> None:
    names = tmp_path / "pids"
    program = tmp_path / "program.py"
    program.write_text(
        "import os, sys, time\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from perdix.replay.side_by_side import Task, side_by_side\n"
        "def wait(name, tell):\n"
        "    with open(name, 'a') as file: file.write(f'{os.getpid()}\\n')\n"
        "    while True: time.sleep(0.01)\n"
        "if __name__ == '__main__':\n"
        f"    side_by_side([Task(wait, {str(names)!r})] * 2, processes=2)\n"
    )
    parent = subprocess.Popen([sys.executable, str(program)], cwd=tmp_path, stderr=subprocess.DEVNULL)
    children = _until(lambda: [int(pid) for pid in names.read_text().split()] if names.exists() else [], count=2)
    parent.kill()
    parent.wait(10)
    assert _until(lambda: [pid for pid in children if not _runs(pid)], count=2) == children


def _until(ask: object, *, count: int) -> list[int]:
    assert callable(ask)
    for _ in range(200):
        found: list[int] = ask()
        if len(found) == count:
            return found
        time.sleep(0.1)
    raise AssertionError(f"waited for {count}, found {found}")


def _runs(pid: int) -> bool:
    state = Path(f"/proc/{pid}/stat")
    return state.exists() and state.read_text().rsplit(")", 1)[1].split()[0] != "Z"
