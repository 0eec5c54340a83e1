"""The verifier for a protected API, as ASGI middleware in one line (DESIGN §5).

    app = CredentialVerifier(app, issuer="http://127.0.0.1:8420", audience="https://db.internal", client_id="db-api",
                             client_key="keys/db-api.pem", scope_for=lambda scope: "db:read")

Each request, in this order; the first no is the answer:

| checked                                                                         | no                            |
|---------------------------------------------------------------------------------|-------------------------------|
| 1. one Authorization header, scheme Bearer, a token and nothing else               | 401; 400 for several headers  |
| 2. signature by the broker's own key, `typ: at+jwt`, `iss`, one `aud`, times         | 401 `invalid_token`           |
| 3. the claims are a credential's (`domain.tokens.claims`)                          | 401 `invalid_token`           |
| 4. tool, version and task are those that this API is for, where it says so            | 403 `insufficient_scope`      |
| 5. it has every scope that `scope_for` names; naming none means that nobody may      | 403 `insufficient_scope`      |
| 6. the broker says that it is active now (RFC 7662), and counts this use               | 401 `invalid_token`           |
| the broker, or its keys, cannot be had                                           | 503 with `Retry-After`        |

What passed stands in `scope["state"]["credential"]`. Bodies name the reason; tokens and claims are in none, nor in a log.
"""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from broker.domain.errors import REASONS, Reason, Refusal
from broker.domain.policy.document import KeySource
from broker.domain.tokens.claims import MAX_LIFETIME_SECONDS, TYPE, Credential, read_credential
from broker.domain.tokens.verify import Expectation, check_header, verify_claims
from broker.engines import jws
from broker.gate.broker_client import BrokerClient, BrokerUnreachableError, Refused
from broker.gate.client_auth import load_client_auth
from broker.gate.keys import GateKeySets
from broker.ports.keys import KeySets

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
ScopeFor: TypeAlias = Callable[[Scope], "str | Collection[str] | None"]

LEEWAY_SECONDS: Final = 10
ALGORITHMS: Final = ("ES256", "RS256", "EdDSA")

logger = logging.getLogger("broker.gate")


@dataclass(frozen=True, slots=True)
class _Answer:
    """A no: HTTP status, RFC 6750 error code (None: no credential was shown), our reason, words, scopes to ask for."""

    status: int
    error: str | None
    reason: str
    says: str
    scopes: tuple[str, ...] = ()
    retry_after_seconds: int | None = None


