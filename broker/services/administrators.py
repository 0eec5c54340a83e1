"""Administrators: authenticated, permitted, and their assertion used up, before anything is done for them."""

from __future__ import annotations

from broker.domain.errors import Reason, Refusal
from broker.domain.policy.document import AdminTrust
from broker.domain.tokens.client_auth import ClientCredentials
from broker.ports.store import CredentialStore
from broker.services.clients import Clients, replayed


class Administrators:
    """One for a process."""

    def __init__(self, *, clients: Clients, store: CredentialStore) -> None:
        self._clients = clients
        self._store = store

    async def authenticate(self, credentials: ClientCredentials | Refusal) -> AdminTrust | Refusal:
        """The administrator."""
        found = await self._clients.admin(credentials)
        if isinstance(found, Refusal):
            return found
        admin, assertion = found
        if assertion is not None and not await self._store.take(assertion):
            return replayed()
        return admin


def check_power(admin: AdminTrust, power: str) -> Refusal | None:
    """Whether `trust.yaml` gives the administrator this power under `may`."""
    if power in admin.may:
        return None
    return Refusal(
        Reason.ADMIN_NOT_PERMITTED,
        f"{admin.name} may not {power}; trust.yaml says what each administrator may do",
        where="may",
    )
