"""Introspection (RFC 7662): is this credential active, now?

1. The caller authenticates; without: refused.
2. A caller that is neither the credential's audience nor its client learns nothing: `active: false`.
3. A token that is no valid credential of ours is not active, and nothing else is said of it.
4. The store is asked each time; it answers from positive state, marks and gen, of the credential and of all that it comes
   from. One that is not what it must be is not.
5. `use=<id>` counts one use of the credential under that id (credentials with `uses`).
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.domain.canonical import JsonObject
from broker.domain.errors import Reason, Refusal
from broker.domain.ids import parse_transaction
from broker.domain.tokens.claims import KnownCredential, spell_claims
from broker.domain.tokens.client_auth import ClientCredentials
from broker.domain.tokens.target import canonical_target
from broker.ports.policy import PolicySource
from broker.ports.store import Ancestor, Assertion, CredentialStore, Inquiry, Standing
from broker.services.clients import Clients, refuse_once, replayed
from broker.services.credentials import Credentials
from broker.services.lifecycle_cache import LifecycleCache
from broker.services.store_lease import StoreLease

INACTIVE: JsonObject = {"active": False}


class Introspection:
    """The use case; one for a process."""

    def __init__(
        self,
        *,
        clients: Clients,
        credentials: Credentials,
        policy: PolicySource,
        cache: LifecycleCache,
        store: CredentialStore,
        lease: StoreLease,
    ) -> None:
        self._clients = clients
        self._credentials = credentials
        self._policy = policy
        self._cache = cache
        self._store = store
        self._lease = lease

    async def introspect(self, caller: ClientCredentials | Refusal, form: Mapping[str, str]) -> JsonObject | Refusal:
        """The introspection response."""
        found = await self._clients.client(caller)
        if isinstance(found, Refusal):
            return found
        client, assertion = found
        use = form.get("use")
        malformed = _check_form(form)
        if malformed is not None:
            return await refuse_once(malformed, assertion, self._store)
        known = self._credentials.read(form["token"], leeway_seconds=self._policy.current().defaults.leeway_seconds)
        if isinstance(known, Refusal):
            return await self._dead(assertion)
        is_audience = (
            "introspect" in client.may
            and client.resource is not None
            and canonical_target(client.resource) == canonical_target(known.credential.audience)
        )
        if not is_audience and client.client_id != known.credential.client:
            return await self._dead(assertion)
        return await self._answer(known, use if is_audience else None, assertion)

    async def _dead(self, assertion: Assertion | None) -> JsonObject | Refusal:
        """Not active; the assertion is used up all the same."""
        if assertion is not None and not await self._store.take(assertion):
            return replayed()
        return INACTIVE

    async def _answer(
        self, known: KnownCredential, use: str | None, assertion: Assertion | None
    ) -> JsonObject | Refusal:
        credential = known.credential
        self._cache.check_known()
        await self._lease.check()
        standing = await self._store.inquire(
            Inquiry(
                jti=credential.jti,
                gen=credential.gen,
                rseq=credential.rseq,
                version=credential.version_id,
                scopes=known.scopes,
                use=use if credential.uses is not None else None,
                assertion=assertion,
                ancestors=[Ancestor(one.jti, credential.gen, one.rseq, one.version_id) for one in credential.ancestors],
            )
        )
        match standing:
            case Standing.ACTIVE:
                # the store said so some time ago, if this process stood still meanwhile
                await self._lease.check()
                return {
                    "active": True,
                    "token_type": "Bearer",
                    "username": credential.account,
                    **spell_claims(credential),
                }
            case Standing.ASSERTION_REPLAYED:
                return replayed()
            case _:
                return INACTIVE


def _check_form(form: Mapping[str, str]) -> Refusal | None:
    if "token" not in form:
        return Refusal(Reason.PARAMETER_MISSING, "expected: the token to introspect", where="token")
    if "use" in form and parse_transaction(form["use"]) is None:
        return Refusal(Reason.PARAMETER_INVALID, "1–128 letters, digits, `_`, `.`, `:`, `-` were expected", where="use")
    return None
