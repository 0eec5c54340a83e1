"""Verifiers: who may follow the feed, and their leases.

1. A client with `introspect` or `exchange` under may: who may ask whether a credential is active may know what is not.
2. A lease is granted only by the store, in a step that the required replicas have acknowledged; its assertion is used up in
   the same step. It is bound to the point that the store is at.
3. A name is its client's: nobody else speaks for it. A client has at most `MOST_NAMES` within `NAMES_SECONDS` at one process, since
   each is kept in the store, and looked at for each receipt.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from broker.domain.canonical import MAX_INTEGER, JsonObject
from broker.domain.errors import Reason, Refusal
from broker.domain.ids import ClientId
from broker.domain.policy.document import ClientTrust
from broker.domain.revocation.feed import Point
from broker.domain.revocation.lease import LEASE_SECONDS
from broker.domain.tokens.client_auth import ClientCredentials
from broker.ports.feed import LeaseStore, Renewal, RenewRefused
from broker.ports.store import Assertion, CredentialStore
from broker.services.clients import Clients, refuse_once, replayed

POWERS: Final = ("introspect", "exchange")
MOST_NAMES: Final = 2_048
NAMES_SECONDS: Final = 60.0
_VERIFIER: Final = re.compile(r"[A-Za-z0-9_-]{16,64}")


@dataclass(frozen=True, slots=True)
class Granted:
    """A lease: bound to a point, for seconds that count from when the verifier sent its request."""

    point: Point
    lease_seconds: float


class Verifiers:
    """One for a process."""

    def __init__(
        self,
        *,
        clients: Clients,
        store: CredentialStore,
        leases: LeaseStore,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clients = clients
        self._store = store
        self._leases = leases
        self._monotonic = monotonic
        self._names: dict[ClientId, OrderedDict[str, float]] = {}

    async def authenticate(self, credentials: ClientCredentials | Refusal) -> ClientTrust | Refusal:
        """The client that listens; its assertion is used up."""
        found = await self._find(credentials)
        if isinstance(found, Refusal):
            return found
        client, assertion = found
        if assertion is not None and not await self._store.take(assertion):
            return replayed()
        return client

    async def renew(self, credentials: ClientCredentials | Refusal, body: JsonObject | Refusal) -> Granted | Refusal:
        """A lease for the verifier that the body names."""
        found = await self._find(credentials)
        if isinstance(found, Refusal):
            return found
        client, assertion = found
        asked = body if isinstance(body, Refusal) else _read(body)
        if isinstance(asked, Refusal):
            return await refuse_once(asked, assertion, self._store)
        verifier, applied = asked
        if not self._note(client.client_id, verifier):
            many = Refusal(
                Reason.VERIFIERS_TOO_MANY, f"at most {MOST_NAMES} within {NAMES_SECONDS:g} s; keep one name", "verifier"
            )
            return await refuse_once(many, assertion, self._store)
        point = await self._leases.renew(Renewal(verifier, client.client_id, applied, assertion))
        match point:
            case RenewRefused.ASSERTION_REPLAYED:
                return replayed()
            case RenewRefused.VERIFIER_TAKEN:
                taken = Refusal(
                    Reason.VERIFIER_TAKEN, "make a name of random characters, anew at each start", "verifier"
                )
                return await refuse_once(taken, assertion, self._store)
            case _:
                return Granted(point, LEASE_SECONDS)

    def _note(self, client: ClientId, verifier: str) -> bool:
        """Whether the client may have a verifier of this name (rule 3)."""
        names, now = self._names.setdefault(client, OrderedDict()), self._monotonic()
        is_known = names.pop(verifier, None) is not None
        while names and next(iter(names.values())) <= now - NAMES_SECONDS:
            names.popitem(last=False)
        if len(names) >= MOST_NAMES and not is_known:
            return False
        names[verifier] = now
        return True

    async def _find(self, credentials: ClientCredentials | Refusal) -> tuple[ClientTrust, Assertion | None] | Refusal:
        found = await self._clients.client(credentials)
        if isinstance(found, Refusal):
            return found
        client, assertion = found
        if not any(power in client.may for power in POWERS):
            refusal = Refusal(
                Reason.CLIENT_NOT_PERMITTED,
                f"trust.yaml gives this client neither {' nor '.join(POWERS)} under may",
                why=f"trust.yaml/clients/{client.client_id}/may",
            )
            return await refuse_once(refusal, assertion, self._store)
        return client, assertion


def _read(body: JsonObject) -> tuple[str, Point] | Refusal:
    if type(body.get("v")) is not int or body["v"] != 1:
        return _malformed("v", "format 1 was expected")
    verifier = body.get("verifier")
    if not isinstance(verifier, str) or not _VERIFIER.fullmatch(verifier):
        return _malformed("verifier", "16 to 64 letters, digits, `_`, `-` were expected")
    counters = []
    for name in ("gen", "applied"):
        value = body.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_INTEGER:
            return _malformed(name, "a counter was expected")
        counters.append(value)
    unknown = sorted(set(body) - {"v", "verifier", "gen", "applied"})
    if unknown:
        shown = unknown[0][:64] if unknown[0].isascii() and unknown[0].isprintable() else "(a member)"
        return _malformed(shown, "no such member; known are v, verifier, gen, applied")
    return verifier, Point(*counters)


def _malformed(where: str, detail: str) -> Refusal:
    return Refusal(Reason.PARAMETER_INVALID, detail, where=where)