class CredentialVerifier:
    """Lets a request through to `app` only with a credential of the broker for it. Use it from one event loop."""

    def __init__(
        self,
        app: App,
        *,
        issuer: str,
        broker_url: str | None = None,
        audience: str,
        client_id: str,
        scope_for: ScopeFor,
        client_key: str | bytes | Path | None = None,
        client_kid: str | None = None,
        client_secret: str | None = None,
        tool: str | Collection[str] | None = None,
        version: str | Collection[str] | None = None,
        task: str | Collection[str] | None = None,
        timeout_seconds: float = 2.5,
        keys: KeySets | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """scope_for: the scopes that a request needs. tool, version, task: which this API is for; None: any.

        broker_url: where the broker is reached, if not under its issuer's address.
        client_id and client_key or client_secret: how this API asks the broker whether a credential is still active.
        """
        auth = load_client_auth(client_id, issuer=issuer, key=client_key, kid=client_kid, secret=client_secret)
        self._app = app
        self._broker = BrokerClient(broker_url or issuer, auth, timeout_seconds=timeout_seconds)
        self._source = KeySource(url=(broker_url or issuer).rstrip("/") + "/jwks.json")
        self._keys: KeySets = keys if keys is not None else GateKeySets()
        self._expectation = Expectation(
            issuer=issuer,
            audiences=(audience,),
            leeway_seconds=LEEWAY_SECONDS,
            max_lifetime_seconds=MAX_LIFETIME_SECONDS,
        )
        self._scope_for = scope_for
        self._tools, self._versions, self._tasks = _names(tool), _names(version), _names(task)
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            try:
                await self._app(scope, receive, send)
            finally:
                await self.aclose()
            return
        found = await self._judge(scope)
        if isinstance(found, Credential):
            scope.setdefault("state", {})["credential"] = found
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            logger.info("request refused: %d %s", found.status, found.reason)
            await _send(found, send)
        else:
            await send({"type": "websocket.close", "code": 1008, "reason": found.reason})

    async def aclose(self) -> None:
        """Close the connections; done by itself where the server runs the ASGI lifespan."""
        await self._broker.aclose()
        if isinstance(self._keys, GateKeySets):
            await self._keys.close()

    async def _judge(self, scope: Scope) -> Credential | _Answer:
        token = _bearer(scope)
        if isinstance(token, _Answer):
            return token
        try:
            credential = await self._verify(token)
            if isinstance(credential, Refusal):
                return _as_answer(credential)
            refused = self._check_binding(credential) or self._check_scopes(credential, scope)
            if refused is not None:
                return refused
            return await self._check_active(credential, token)
        except BrokerUnreachableError as error:
            logger.warning("no answer from the broker: %s", error)
            return _unavailable(error.retry_after_seconds)

    async def _verify(self, token: str) -> Credential | Refusal:
        """Checks 2 and 3."""
        unverified = jws.read_unverified(token)
        if isinstance(unverified, Refusal):
            return unverified
        header = unverified.header
        refusal = check_header(header, algorithms=ALGORITHMS, types=(TYPE,))
        if refusal is not None:
            return refusal
        key = await self._keys.find(self._source, kid=header.kid, algorithm=header.algorithm)
        if isinstance(key, Refusal):
            if key.reason is Reason.TOKEN_KEYS_UNAVAILABLE:
                raise BrokerUnreachableError("its keys cannot be had")
            return key
        claims = jws.verify(unverified, key)
        if isinstance(claims, Refusal):
            return claims
        verified = verify_claims(claims, self._expectation, now=int(self._clock()))
        if isinstance(verified, Refusal):
            return verified
        return read_credential({**claims, "aud": verified.audience})

    def _check_binding(self, credential: Credential) -> _Answer | None:
        """Check 4."""
        if self._tasks is not None and credential.task not in self._tasks:
            return _insufficient(Reason.CREDENTIAL_TASK_MISMATCH)
        right_tool = self._tools is None or credential.tool in self._tools
        if not right_tool or (self._versions is not None and credential.version not in self._versions):
            return _insufficient(Reason.CREDENTIAL_TOOL_MISMATCH)
        return None

    def _check_scopes(self, credential: Credential, scope: Scope) -> _Answer | None:
        """Check 5."""
        needed = _names(self._scope_for(scope)) or frozenset()
        if not needed or not needed <= credential.scopes:
            return _insufficient(Reason.CREDENTIAL_SCOPE_INSUFFICIENT, tuple(sorted(needed)))
        return None

    async def _check_active(self, credential: Credential, token: str) -> Credential | _Answer:
        """Check 6. A request is one use, whatever it is retried over inside."""
        said = await self._broker.introspect(token, use=secrets.token_urlsafe(16))
        if isinstance(said, Refused):
            logger.error("the broker refuses this verifier's questions: %s", said.reason)
            return _unavailable(1)
        if said["active"] is not True or said.get("jti", credential.jti) != credential.jti:
            return _as_answer(
                Refusal(Reason.CREDENTIAL_REVOKED, "it was revoked, given back or used up, or has expired")
            )
        return credential


def _names(value: str | Collection[str] | None) -> frozenset[str] | None:
    if value is None:
        return None
    return frozenset({value}) if isinstance(value, str) else frozenset(value)


def _bearer(scope: Scope) -> str | _Answer:
    """The token of a request (check 1)."""
    found = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
    if len(found) > 1:
        return _Answer(400, "invalid_request", "request_malformed", "more than one Authorization header was sent")
    scheme, _, token = (found[0] if found else b"").partition(b" ")
    if scheme.lower() != b"bearer":
        return _Answer(401, None, "credential_missing", "send a credential of the broker as Authorization: Bearer")
    text = token.strip(b" ").decode("latin-1")
    if not text or " " in text or "," in text or "\t" in text:
        return _Answer(401, "invalid_token", Reason.TOKEN_MALFORMED.value, "one token after Bearer was expected")
    return text


def _as_answer(refusal: Refusal) -> _Answer:
    return _Answer(401, "invalid_token", refusal.reason.value, f"{refusal.wire.says}: {refusal.detail}")


def _insufficient(reason: Reason, scopes: tuple[str, ...] = ()) -> _Answer:
    return _Answer(403, "insufficient_scope", reason.value, REASONS[reason].says, scopes)


def _unavailable(retry_after_seconds: int) -> _Answer:
    says = "whether the credential is still active cannot be found out at present"
    return _Answer(503, "temporarily_unavailable", "broker_unavailable", says, retry_after_seconds=retry_after_seconds)


async def _send(answer: _Answer, send: Send) -> None:
    said = {"error": answer.error, "error_description": answer.says, "reason": answer.reason}
    body = json.dumps({name: value for name, value in said.items() if value is not None}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    if answer.retry_after_seconds is not None:
        headers.append((b"retry-after", str(answer.retry_after_seconds).encode()))
    else:
        headers.append((b"www-authenticate", _challenge(answer).encode("latin-1")))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _challenge(answer: _Answer) -> str:
    """RFC 6750 §3; no error code where no credential was shown."""
    if answer.error is None:
        return "Bearer"
    words = answer.says.encode("ascii", "replace").decode().replace("\\", "/").replace('"', "'")
    parts = [f'error="{answer.error}"', f'error_description="{words}"']
    if answer.scopes:
        parts.append(f'scope="{" ".join(answer.scopes)}"')
    return "Bearer " + ", ".join(parts)
