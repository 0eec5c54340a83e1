"""Exchanges, revocations and returns in any order, through the composed broker: every child stays within its parent.

After each step the broker is asked about every credential. A model that knows who came of whom, and what was revoked or given
back, says what it must answer; and of each exchange, whether it must be refused for a dead chain.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from broker.app.compose import Parts
from broker.domain.errors import Reason, Refusal
from broker.domain.ids import ClientId, ToolName, Version
from broker.domain.lifecycle.rollout import Promote
from broker.domain.revocation.scopes import RevocationScope
from broker.domain.tokens.ancestors import MAX_ACTORS
from broker.domain.tokens.claims import Credential, read_credential
from broker.domain.tokens.client_auth import Secret
from broker.services.exchange import Granted

from broker_parts import SECRETS, detail, exchange_form, subject_token, unverified_claims
from composed_broker import command, composed

STEPS = 100
TICKET = ToolName("ticket.edit")
REFUSED = {Reason.SCOPE_BEYOND_SUBJECT, Reason.SCOPE_NOT_GRANTED}


def as_client(name: str) -> Secret:
    return Secret(ClientId(name), SECRETS[name][1], "client_secret_basic")


@dataclass(eq=False)
class Held:
    """A credential that was handed out. is_back: it was given back."""

    token: str
    credential: Credential
    parent: Held | None
    is_back: bool = False

    @property
    def depth(self) -> int:
        return 1 + (self.parent.depth if self.parent else 0)


@dataclass
class Walk:
    parts: Parts
    dice: random.Random
    held: list[Held] = field(default_factory=list)
    marks: dict[RevocationScope, int] = field(default_factory=dict)
    refused: list[Reason] = field(default_factory=list)

    def is_dead(self, one: Held | None) -> bool:
        """The model: dead by itself, at its own logical time, or come of something dead."""
        if one is None:
            return False
        scopes = one.credential.own_scopes("a key that nobody revokes")
        marked = any(self.marks.get(scope, 0) > one.credential.rseq for scope in scopes)
        return marked or one.is_back or self.is_dead(one.parent)

    async def exchange(self, client: str, parent: Held | None) -> None:
        asked = detail(arguments=self.dice.choice([{}, {"create": True}]))
        scope = self.dice.choice([None, None, "ticket.read", "ticket.create ticket.read"])
        claims = {"sub": self.dice.choice(["alice", "bob"]), "azp": self.dice.choice(["agent-7", "agent-8"])}
        token = parent.token if parent else subject_token(**claims)
        form = exchange_form(subject_token=token, authorization_details=asked, scope=scope)
        use_case = self.parts.use_cases.exchange
        answer = await use_case.exchange(as_client(client), form, request_id=self.parts.entropy.token())
        if isinstance(answer, Granted):
            assert not self.is_dead(parent)
            credential = read_credential(unverified_claims(answer.access_token))
            assert isinstance(credential, Credential)
            self.held.append(Held(answer.access_token, credential, parent))
            if parent is not None:
                _check_within(credential, parent.credential)
            return
        self.refused.append(answer.reason)
        if answer.reason is Reason.SUBJECT_CREDENTIAL_DEAD:
            assert self.is_dead(parent)
        elif answer.reason is Reason.TOKEN_CLAIM_INVALID:
            assert parent is not None
            assert parent.depth == MAX_ACTORS
        else:
            assert answer.reason in REFUSED, answer

    async def revoke(self, one: Held) -> None:
        own = one.credential.own_scopes("a key that nobody revokes")
        scope = self.dice.choice([scope for scope in own if not scope.startswith(("key:", "all", "version:", "tool:"))])
        versions = self.parts.use_cases.versions
        moved = await versions.revoke((scope,), by="operator", reason="a test", request_id=self.parts.entropy.token())
        self.marks[scope] = moved.seq

    async def give_back(self, one: Held) -> None:
        release = self.parts.use_cases.release.release
        done = await release(as_client(one.credential.client), {"token": one.token}, request_id="r")
        assert done is None
        one.is_back = True

    async def look(self) -> None:
        """Ask the broker about everything, as the API does where the credentials are spent."""
        introspect = self.parts.use_cases.introspection.introspect
        answers: list[Any] = await asyncio.gather(
            *(introspect(as_client("tools-api"), {"token": one.token}) for one in self.held)
        )
        assert not any(isinstance(answer, Refusal) for answer in answers)
        assert [answer["active"] for answer in answers] == [not self.is_dead(one) for one in self.held]


def _check_within(child: Credential, parent: Credential) -> None:
    assert child.scopes <= parent.scopes
    assert child.expires_at <= parent.expires_at
    assert child.rseq >= parent.rseq
    assert (child.account, child.account_issuer, child.chain, child.txn, child.gen) == (
        parent.account,
        parent.account_issuer,
        parent.chain,
        parent.txn,
        parent.gen,
    )
    assert child.act["act"] == parent.act


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_every_child_stays_within_its_parent_and_dies_with_it(tmp_path: Path, seed: int) -> None:
    async with composed(tmp_path) as (parts, _):
        publish = await parts.policies.publishing(TICKET, Version("1"), by="operator")
        assert not isinstance(publish, Refusal)
        await command(parts, publish)
        await command(parts, Promote(TICKET, Version("1")))
        walk = Walk(parts, random.Random(seed))
        for _ in range(STEPS):
            step = walk.dice.choices(["first", "child", "revoke", "give back"], [2, 8, 1, 1])[0]
            one = walk.dice.choice(walk.held[-6:]) if walk.held else None
            if step == "first" or one is None:
                await walk.exchange("svc", None)
            elif step == "child":
                await walk.exchange("vector-mcp", one)
            elif step == "revoke":
                await walk.revoke(one)
            else:
                await walk.give_back(one)
            await walk.look()
        assert max(one.depth for one in walk.held) >= 3
        assert Reason.SUBJECT_CREDENTIAL_DEAD in walk.refused
        assert Reason.SCOPE_BEYOND_SUBJECT in walk.refused
        assert any(walk.is_dead(one) and one.parent and not one.is_back for one in walk.held)
