"""A subject token whose signature was right is believed again only while its key, its issuer and its times still are."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import MappingProxyType

import pytest
from broker.adapters.jwks.keysets import HttpKeySets
from broker.adapters.keystore.store import FileKeyStore
from broker.app.tokens import JwsReader
from broker.domain.errors import Reason, Refusal
from broker.domain.ids import ClientId, Digest, Tenant
from broker.domain.policy.document import Ceiling, ClientTrust, Defaults, IssuerTrust, KeySource, Policy
from broker.domain.tokens.subject import Subject
from broker.engines.jwk import generate_private_key, public_jwk
from broker.engines.jws import sign
from broker.services.credentials import Credentials
from broker.services.subjects import Subjects

ISSUER, AUDIENCE, BROKER = "https://idp.example", "https://reports.example/mcp", "https://broker.example"


class HandClock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.seconds = float(int(time.time()))

    def now(self) -> int:
        return int(self.seconds)

    def now_ms(self) -> int:
        return int(self.seconds * 1000)

    def timestamp(self) -> str:
        return "2026-11-30T00:00:00.000000Z"


class Bench:
    """One issuer with its key file, and the service that believes it."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "idp.json"
        self.clock = HandClock()
        self.key = generate_private_key("ES256")
        self.publish(self.key)
        reader = JwsReader()
        self.own = FileKeyStore.open(folder / "keys", algorithm="ES256")
        credentials = Credentials(issuer=BROKER, reader=reader, signer=self.own, clock=self.clock)
        self.subjects = Subjects(
            reader=reader,
            keys=HttpKeySets(seconds=lambda: self.clock.seconds),
            credentials=credentials,
            clock=self.clock,
        )

    def publish(self, key, **members: str) -> None:
        self.file.write_text(json.dumps({"keys": [{**public_jwk(key, algorithm="ES256"), **members}]}))

    def token(self, jti: str = "1") -> str:
        now = self.clock.now()
        claims = {
            "iss": ISSUER,
            "sub": "ana",
            "aud": AUDIENCE,
            "azp": "assistant",
            "iat": now,
            "exp": now + 60,
            "jti": jti,
        }
        header = {"typ": "at+jwt", "kid": public_jwk(self.key, algorithm="ES256")["kid"]}
        return sign(header, claims, self.key, algorithm="ES256")

    def policy(self, *, algorithms: tuple[str, ...] = ("ES256",)) -> Policy:
        trust = IssuerTrust(
            issuer=ISSUER,
            jwks=KeySource(file=str(self.file)),
            algorithms=algorithms,
            ceiling=Ceiling(tools=("*",), scopes=("*",)),
        )
        empty = MappingProxyType({})
        return Policy(
            tenant=Tenant("default"),
            lockstep="strict",
            issuers={ISSUER: trust},
            clients=empty,
            admins=empty,
            defaults=Defaults(leeway_seconds=0),
            tools=empty,
            digest=Digest("sha256:" + "0" * 64),
        )

    async def ask(
        self, token: str, *, audience: str = AUDIENCE, actor: str | None = None, **policy
    ) -> Subject | Refusal:
        return await self.subjects.subject(token, actor, client=client_of(audience), policy=self.policy(**policy))


def client_of(resource: str) -> ClientTrust:
    return ClientTrust(
        ClientId("svc"), "client_secret_basic", None, (), resource, ("*",), None, frozenset({"exchange"})
    )


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


async def test_a_known_token_is_believed_again(bench):
    token = bench.token()
    first, second = await bench.ask(token), await bench.ask(token)
    assert isinstance(first, Subject)
    assert first == second
    assert first.account == "ana"


async def test_a_known_token_is_refused_once_its_key_is_withdrawn(bench):
    token = bench.token()
    assert isinstance(await bench.ask(token), Subject)
    bench.publish(generate_private_key("ES256"))
    bench.clock.seconds += 2
    refused = await bench.ask(token)
    assert isinstance(refused, Refusal)
    assert refused.reason is Reason.TOKEN_KEY_UNKNOWN


async def test_a_known_token_is_checked_again_when_another_key_takes_the_kid(bench):
    token = bench.token()
    assert isinstance(await bench.ask(token), Subject)
    bench.publish(generate_private_key("ES256"), kid=public_jwk(bench.key, algorithm="ES256")["kid"])
    bench.clock.seconds += 2
    refused = await bench.ask(token)
    assert isinstance(refused, Refusal)
    assert refused.reason is Reason.TOKEN_SIGNATURE_INVALID


async def test_a_known_token_is_refused_once_it_has_expired(bench):
    token = bench.token()
    assert isinstance(await bench.ask(token), Subject)
    bench.clock.seconds += 60
    refused = await bench.ask(token)
    assert isinstance(refused, Refusal)
    assert refused.reason is Reason.TOKEN_EXPIRED


async def test_a_known_token_is_judged_by_the_policy_and_the_audience_of_now(bench):
    token = bench.token()
    assert isinstance(await bench.ask(token), Subject)
    refused = await bench.ask(token, algorithms=("RS256",))
    assert isinstance(refused, Refusal)
    assert refused.reason is Reason.TOKEN_ALGORITHM_REFUSED
    refused = await bench.ask(token, audience="https://other.example/mcp")
    assert isinstance(refused, Refusal)
    assert refused.reason is Reason.TOKEN_AUDIENCE_MISMATCH


async def test_a_known_token_with_another_signature_is_another_token(bench):
    token = bench.token()
    assert isinstance(await bench.ask(token), Subject)
    refused = await bench.ask(token.rpartition(".")[0] + "." + bench.token("2").rpartition(".")[2])
    assert isinstance(refused, Refusal)
    assert refused.reason is Reason.TOKEN_SIGNATURE_INVALID
