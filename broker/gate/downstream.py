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
| 6. it is not revoked, and its version is served: by the feed, which costs no request  | 401 `invalid_token`           |
| 7. where its uses are counted, its policy says `online`, or with `online=True`:      | 401 `invalid_token`           |
|    the broker says that it is active now (RFC 7662), and counts this use            |                               |
| the broker, its keys, its feed or a lease cannot be had                          | 503 with `Retry-After`        |

What passed stands in `scope["state"]["credential"]`. Bodies name the reason; tokens and claims are in none, nor in a log.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TypeAlias, assert_never

from broker.domain.errors import Reason, Refusal
from broker.domain.revocation.view import Standing
from broker.domain.tokens.claims import Credential
from broker.gate.bearer import (
    App,
    Denial,
    Receive,
    Scope,
    Send,
    bearer_token,
    insufficient,
    invalid_token,
    send_denial,
    unavailable,
)
from broker.gate.broker_client import BrokerClient
from broker.gate.broker_http import BrokerUnreachableError, Refused, addresses
from broker.gate.client_auth import load_client_auth
from broker.gate.credentials import DEAD, CredentialReader, Presented
from broker.gate.following import Following, StateSetting
from broker.gate.keys import broker_keys
from broker.ports.keys import KeySets

ScopeFor: TypeAlias = Callable[[Scope], "str | Collection[str] | None"]

logger = logging.getLogger("broker.gate")


class CredentialVerifier:
    """Lets a request through to `app` only with a credential of the broker for it. Use it from one event loop."""

    def __init__(
        self,
        app: App,
        *,
        issuer: str,
        broker_url: str | Sequence[str] | None = None,
        audience: str,
        client_id: str,
        scope_for: ScopeFor,
        client_key: str | bytes | Path | None = None,
        client_kid: str | None = None,
        client_secret: str | None = None,
        tool: str | Collection[str] | None = None,
        version: str | Collection[str] | None = None,
        task: str | Collection[str] | None = None,
        online: bool = False,
        state_file: StateSetting = "default",
        timeout_seconds: float = 2.5,
        keys: KeySets | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """scope_for: the scopes that a request needs. tool, version, task: which this API is for; None: any.

        broker_url: where the broker is reached, if not under its issuer's address; several where there are replicas.
        client_id and client_key or client_secret: as whom this API follows the broker's revocations.
        online: ask the broker about each request instead. state_file: where to remember what was seen revoked; by default
        a file below the user's state folder; None: nowhere. Raises `ConfigurationError`.
        """
        auth = load_client_auth(client_id, issuer=issuer, key=client_key, kid=client_kid, secret=client_secret)
        urls = addresses(broker_url, issuer=issuer)
        source, own_keys = broker_keys(urls)
        self._app = app
        self._broker = BrokerClient(urls, auth, timeout_seconds=timeout_seconds)
        self._own_keys = own_keys
        self._reader = CredentialReader(keys or own_keys, source, issuer=issuer, audience=audience, clock=clock)
        self._following = None if online else Following(urls, auth, issuer=issuer, state_file=state_file)
        self._scope_for = scope_for
        self._tools, self._versions, self._tasks = _names(tool), _names(version), _names(task)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            if self._following is not None:
                self._following.start()
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
            await send_denial(found, send)
        else:
            await send({"type": "websocket.close", "code": 1008, "reason": found.reason})

    async def aclose(self) -> None:
        """Close the connections; done by itself where the server runs the ASGI lifespan."""
        if self._following is not None:
            await self._following.aclose()
        await self._broker.aclose()
        await self._own_keys.close()

    async def _judge(self, scope: Scope) -> Credential | Denial:
        token = bearer_token(scope)
        if isinstance(token, Denial):
            return token
        try:
            presented = await self._reader.read(token)
            if isinstance(presented, Refusal):
                return invalid_token(presented)
            credential = presented.credential
            return (
                self._check_binding(credential)
                or self._check_scopes(credential, scope)
                or await self._check_active(presented, token)
                or credential
            )
        except BrokerUnreachableError as error:
            logger.warning("no answer from the broker: %s", error)
            return unavailable("broker_unavailable", retry_after_seconds=error.retry_after_seconds)

    def _check_binding(self, credential: Credential) -> Denial | None:
        """Check 4."""
        if self._tasks is not None and credential.task not in self._tasks:
            return insufficient(Reason.CREDENTIAL_TASK_MISMATCH)
        right_tool = self._tools is None or credential.tool in self._tools
        if not right_tool or (self._versions is not None and credential.version not in self._versions):
            return insufficient(Reason.CREDENTIAL_TOOL_MISMATCH)
        return None

    def _check_scopes(self, credential: Credential, scope: Scope) -> Denial | None:
        """Check 5."""
        needed = _names(self._scope_for(scope)) or frozenset()
        if not needed or not needed <= credential.scopes:
            return insufficient(Reason.CREDENTIAL_SCOPE_INSUFFICIENT, tuple(sorted(needed)))
        return None

    async def _check_active(self, presented: Presented, token: str) -> Denial | None:
        """Checks 6 and 7."""
        if self._following is None:
            return await self._ask(presented.credential, token)
        if presented.credential.uses is not None or presented.credential.online:
            # What is dead here is dead; what is not, or not known here, the broker decides.
            standing = presented.standing(self._following.start())
            return _dead(standing) if standing in DEAD else await self._ask(presented.credential, token)
        standing = await self._following.judge(presented)
        match standing:
            case Standing.ALIVE:
                return None
            case Standing.REVOKED | Standing.NOT_SERVED | Standing.OTHER_GEN:
                return _dead(standing)
            case Standing.AHEAD:
                return unavailable("feed_behind", retry_after_seconds=1)
            case Standing.UNKNOWN:
                return unavailable("feed_stale", retry_after_seconds=1)
            case _:
                assert_never(standing)

    async def _ask(self, credential: Credential, token: str) -> Denial | None:
        """Check 7. A request is one use, whatever it is retried over inside."""
        said = await self._broker.introspect(token, use=secrets.token_urlsafe(16))
        if isinstance(said, Refused):
            logger.error("the broker refuses this verifier's questions: %s", said.reason)
            return unavailable("broker_unavailable", retry_after_seconds=1)
        if said["active"] is not True or said.get("jti", credential.jti) != credential.jti:
            return invalid_token(
                Refusal(Reason.CREDENTIAL_REVOKED, "it was revoked, given back or used up, or has expired")
            )
        return None


def _dead(standing: Standing) -> Denial:
    return invalid_token(Refusal(Reason.CREDENTIAL_REVOKED, DEAD[standing]))


def _names(value: str | Collection[str] | None) -> frozenset[str] | None:
    if value is None:
        return None
    return frozenset({value}) if isinstance(value, str) else frozenset(value)
