"""`make bench-policy`: `broker policy check` as a process over 300 real tools and their changes, first run and second run.

The first run finds no answers remembered, the second finds those of the first; in a third one tool of the folder has changed.
Peak memory is that of the process and of its prover together. Exits 1 where the newest change of each tool takes longer than
the limits, or more memory. Wall time counts all that the machine does beside; CPU time is printed for comparison.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from tests.bench.policy_tree import DATA, write_tree

FIRST_SECONDS = 10.0
SECOND_SECONDS = 2.0
MEMORY_MIB = 300
BROKER = Path(sys.executable).parent / "broker"


@dataclass(slots=True)
class Run:
    """What one process took. cpu: of the process and its prover."""

    wall: float
    cpu: float
    memory_mib: float


def run(folder: Path, cache: Path) -> Run:
    """One check; what it finds is in its exit code, which is 1 for a policy as naive as this one."""
    command = [str(BROKER), "policy", "check", "--without-keys", "--cache", str(cache)]
    started = time.perf_counter()
    # As where it is installed: what was compiled once is not compiled again.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment = {**kept, "PYTHONPYCACHEPREFIX": str(cache.parent / "compiled")}
    process = subprocess.Popen([*command, "--output", str(cache.parent / "report.txt"), str(folder)], env=environment)
    peaks: dict[int, int] = {}
    cpu: dict[int, float] = {}
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            for pid in (process.pid, *_children(process.pid)):
                status, stat = _read(pid, "status"), _read(pid, "stat")
                found = re.search(r"VmHWM:\s+(\d+) kB", status)
                if found:
                    peaks[pid] = max(peaks.get(pid, 0), int(found[1]))
                    fields = stat.rpartition(")")[2].split()
                    cpu[pid] = (int(fields[11]) + int(fields[12])) / 100

    watcher = threading.Thread(target=watch)
    watcher.start()
    code = process.wait()
    wall = time.perf_counter() - started
    done.set()
    watcher.join()
    assert code in (0, 1, 2), f"broker policy check ended with {code}"
    return Run(wall, sum(cpu.values()), sum(peaks.values()) / 1024)


def _children(pid: int) -> list[int]:
    return [int(child) for child in _read(pid, f"task/{pid}/children").split()]


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except OSError:
        return ""


def measure(folder: Path, label: str, most_versions: int | None) -> list[Run]:
    """First, second, and after one tool changed."""
    tools, versions = write_tree(folder / "policies", most_versions=most_versions)
    runs = [run(folder / "policies", folder / "cache"), run(folder / "policies", folder / "cache")]
    changed = sorted((folder / "policies").glob("*.yaml"))[0]
    changed.write_text(changed.read_text() + "\n")
    runs.append(run(folder / "policies", folder / "cache"))
    print(f"{label}: {tools} tools, {versions} versions")
    for name, one in zip(("first run", "second run", "one tool changed"), runs, strict=True):
        print(f"  {name:17} {one.wall:6.2f} s   {one.cpu:6.2f} s CPU   {one.memory_mib:5.0f} MiB")
    return runs


def main() -> int:
    if not DATA.is_dir():
        print("the folder ../shared/data is not here")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        first, second, _ = measure(Path(folder) / "newest", "the newest change of each tool", 2)
        measure(Path(folder) / "all", "all changes of each tool", None)
    over = [
        f"{name} {found:.2f}, at most {limit}"
        for name, found, limit in (
            ("first run, seconds", first.wall, FIRST_SECONDS),
            ("second run, seconds", second.wall, SECOND_SECONDS),
            ("memory, MiB", max(first.memory_mib, second.memory_mib), MEMORY_MIB),
        )
        if found > limit
    ]
    print("\n".join(over) or "within the limits")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
