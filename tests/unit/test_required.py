"""A skip fails where what it lacks was promised to be there, and only there."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

MODULE = """
import pytest

@pytest.mark.shared
def test_marked():
    pytest.skip("the vectors are not here")

@pytest.mark.skipif(True, reason="../shared/data is not here")
def test_unmarked():
    pass

def test_redis():
    pytest.skip("redis-server is not installed")

def test_elsewhere():
    pytest.skip("only on another platform")
"""


@pytest.mark.parametrize(
    ("promised", "skipped"),
    [
        ({}, 4),
        ({"REQUIRE_SHARED": "1"}, 2),
        ({"REQUIRE_REDIS": "1"}, 3),
        ({"REQUIRE_SHARED": "1", "REQUIRE_REDIS": "1"}, 1),
        ({"REQUIRE_SHARED": "0"}, 4),
    ],
    ids=["nothing-promised", "shared-data", "redis", "both", "said-to-be-absent"],
)
def test_a_skip_fails_for_want_of_what_was_promised(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, promised: dict[str, str], skipped: int
) -> None:
    for name in ("REQUIRE_SHARED", "REQUIRE_REDIS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in promised.items():
        monkeypatch.setenv(name, value)
    pytester.makepyfile(MODULE)
    run = pytester.runpytest_inprocess("-p", "tests.required", "-p", "no:asyncio", "-W", "ignore")
    found = run.parseoutcomes()
    assert found.get("skipped", 0) == skipped
    assert found.get("failed", 0) + found.get("errors", 0) == 4 - skipped
    assert run.ret == (pytest.ExitCode.OK if skipped == 4 else pytest.ExitCode.TESTS_FAILED)
