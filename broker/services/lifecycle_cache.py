"""The lifecycle as this process last saw it.

Decisions are made on this view and the store re-checks it in the step that mints: a view that has fallen behind makes a
second look necessary, never a wrong credential.
"""

from __future__ import annotations

from broker.domain.errors import BrokerError, StoreUnclaimedError
from broker.domain.lifecycle.states import LifecycleView
from broker.ports.store import VersionStore


class LifecycleCache:
    """One for a process."""

    def __init__(self, store: VersionStore) -> None:
        self._store = store
        self._view: LifecycleView | None = None
        self._why: BrokerError | None = None
        self._forgotten = 0

    @property
    def is_known(self) -> bool:
        """Whether there is a view."""
        return self._view is not None

    @property
    def view(self) -> LifecycleView:
        """The last view. Where there is none, raises what stands in the way, by default `StoreUnclaimedError`."""
        if self._view is None:
            if self._why is not None:
                raise type(self._why)(*self._why.args)
            raise StoreUnclaimedError("the store has not been claimed yet")
        return self._view

    def check_known(self) -> None:
        """Raises as `view` does where there is none."""
        _ = self.view

    async def refresh(self) -> LifecycleView:
        """Read the view from the store. It is kept, unless it was told meanwhile to forget."""
        forgotten = self._forgotten
        view = await self._store.view()
        if forgotten == self._forgotten:
            self._view = view
        return view

    def forget(self, why: BrokerError | None = None) -> None:
        """The store is another incarnation, or not what it must be; what was known of it is void."""
        self._view, self._why = None, why
        self._forgotten += 1
