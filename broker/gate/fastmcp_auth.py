"""The caller's token at a fastmcp server, verified by the gate's own code.

A token that is not believed is a 401 with `WWW-Authenticate`, which the framework sends; keys or a feed that cannot be had are a
failure of the server, not of the token, so the client is not sent through a login.
"""

from __future__ import annotations

import logging
from typing import Any

from fastmcp.server.auth import AccessToken, TokenVerifier
from fastmcp.server.auth.auth import TokenVerificationError
from pydantic import Field

from broker.domain.errors import Reason, Refusal
from broker.gate.broker_http import BrokerUnreachableError
from broker.gate.fastmcp_token import calling
from broker.gate.subject import SubjectVerifier, VerifiedSubject

logger = logging.getLogger("broker.gate")


class CallerToken(AccessToken):
    """An access token that `SubjectVerifier` believed; `verified` is what it read."""

    verified: Any = Field(exclude=True, repr=False)


class SubjectTokenVerifier(TokenVerifier):
    """For `FastMCP(auth=…)`: JWT access tokens of the given issuers, for this server's resource alone."""

    def __init__(self, subjects: SubjectVerifier, *, required_scopes: list[str] | None = None) -> None:
        super().__init__(required_scopes=required_scopes)
        self.subjects = subjects

    async def verify_token(self, token: str) -> AccessToken | None:
        """The token's facts, or None where it is not believed."""
        try:
            found = await self.subjects.verify(token)
        except BrokerUnreachableError as error:
            raise TokenVerificationError(str(error)) from None
        if isinstance(found, Refusal):
            if found.reason is Reason.TOKEN_KEYS_UNAVAILABLE:
                raise TokenVerificationError("the issuer's keys cannot be had at present")
            logger.info("subject token refused: %s at %s", found.reason.value, found.where)
            return None
        scope = found.claims.claims.get("scope")
        return CallerToken(
            token=token,
            client_id=found.subject.agent,
            scopes=scope.split() if isinstance(scope, str) else [],
            expires_at=found.claims.expires_at,
            resource=found.claims.audience,
            subject=found.subject.account,
            claims=dict(found.claims.claims),
            verified=found,
        )


async def find_caller(subjects: SubjectVerifier) -> VerifiedSubject | Refusal:
    """Who makes the request that is being served. A token that another verifier let through is verified here, too.

    Raises as `SubjectVerifier.verify` does.
    """
    token = calling()
    if token is None:
        return Refusal(Reason.PARAMETER_MISSING, "no caller is authenticated", where="Authorization")
    if isinstance(token, CallerToken) and isinstance(token.verified, VerifiedSubject):
        return token.verified
    return await subjects.verify(token.token)
