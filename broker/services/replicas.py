"""What replicas of one broker tell each other.

1. Who asks shows a statement of its own type, a minute old at most, signed with the signing key that all replicas share. A
   credential is no such statement, nor is an administrator's assertion.
2. What is told: all that the logs of this replica say of the store, as of now, whether this replica is ready or not.
3. Who has acted asks the others whether they have it on record. They answer as soon as they have, or after `RECORD_SECONDS`; what
   has acted does not wait for it.
4. Each says its name with what it says: one that was named to itself, or twice, must not count twice.
"""

from __future__ import annotations

import asyncio
from typing import Final

from broker.domain.audit.knowledge import knowledge_json
from broker.domain.canonical import JsonObject
from broker.domain.errors import Reason, Refusal
from broker.domain.revocation.feed import Point
from broker.domain.tokens.client_auth import AssertionText, ClientCredentials
from broker.domain.tokens.verify import Expectation, check_header, verify_claims
from broker.ports.keys import Signer
from broker.ports.peers import Peers
from broker.ports.system import Clock, Entropy
from broker.ports.tokens import TokenReader
from broker.services.following import Following
from broker.services.knowledge import Knowledge
from broker.services.recorder import Recorder

TYPE: Final = "mayfly-replica+jwt"
LIFETIME_SECONDS: Final = 60
LEEWAY_SECONDS: Final = 10
RECORD_SECONDS: Final = 0.4
_POLL_SECONDS: Final = 0.01


class Statements:
    """Made by who asks, judged by who is asked (rule 1)."""

    def __init__(self, *, issuer: str, signer: Signer, reader: TokenReader, clock: Clock, entropy: Entropy) -> None:
        self._issuer = issuer
        self._audience = f"{issuer}/replicas"
        self._signer = signer
        self._reader = reader
        self._clock = clock
        self._entropy = entropy

    def make(self) -> str:
        """A fresh statement. Raises `SigningUnavailableError`."""
        now = self._clock.now()
        return self._signer.sign_as(
            TYPE,
            {
                "iss": self._issuer,
                "sub": self._issuer,
                "aud": self._audience,
                "iat": now,
                "exp": now + LIFETIME_SECONDS,
                "jti": self._entropy.token(),
            },
        )

    def check(self, shown: ClientCredentials | Refusal) -> Refusal | None:
        """None where a replica shows a statement."""
        if isinstance(shown, Refusal):
            return shown
        if not isinstance(shown, AssertionText):
            return _refused("a replica's statement was expected as Bearer")
        token = self._reader.read_unverified(shown.unverified)
        if isinstance(token, Refusal):
            return _refused(token.detail)
        key = self._signer.verification_key(token.header.kid or "")
        if key is None:
            return _refused("it is not signed with a key of this broker; do the replicas share the key folder?")
        refused = check_header(token.header, algorithms=(key.algorithm,), types=(TYPE,))
        claims = self._reader.verify(token, key) if refused is None else refused
        if isinstance(claims, Refusal):
            return _refused(claims.detail)
        judged = verify_claims(
            claims,
            Expectation(
                issuer=self._issuer,
                audiences=(self._audience,),
                leeway_seconds=LEEWAY_SECONDS,
                max_lifetime_seconds=LIFETIME_SECONDS,
                subject=self._issuer,
            ),
            now=self._clock.now(),
        )
        return _refused(judged.detail) if isinstance(judged, Refusal) else None


class Replicas:
    """The use cases; one for a process."""

    def __init__(
        self,
        name: str,
        *,
        statements: Statements,
        knowledge: Knowledge,
        peers: Peers,
        following: Following,
        recorder: Recorder,
    ) -> None:
        self.name = name
        self._statements = statements
        self._knowledge = knowledge
        self._peers = peers
        self._following = following
        self._recorder = recorder

    async def knowledge(self, shown: ClientCredentials | Refusal) -> JsonObject | Refusal:
        """What this replica knows (rule 2)."""
        refused = self._statements.check(shown)
        if refused is not None:
            return refused
        return {**knowledge_json((await self._knowledge.own()).state), "replica": self.name}

    async def has_recorded(self, shown: ClientCredentials | Refusal, point: Point) -> bool | Refusal:
        """Whether this replica has on record what was done up to a point (rule 3)."""
        refused = self._statements.check(shown)
        if refused is not None:
            return refused
        deadline = asyncio.get_running_loop().time() + RECORD_SECONDS
        while not self._has(point) and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110  # two things move
            await asyncio.sleep(_POLL_SECONDS)
        return self._has(point)

    def _has(self, point: Point) -> bool:
        return self._following.on_record >= point and self._recorder.is_recorded

    async def recorded_by(self, point: Point) -> JsonObject | None:
        """How many replicas, this one included, have on record what this one has just done; None where it is the only one."""
        answers = await self._peers.recorded(point)
        if not answers:
            return None
        return {"replicas": 1 + sum(answer is True for answer in answers.values()), "of": 1 + len(answers)}


def _refused(detail: str) -> Refusal:
    return Refusal(Reason.CLIENT_ASSERTION_INVALID, detail, where="Authorization")
