"""A state machine over the real store: whatever happens, in whatever order, a model knows which credentials are active.

The model keeps no clock. When something is revoked, it marks every credential that stands in it as dead, there and then, which
is what revocation means; sequences, marks and states are how the store gets there, and are not repeated here. After each
step every credential that was ever minted is asked about in the store, and judged by a view that follows the store's feed.

| what happens      | means in the model                                                              |
|-------------------|---------------------------------------------------------------------------------|
| revoke a scope    | who stands in it, or comes from who does, is dead; a key is dead for ever       |
| roll back, retire | who is of the version, or comes from who is, is dead; nothing of it is minted   |
| release           | it is gone, and what comes from it; a view that follows the feed cannot know    |
| claim             | everybody is dead                                                               |
| compact           | who was minted before the point that is covered is dead: it has expired by then |
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from broker.adapters.redis.store import RedisStore
from broker.domain.audit.replay import Replayed
from broker.domain.errors import Refusal, StoreUnclaimedError
from broker.domain.ids import ClientId, Version, VersionId, version_id
from broker.domain.lifecycle.rollout import (
    Canary,
    Deprecate,
    Promote,
    Publish,
    Retire,
    Rollback,
    VersionCommand,
    apply,
)
from broker.domain.lifecycle.states import MINTABLE, Cohort, State, record_json
from broker.domain.revocation import scopes
from broker.domain.revocation import view as local
from broker.domain.revocation.feed import Change, Snapshot
from broker.domain.revocation.scopes import Bearing, RevocationScope, key_scope, scopes_of, version_scope
from broker.domain.revocation.view import RevocationView, Taken
from broker.ports.store import Ancestor, Inquiry, Issue, Issued, IssueRefused, Standing, VersionChange
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from store_parts import DIGEST, TOOL, StoreProcess, an_issue, new_jti, new_tenant, now_gen, version_record

T = TypeVar("T")
ISSUER = "https://idp.example"
NOW = 1_800_000_000
ENOUGH_MARKS = 64
VERSIONS = tuple(Version(str(number)) for number in range(1, 5))
CHOICE = st.integers(0, 999)
MOSTLY = 800
"""Choices below lead to what can succeed, where there is any."""
NUMBER = st.integers(0, 1)


@dataclass(eq=False)
class Held:
    """A credential, and what the model knows of it."""

    bearing: Bearing
    issued: Issued
    parent: Held | None = None
    is_dead: bool = False
    is_released: bool = False

    @property
    def version_id(self) -> VersionId:
        return version_id(self.bearing.tool, self.bearing.version)

    def line(self) -> Iterator[Held]:
        """Itself and all that it comes from."""
        one: Held | None = self
        while one is not None:
            yield one
            one = one.parent

    def ancestors(self) -> tuple[Ancestor, ...]:
        """All that it comes from, the first one first."""
        return tuple(one.as_ancestor() for one in reversed(list(self.line())[1:]))

    def as_ancestor(self) -> Ancestor:
        issued = self.issued
        return Ancestor(self.bearing.jti, issued.gen, issued.rseq, self.version_id, scopes_of(self.bearing))

    def scopes(self) -> tuple[RevocationScope, ...]:
        return tuple(dict.fromkeys(scope for one in self.line() for scope in scopes_of(one.bearing)))


@dataclass
class Model:
    """What must be so."""

    seq: int = 0
    states: dict[VersionId, State] = field(default_factory=dict)
    dead_keys: set[str] = field(default_factory=set)
    held: list[Held] = field(default_factory=list)

    def revoke(self, scope: RevocationScope) -> None:
        for one in self.held:
            one.is_dead |= scope in scopes_of(one.bearing)
        if scope.startswith("key:"):
            self.dead_keys.add(scope)

    def expire(self, gen: int, rseq: int) -> None:
        """Who was minted before has expired, and is dead; what comes from it expired no later, and is not asked about."""
        old = [one for one in self.held if one.issued.gen == gen and one.issued.rseq < rseq]
        for one in old:
            one.is_dead = True
        self.held = [one for one in self.held if one in old or not any(each in old for each in one.line())]

    def may_mint(self, version: VersionId) -> bool:
        return self.states.get(version) in MINTABLE

    def stands(self, one: Held) -> bool:
        """Alive as far as marks and states go, and all that it comes from."""
        return all(
            not each.is_dead and key_scope(each.bearing.kid) not in self.dead_keys and self.may_mint(each.version_id)
            for each in one.line()
        )

    def is_active(self, one: Held) -> bool:
        return self.stands(one) and not any(each.is_released for each in one.line())


class RevocationMachine(RuleBasedStateMachine):
    """One tenant from its first claim on. server: of this machine's test alone, since it is flushed and restarted."""

    def __init__(self, server: StoreProcess) -> None:
        super().__init__()
        self.server = server
        self.loop = asyncio.new_event_loop()
        self.tenant = new_tenant()
        self.store = self.connect()
        self.model = Model()
        self.view = RevocationView()
        self.gen = 0

    def connect(self) -> RedisStore:
        return RedisStore(self.server.url, self.tenant, call_seconds=20)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def teardown(self) -> None:
        self.run(self.store.close())
        self.loop.close()

    @initialize()
    def begin(self) -> None:
        first = version_record("1", State.STABLE)
        self.model.states[first.id] = State.STABLE
        self._claim(Replayed(seq=0, versions={first.id: record_json(first)}))

    # credentials

    @rule(version=CHOICE, who=NUMBER, account=NUMBER, key=NUMBER)
    def mint(self, version: int, who: int, account: int, key: int) -> None:
        self._mint(self.a_bearing(version, who, account, key), None)

    @rule(version=CHOICE, who=NUMBER, key=NUMBER)
    def mint_again(self, version: int, who: int, key: int) -> None:
        self._mint(self.a_bearing(version, who, who, key), None)

    @rule(parent=CHOICE, version=CHOICE, who=NUMBER, key=NUMBER)
    def delegate(self, parent: int, version: int, who: int, key: int) -> None:
        if self.model.held:
            active = [one for one in self.model.held if self.model.is_active(one)]
            among = active if active and parent < MOSTLY else self.model.held
            chosen = among[parent % len(among)]
            bearing = replace(self.a_bearing(version, who, who, key), chain=chosen.bearing.chain)
            self._mint(bearing, chosen)

    @rule(version=CHOICE)
    def mint_on_an_old_view(self, version: int) -> None:
        if self.model.seq:
            issue = replace(self.an_issue(self.a_bearing(version, 0, 0, 0), None), seq=self.model.seq - 1)
            assert self.run(self.store.issue(issue)) is IssueRefused.STALE_VIEW

    @rule(which=CHOICE)
    def release(self, which: int) -> None:
        if self.model.held:
            chosen = self.model.held[which % len(self.model.held)]
            was_there = self.run(self.store.release(chosen.bearing.jti))
            assert not (chosen.is_released and was_there)
            chosen.is_released = True

    def a_bearing(self, version: int, who: int, account: int, key: int) -> Bearing:
        jti = new_jti()
        served = [one for one in VERSIONS if self.model.may_mint(version_id(TOOL, one))]
        among = served if served and version < MOSTLY else VERSIONS
        return Bearing(
            kid=f"key-{key}",
            tool=TOOL,
            version=among[version % len(among)],
            policy=DIGEST,
            client=ClientId(f"client-{who}"),
            agent_issuer=ISSUER,
            agent=f"agent-{who}",
            account_issuer=ISSUER,
            account=f"account-{account}",
            chain=jti,
            jti=jti,
        )

    def an_issue(self, bearing: Bearing, parent: Held | None) -> Issue:
        ancestors = () if parent is None else (*parent.ancestors(), parent.as_ancestor())
        made = an_issue(bearing.version, seq=self.model.seq, jti=bearing.jti, seconds=600)
        return replace(made, ancestors=ancestors)

    def _mint(self, bearing: Bearing, parent: Held | None) -> None:
        self.minted(bearing, parent, self.run(self.store.issue(self.an_issue(bearing, parent))))

    def minted(self, bearing: Bearing, parent: Held | None, answer: Issued | IssueRefused) -> None:
        """The store's answer is what the model says it must be at this moment."""
        if parent is not None and not self.model.is_active(parent):
            assert answer is IssueRefused.ANCESTOR_DEAD
            return
        if not self.model.may_mint(version_id(TOOL, bearing.version)):
            assert answer is IssueRefused.NOT_MINTABLE
            return
        assert isinstance(answer, Issued), answer
        assert (answer.gen, answer.rseq) == (self.gen, self.model.seq)
        self.model.held.append(Held(bearing, answer, parent))

    # the life of versions, and revocation

    @rule(version=CHOICE, what=CHOICE)
    def change(self, version: int, what: int) -> None:
        self._change(VERSIONS[version % len(VERSIONS)], what)

    @rule(version=CHOICE)
    def roll_back(self, version: int) -> None:
        self._change_one_that_is(MINTABLE, version, 3)

    @rule(version=CHOICE)
    def come_back(self, version: int) -> None:
        self._change_one_that_is(frozenset({State.ROLLED_BACK}), version, 1)

    def _change_one_that_is(self, states: frozenset[State], version: int, what: int) -> None:
        among = [one for one in VERSIONS if self.model.states.get(version_id(TOOL, one)) in states]
        if among:
            self._change(among[version % len(among)], what)

    def _change(self, version: Version, what: int) -> None:
        commands: tuple[VersionCommand, ...] = (
            Publish(TOOL, version, DIGEST, DIGEST),
            Canary(TOOL, version, Cohort(weight=100)),
            Promote(TOOL, version),
            Rollback(TOOL, version, force=True),
            Deprecate(TOOL, version),
            Retire(TOOL, version, "an emergency"),
        )
        view = self.run(self.store.view())
        command = commands[what % len(commands)]
        change = apply(command, view, now=NOW)
        if isinstance(change, Refusal) or not change.updates:
            return
        records = tuple(replace(update.after, seq=view.seq + 1) for update in change.updates)
        wanted = VersionChange(new_jti(), view.seq, records, change.revokes, b"{}")
        applied = self.run(self.store.change(wanted))
        assert applied is not None
        assert (applied.seq, applied.repeated) == (self.model.seq + 1, False)
        repeated = self.run(self.store.change(wanted))
        assert repeated is not None
        assert (repeated.seq, repeated.repeated) == (applied.seq, True)
        self.model.seq = applied.seq
        self.model.states.update({record.id: record.state for record in records})
        if isinstance(command, Rollback | Retire):
            self.model.revoke(version_scope(TOOL, version))

    @rule(kind=st.integers(0, 11), number=NUMBER, which=CHOICE)
    def revoke(self, kind: int, number: int, which: int) -> None:
        held = self.model.held
        jti = held[which % len(held)].bearing if held else self.a_bearing(0, 0, 0, 0)
        some = (
            scopes.EVERYTHING,
            scopes.key_scope(f"key-{number}"),
            scopes.tool_scope(TOOL),
            scopes.policy_scope(DIGEST),
            scopes.client_scope(ClientId(f"client-{number}")),
            scopes.agent_scope(ISSUER, f"agent-{number}"),
            scopes.account_scope(ISSUER, f"account-{number}"),
            scopes.pair_scope(ISSUER, f"agent-{number}", ISSUER, f"account-{1 - number}"),
            scopes.pair_scope(ISSUER, f"agent-{number}", ISSUER, f"account-{number}"),
            scopes.chain_scope(jti.chain),
            scopes.jti_scope(jti.jti),
            scopes.jti_scope(new_jti()),
        )
        self._revoke(some[kind])

    def _revoke(self, *revoked: RevocationScope) -> None:
        applied = self.run(self.store.revoke(revoked, id=new_jti(), intent=b"{}"))
        assert applied.seq == self.model.seq + 1
        self.model.seq = applied.seq
        for scope in revoked:
            self.model.revoke(scope)

    @rule(is_full=st.booleans())
    def compact(self, is_full: bool) -> None:
        """Everything that was minted before the point noted last time counts as expired here."""
        if is_full:
            self._revoke(*(scopes.jti_scope(new_jti()) for _ in range(ENOUGH_MARKS)))
        done = self.run(self.store.feed.compact(id=new_jti(), intent=b"{}", horizon_seconds=0))
        if done is None:
            return
        applied, covered = done
        assert applied.seq == self.model.seq + 1
        assert covered <= self.model.seq
        self.model.seq = applied.seq
        self.model.expire(self.gen, covered)
        self.run(self.store.feed.sweep())

    # other incarnations

    @rule(how=st.sampled_from(("another broker", "another broker", "flushed", "restarted", "functions flushed")))
    def claim_anew(self, how: str) -> None:
        view, marks = self.run(self.store.view()), self.run(self.store.marks())
        versions = {name: record_json(record) for name, record in view.versions.items()}
        match how:
            case "flushed":
                with self.server.admin() as admin:
                    admin.flushall()
            case "functions flushed":
                with self.server.admin() as admin:
                    admin.function_flush()
            case "restarted":
                self.server.stop()
                self.server.start()
        old, self.store = self.store, self.connect()
        self._claim(Replayed(seq=view.seq + 1, versions=dict(versions), marks=dict(marks)))
        try:
            self.run(old.issue(an_issue("1", seq=self.model.seq)))
        except StoreUnclaimedError:
            pass
        else:
            raise AssertionError("the one who had claimed before still mints")
        finally:
            self.run(old.close())
        for one in self.model.held:
            one.is_dead = True

    def _claim(self, content: Replayed) -> None:
        found = self.run(self.store.inspect())
        content.gen = self.gen = max(now_gen(), found.gen + 1, self.gen + 1)
        self.run(self.store.claim(found, content))
        self.model.seq = content.seq

    # what is always so

    @invariant()
    def the_store_says_what_the_model_says(self) -> None:
        if not self.gen:
            return
        found = self.run(self._standings())
        expected = [self.model.is_active(one) for one in self.model.held]
        assert [standing is Standing.ACTIVE for standing in found] == expected, found

    async def _standings(self) -> list[Standing]:
        return await asyncio.gather(
            *(
                self.store.inquire(
                    Inquiry(
                        one.bearing.jti,
                        one.issued.gen,
                        one.issued.rseq,
                        one.version_id,
                        one.scopes(),
                        ancestors=one.ancestors(),
                    )
                )
                for one in self.model.held
            )
        )

    @invariant()
    def a_view_that_follows_the_feed_says_the_same_but_for_releases(self) -> None:
        if not self.gen:
            return
        self.run(self._follow())
        assert (self.view.gen, self.view.seq) == (self.gen, self.model.seq)
        for one in self.model.held:
            standing = self.view.judge(
                gen=one.issued.gen,
                rseq=one.issued.rseq,
                keys=[key_scope(each.bearing.kid) for each in one.line()],
                versions=[each.version_id for each in one.line()],
                scopes=one.scopes,
            )
            assert (standing is local.Standing.ALIVE) == self.model.stands(one), standing

    async def _follow(self) -> None:
        """Take the steps since; all at once in a new gen, or where a step is too large to tell."""
        if self.view.is_lost or self.view.gen != self.gen:
            await self._take_everything()
        while self.view.seq < self.model.seq:
            steps = await self.store.feed.steps(self.view.seq, wait_seconds=1)
            assert steps, "the feed has not told all steps"
            for step in steps:
                if step.whole:
                    await self._take_everything()
                    continue
                states = {name: record.state.value for name, record in step.versions.items()}
                change = Change(step.point.gen, step.point.seq, step.marks, states, step.covered)
                assert self.view.take(change) in (Taken.APPLIED, Taken.REPEATED)

    async def _take_everything(self) -> None:
        content = await self.store.feed.content()
        states = {name: record.state.value for name, record in content.versions.items()}
        assert self.view.take(Snapshot(content.point.gen, content.point.seq, content.marks, states)) is Taken.APPLIED
