"""The import contracts of pyproject.toml hold for the tree as it is, and each catches what it is there to catch.

Each breach is one import, put into a copy of the package; import-linter itself judges the copy.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Breach:
    """One forbidden import: `line` is appended to `file`; `contract` is what must notice, `chain` what it must show."""

    name: str
    file: str
    line: str
    contract: str
    chain: str


BREACHES = [
    Breach(
        "the domain reads the clock",
        "domain/lifecycle/states.py",
        "import time",
        "The domain has no I/O, clock, randomness or logging, and no third-party library",
        "broker.domain.lifecycle.states -> time",
    ),
    Breach(
        "a service knows the web framework",
        "services/release.py",
        "import fastapi",
        "Services and ports import no third-party library",
        "broker.services.release -> fastapi",
    ),
    Breach(
        "a port speaks Redis",
        "ports/store.py",
        "import redis",
        "Redis is spoken only in its adapter",
        "broker.ports.store -> redis",
    ),
    Breach(
        "the gate needs Authlib",
        "gate/keys.py",
        "import authlib",
        "The gate needs neither a web framework, nor the store, nor Authlib",
        "broker.gate.keys -> authlib",
    ),
    Breach(
        "one adapter leans on another",
        "adapters/keystore/files.py",
        "import broker.adapters.redis.keys",
        "Adapters do not know each other",
        "broker.adapters.keystore.files -> broker.adapters.redis.keys",
    ),
    Breach(
        "the edge reaches past the services into an adapter",
        "http/form.py",
        "import broker.adapters.auditlog.log",
        "Imports go down only, and every folder has its place",
        "broker.http.form -> broker.adapters.auditlog.log",
    ),
    Breach(
        "a tool's contract leans on policy, upwards inside the domain",
        "domain/contracts/contract.py",
        "import broker.domain.policy.document",
        "Inside the domain, imports go down only",
        "broker.domain.contracts.contract -> broker.domain.policy.document",
    ),
    Breach(
        "a folder that nobody placed",
        "extra/__init__.py",
        '"""Nobody said where this stands."""',
        "Imports go down only, and every folder has its place",
        "broker.extra",
    ),
]


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package and its contracts, without what only runs."""
    folder = tmp_path_factory.mktemp("layers")
    shutil.copytree(ROOT / "broker", folder / "broker", ignore=shutil.ignore_patterns("__pycache__", "*.lua", "*.md"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def lint(folder: Path) -> tuple[int, str]:
    """Exit code and words of import-linter over this folder."""
    program = "import os, sys; sys.path.insert(0, os.getcwd()); from importlinter.cli import lint_imports_command as run; run()"
    done = subprocess.run(
        [sys.executable, "-c", program, "--no-logo"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "200", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def test_the_tree_as_it_is_keeps_every_contract(copied: Path) -> None:
    code, said = lint(copied)
    assert "0 broken" in said
    assert code == 0


@pytest.mark.parametrize("breach", BREACHES, ids=lambda breach: breach.name.replace(" ", "-"))
def test_a_deliberate_breach_is_caught_and_named(copied: Path, breach: Breach) -> None:
    file = copied / "broker" / breach.file
    before = file.read_bytes() if file.exists() else None
    file.parent.mkdir(exist_ok=True)
    try:
        file.write_bytes((before or b"") + f"\n{breach.line}\n".encode())
        code, said = lint(copied)
    finally:
        if before is None:
            shutil.rmtree(file.parent)
        else:
            file.write_bytes(before)
    assert code == 1
    assert f"{breach.contract} BROKEN" in said
    assert breach.chain in said
