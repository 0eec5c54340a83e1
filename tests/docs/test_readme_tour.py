"""The README's tour does what it says: its blocks run in one shell, in order, and print what stands below them."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from broker_parts import free_port

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PORT = "8420"
TAIL_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Block:
    """Commands, and the text that the README shows below them; None where it shows none."""

    commands: str
    shown: str | None


def blocks() -> list[Block]:
    """The bash blocks of the README, each with the text block that follows it at once."""
    found = re.findall(r"^```bash\n(.*?)^```\n(?:```text\n(.*?)^```$)?", README, re.MULTILINE | re.DOTALL)
    return [Block(commands, shown or None) for commands, shown in found]


def plain(text: str) -> str:
    """The text without blanks at the ends of its lines, which nobody sees."""
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def pattern(shown: str) -> re.Pattern[str]:
    """The text as shown; `…` stands for what differs from run to run, within a line."""
    return re.compile("[^\n]+?".join(re.escape(part) for part in shown.split("…")))


@dataclass(frozen=True, slots=True)
class Tour:
    """printed: what each block printed, as far as the shell came. leftovers: what it left in the trial's folder."""

    exit_code: int
    printed: list[str]
    leftovers: list[str]


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> Tour:
    """The tour, taken in a copy of the project on a free port."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed; apt-get install curl")
    folder = tmp_path_factory.mktemp("tour")
    shutil.copytree(ROOT / "policies", folder / "policies")
    (folder / ".venv").symlink_to(ROOT / ".venv")
    mark = secrets.token_hex(16)
    script = f"\necho {mark}\n".join(block.commands for block in blocks()).replace(PORT, port := str(free_port()))
    done = subprocess.run(
        ["bash", "-euo", "pipefail"],
        input=f"trap 'kill ${{serving:-}} 2>/dev/null || true' EXIT\n{script}",
        cwd=folder,
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("BROKER_")},
            # the blocks name the default port only where they use curl
            "BROKER_PORT": port,
            "BROKER_URL": f"http://127.0.0.1:{port}",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TAIL_SECONDS,
    )
    printed = [part.replace(port, PORT) for part in done.stdout.split(f"{mark}\n")]
    return Tour(done.returncode, printed, [path.name for path in (folder / ".broker").iterdir()])


def test_the_tour_shows_what_each_step_prints() -> None:
    assert len(blocks()) >= 8
    assert all(block.shown for block in blocks())


@pytest.mark.parametrize("number", range(len(blocks())), ids=lambda number: f"block-{number + 1}")
def test_a_block_prints_what_stands_below_it(tour: Tour, number: int) -> None:
    assert number < len(tour.printed), f"the shell ended with {tour.exit_code} in block {len(tour.printed)}"
    shown, printed = blocks()[number].shown, plain(tour.printed[number])
    assert shown is not None
    assert pattern(plain(shown)).fullmatch(printed), f"shown:\n{shown}\nprinted:\n{printed}"


def test_the_tour_ends_well_and_leaves_nothing_behind(tour: Tour) -> None:
    assert tour.exit_code == 0, tour.printed[-1]
    assert tour.leftovers == []


def test_every_file_that_the_readme_links_to_is_there() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert len(links) >= 10
    assert [link for link in links if not (ROOT / link).exists()] == []
