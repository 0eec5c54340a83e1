"""A pytest plugin: what is there must be used.

A skip is right where something is missing, and hides a hole where it is not. `.ci/run` says what it has provided:

| environment        | then a skip fails                                    |
|--------------------|------------------------------------------------------|
| `REQUIRE_SHARED=1` | of a test with the marker `shared`, or for its reason |
| `REQUIRE_REDIS=1`  | whose reason names `redis-server`                    |
| `REQUIRE_CURL=1`   | whose reason names `curl`                            |
"""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

REASONS = {"REQUIRE_SHARED": "shared/data", "REQUIRE_REDIS": "redis-server", "REQUIRE_CURL": "curl"}


def _required(item_markers: set[str], reason: str) -> str | None:
    """The variable that forbids this skip, if one does."""
    for variable, word in REASONS.items():
        asked = os.environ.get(variable) == "1"
        if asked and (word in reason or (variable == "REQUIRE_SHARED" and "shared" in item_markers)):
            return variable
    return None


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    return report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        variable = _required({marker.name for marker in item.iter_markers()}, _reason(report))
        if variable is not None:
            report.outcome = "failed"
            report.longrepr = f"{variable} is set, so this may not be skipped: {_reason(report)}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if report.outcome == "skipped":
        variable = _required(set(), _reason(report))
        if variable is not None:
            report.outcome = "failed"
            report.longrepr = f"{variable} is set, so this module may not be skipped: {_reason(report)}"
    return report
