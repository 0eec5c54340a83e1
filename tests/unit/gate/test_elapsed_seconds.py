"""The clock of leases: time in which the machine sleeps counts."""

from __future__ import annotations

import inspect
import sys
import time

import pytest
from broker.adapters.system import clock
from broker.gate import seconds
from broker.gate.catalogue import Catalogue
from broker.gate.follower import Follower


@pytest.mark.skipif(sys.platform != "linux", reason="the clock has another name elsewhere")
@pytest.mark.parametrize("read", [seconds.elapsed_seconds, clock.elapsed_seconds])
def test_it_is_the_clock_that_counts_the_machine_s_sleep(read: object) -> None:
    assert callable(read)
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= read() <= time.clock_gettime(time.CLOCK_BOOTTIME)


def test_leases_and_what_is_compared_with_them_go_by_it() -> None:
    assert inspect.signature(Follower).parameters["seconds"].default is seconds.elapsed_seconds
    assert inspect.signature(Catalogue).parameters["clock"].default is seconds.elapsed_seconds
