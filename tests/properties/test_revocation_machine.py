"""Whatever is minted, delegated, revoked, rolled back and claimed, in any order: the store and the views agree with the model.

Twice the mint, or the delegation, is taken apart, so that another step comes between its look and its write; the same machine
must find out.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from broker.domain.revocation.scopes import Bearing
from broker.ports.store import Issued, IssueRefused
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import rule, run_state_machine_as_test

from mint_apart import MintApart
from revocation_machine import Held, RevocationMachine
from store_parts import StoreProcess, valkey_program

COMMON = settings(deadline=None, suppress_health_check=list(HealthCheck), stateful_step_count=40, print_blob=False)


@pytest.fixture(scope="module")
def server() -> Iterator[StoreProcess]:
    made = StoreProcess(valkey_program()).start()
    yield made
    made.remove()


def test_store_and_views_say_of_every_credential_what_the_model_says(server: StoreProcess) -> None:
    run_state_machine_as_test(partial(RevocationMachine, server), settings=settings(COMMON, max_examples=80))


class SlowMinter(RevocationMachine):
    """Looks whether it may mint, and writes after whatever comes next."""

    def __init__(self, server: StoreProcess) -> None:
        super().__init__(server)
        self.slow: list[tuple[Bearing, Held | None]] = []

    def _mint(self, bearing: Bearing, parent: Held | None) -> None:
        issue = self.an_issue(bearing, parent)
        if self.run(self._looks_good(issue, parent)):
            self.slow.append((bearing, parent))

    async def _looks_good(self, issue: object, parent: Held | None) -> bool:
        apart = MintApart(self.server.url, self.tenant, gen=self.gen)
        try:
            return parent is None and await apart.looks_mintable(issue)  # type: ignore[arg-type]
        finally:
            await apart.close()

    @rule()
    def write_what_was_looked_at(self) -> None:
        while self.slow:
            bearing, parent = self.slow.pop()
            self.minted(bearing, parent, self.run(self._write(bearing)))

    async def _write(self, bearing: Bearing) -> Issued | IssueRefused:
        apart = MintApart(self.server.url, self.tenant, gen=self.gen)
        try:
            return await apart.write(self.an_issue(bearing, None))
        finally:
            await apart.close()


class SlowDelegation(RevocationMachine):
    """Looks whether the parent is alive, and mints the child by itself after whatever comes next."""

    def __init__(self, server: StoreProcess) -> None:
        super().__init__(server)
        self.slow: list[tuple[Bearing, Held]] = []

    def _mint(self, bearing: Bearing, parent: Held | None) -> None:
        if parent is None:
            super()._mint(bearing, None)
        elif self.model.is_active(parent):
            self.slow.append((bearing, parent))

    @rule()
    def write_what_was_looked_at(self) -> None:
        while self.slow:
            bearing, parent = self.slow.pop()
            self.minted(bearing, parent, self.run(self.store.issue(self.an_issue(bearing, None))))


@pytest.mark.parametrize("broken", [SlowMinter, SlowDelegation])
def test_a_mint_that_looks_first_and_writes_later_is_found_out(
    server: StoreProcess, broken: type[SlowMinter | SlowDelegation]
) -> None:
    some = settings(COMMON, max_examples=200, derandomize=True, database=None, phases=(Phase.generate,))
    with pytest.raises(AssertionError):
        run_state_machine_as_test(partial(broken, server), settings=some)
