"""The rules over small folders, with the real arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from broker.adapters.schemas.arithmetic import Arithmetic, open_arithmetic
from broker.services.checking import PolicyChecker

from rules_parts import Rules


@pytest.fixture(scope="session")
def arithmetic() -> Iterator[Arithmetic]:
    made = open_arithmetic(None)
    yield made
    made.close()


@pytest.fixture
def rules(arithmetic: Arithmetic, tmp_path: Path) -> Rules:
    return Rules(PolicyChecker(arithmetic), tmp_path)
