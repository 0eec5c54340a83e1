"""Giving a credential back (RFC 7009): its positive record is deleted, no sequence moves.

1. The client authenticates and the credential is its own; another's is refused and stays active.
2. What is no credential of ours, or none any more, is as good as revoked (RFC 7009 §2.2).
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.domain.audit.records import Released
from broker.domain.errors import Reason, Refusal
from broker.domain.tokens.client_auth import ClientCredentials
from broker.ports.policy import PolicySource
from broker.ports.store import CredentialStore, IssueRefused
from broker.ports.system import Clock
from broker.services.clients import Clients, refuse_once, replayed
from broker.services.credentials import Credentials
from broker.services.recorder import Recorder


class Release:
    """The use case; one for a process."""

    def __init__(
        self,
        *,
        clients: Clients,
        credentials: Credentials,
        policy: PolicySource,
        store: CredentialStore,
        recorder: Recorder,
        clock: Clock,
    ) -> None:
        self._clients = clients
        self._credentials = credentials
        self._policy = policy
        self._store = store
        self._recorder = recorder
        self._clock = clock

    async def release(
        self, caller: ClientCredentials | Refusal, form: Mapping[str, str], *, request_id: str
    ) -> Refusal | None:
        """Release the token in the form; None where it is gone now."""
        found = await self._clients.client(caller)
        if isinstance(found, Refusal):
            return found
        client, assertion = found
        if "token" not in form:
            missing = Refusal(Reason.PARAMETER_MISSING, "expected: the token to revoke", where="token")
            return await refuse_once(missing, assertion, self._store)
        known = self._credentials.read(form["token"], leeway_seconds=self._policy.current().defaults.leeway_seconds)
        own = not isinstance(known, Refusal) and known.credential.client == client.client_id
        if isinstance(known, Refusal) or not own:
            if assertion is not None and not await self._store.take(assertion):
                return replayed()
            if isinstance(known, Refusal):
                return None
            return Refusal(
                Reason.CREDENTIAL_FOREIGN,
                "only the client that a credential was issued to may revoke it",
                where="token",
                why=f"{client.client_id} asked for {known.credential.jti} of {known.credential.client}",
            )
        existed = await self._store.release(known.credential.jti, assertion)
        if isinstance(existed, IssueRefused):
            return replayed()
        if existed:
            await self._recorder.append(
                Released(id=request_id, ts=self._clock.timestamp(), client=client.client_id, jti=known.credential.jti)
            )
        return None
