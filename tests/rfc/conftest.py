"""A real broker process with every tool of the test policies served: one for the run, one for a module that moves versions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker_parts import SECRETS, BrokerProcess, Wire


@contextmanager
def serving(folder: Path) -> Iterator[BrokerProcess]:
    """A broker, ended afterwards as an operator ends it; nothing unforeseen and no secret stands in its log."""
    process = BrokerProcess(folder)
    try:
        process.start()
        process.wire.serve("ticket.edit@1", "root.get@1", "files.read@1", "db.query@3")
        yield process
        assert process.stop() == 0
        said = process.said()
        assert "Traceback" not in said, said
        for _, secret in SECRETS.values():
            assert secret not in said
    finally:
        process.remove()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with serving(tmp_path_factory.mktemp("broker")) as process:
        yield process


@pytest.fixture
def wire(broker: BrokerProcess) -> Wire:
    return broker.wire


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with serving(tmp_path_factory.mktemp("broker")) as process:
        yield process
