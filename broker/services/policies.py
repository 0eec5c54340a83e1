"""Loading policy: a new one takes the place of the last good one whole, and is written down.

1. Nothing is put in force that the rules refuse or cannot decide about, compared with what the store says is published; the policy
   in force stays. How findings weigh: `domain/policy/judgement.py`.
2. A published version from which access was taken away in place: the store puts the narrower grant in force and revokes what was
   granted by the wider one, in one step; then this process follows. Another replica that still has the wider files refuses that
   version until it has loaded the narrower ones: access is gone everywhere at once.
3. A published version whose loaded policy is neither is refused at the exchange, and named here.
4. One load or publication at a time; the rules are asked aside from the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from broker.domain.audit.records import ExceptionUsed, PolicyChanged, PolicyNarrowed, record_json
from broker.domain.errors import Reason, Refusal, StoreUnavailableError, StoreUnclaimedError
from broker.domain.ids import Digest, ToolName, Version, VersionId
from broker.domain.lifecycle import states
from broker.domain.lifecycle.rollout import Publish, narrow
from broker.domain.lifecycle.states import LifecycleView, State, VersionRecord
from broker.domain.policy.document import VersionPolicy
from broker.domain.policy.findings import Finding, Report, Severity
from broker.domain.policy.frozen import Standing, spell_grant
from broker.domain.policy.judgement import PolicyRefusedError, follows_unread, judge, spell_report
from broker.domain.policy.report_wire import report_json
from broker.domain.policy.tree import PolicyTree
from broker.domain.revocation.scopes import RevocationScope
from broker.ports.policy import PolicySource
from broker.ports.schemas import SchemaArithmetic
from broker.ports.store import Applied, VersionChange, VersionStore
from broker.ports.system import Clock, Entropy
from broker.services.aside import Aside
from broker.services.checking import PolicyChecker, report
from broker.services.incarnation import spell_intent
from broker.services.lifecycle_cache import LifecycleCache
from broker.services.patience import Patience
from broker.services.published_policy import Published, out_of_service, published_policy, standing_of
from broker.services.recorder import Recorder

LOOKS: Final = 8
PATIENCE_SECONDS: Final = 60.0
MAX_NARROWED_BYTES: Final = 32_768
"""How much of version records one step puts in place: its audit record must hold them."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """edited: published versions whose loaded policy is not the published one. narrowed: those that lost access just now."""

    digest: Digest
    edited: tuple[VersionId, ...]
    narrowed: tuple[VersionId, ...] = ()
    report: Report = field(default_factory=lambda: Report(()))


class Policies:
    """One for a process. reloaded: told who had the files read again, once they are in force."""

    def __init__(
        self,
        *,
        source: PolicySource,
        arithmetic: SchemaArithmetic,
        reloaded: Callable[[str], None] = lambda by: None,
        store: VersionStore,
        cache: LifecycleCache,
        recorder: Recorder,
        clock: Clock,
        entropy: Entropy,
    ) -> None:
        self._source = source
        self._arithmetic = arithmetic
        self._reloaded = reloaded
        self._store = store
        self._cache = cache
        self._recorder = recorder
        self._clock = clock
        self._entropy = entropy
        self._turn = asyncio.Lock()
        self._aside = Aside()

    async def start(self) -> Loaded:
        """Judge and put in force what the source was made with. Raises `PolicyRefusedError`: the broker must not start."""
        async with self._turn:
            return await self._load(self._source.tree(), in_force=None, by="start")

    async def reload(self, *, by: str) -> Loaded:
        """Read the files again. Raises `PolicyInvalidError`, `PolicyRefusedError`; the policy in force then stays.

        by: the administrator who asks for it.
        """
        async with self._turn:
            tree = await asyncio.to_thread(self._source.read)
            loaded = await self._load(tree, in_force=self._source.tree(), by=by)
        self._reloaded(by)
        return loaded

    async def publishing(self, tool: ToolName, version: Version, *, by: str) -> Publish | Refusal:
        """The publish command for a version of the policy in force, which the rules have looked at once more."""
        async with self._turn:
            tree = self._source.tree()
            found = tree.version(tool, version)
            if found is None:
                said = f"the loaded policy has no {tool}@{version}; add it to policies/{tool}.yaml and load it first"
                return Refusal(Reason.VERSION_NOT_IN_POLICY, said, where="version")
            view = await self._cache.refresh()
            if view.get(tool, version) is None:
                judged = await self._aside.run(lambda: self._judge_new(tree, found, view))
                if judged.exit_code:
                    return policy_refusal(judged)
                await self._record_exceptions(judged, tree, when="publish", by=by)
            return Publish(
                tool=tool,
                version=version,
                contract=found.contract.digest,
                policy=found.digest,
                grant=spell_grant(found),
            )

    async def _load(self, tree: PolicyTree, *, in_force: PolicyTree | None, by: str) -> Loaded:
        narrowed: tuple[VersionId, ...] = ()
        for _ in range(LOOKS):
            view = await self._cache.refresh()
            judged = await self._aside.run(lambda view=view: self._judge(tree, in_force, view))  # type: ignore[misc]
            if judged.exit_code:
                raise PolicyRefusedError(judged)
            shrunk = _shrunk(tree, view)
            if not shrunk:
                break
            narrowed += await self._narrow(tree, shrunk, view, by=by)
            if not _shrunk(tree, self._cache.view):
                break
        else:
            raise StoreUnclaimedError("the versions kept changing while the policy was being loaded")
        previous = in_force.policy.digest if in_force is not None else None
        if tree.policy.digest != previous:
            await self._recorder.append(
                PolicyChanged(
                    id=self._entropy.token(),
                    ts=self._clock.timestamp(),
                    policy=tree.policy.digest,
                    previous=previous,
                    tools=tuple(sorted(tree.policy.tools)),
                )
            )
            await self._record_exceptions(judged, tree, when="load", by=by)
        self._source.adopt(tree)
        return Loaded(tree.policy.digest, out_of_service(tree, self._cache.view), narrowed, judged)

    # judging; runs aside

    def _judge(self, tree: PolicyTree, in_force: PolicyTree | None, view: LifecycleView) -> Report:
        published = published_policy(view, tree, in_force)
        checked = self._checker().check(tree, base=published.tree, today=self._today())
        tolerated = _tolerated(tree, in_force, view)
        findings = judge(checked.findings, tree, published=view.versions, unread=published.unread, tolerated=tolerated)
        return replace(checked, findings=(*findings, *_unread_steps(tree, published, view)))

    def _judge_new(self, tree: PolicyTree, version: VersionPolicy, view: LifecycleView) -> Report:
        """A version that is about to be published, against what it follows, as that was published."""
        published = published_policy(view, tree, None)
        before = _published_before(tree, version, published, view)
        if before is not None and published.version(version.tool, before) is None:
            return Report((follows_unread(tree, version.tool, version.version, before),))
        checker = self._checker()
        found = list(checker.check_one(tree, published.tree, version.tool, version.version))
        old = published.version(version.tool, before)
        if old is not None and before != tree.predecessor(version.tool, version.version):
            # what it follows in the files is not published: callers step from the last one that is
            said = {(one.rule, one.key) for one in found}
            over = checker.check_version(tree, version, old=old, old_tree=published.tree)
            found += [one for one in over if (one.rule, one.key) not in said]
        judged = report(found, tree, today=self._today())
        mine = tuple(one for one in judged.findings if (one.tool, one.version) == (version.tool, version.version))
        uses = tuple(use for use in judged.exceptions if (use.tool, use.version) == (version.tool, version.version))
        return replace(judged, findings=mine, exceptions=uses)

    def _checker(self) -> PolicyChecker:
        """One for each judgement: what could not be decided in time is asked again the next time."""
        return PolicyChecker(Patience(self._arithmetic, seconds=PATIENCE_SECONDS))

    def _today(self) -> str:
        return self._clock.timestamp()[:10]

    # acting

    async def _narrow(
        self, tree: PolicyTree, shrunk: tuple[VersionId, ...], view: LifecycleView, *, by: str
    ) -> tuple[VersionId, ...]:
        """Put narrower grants in force: of which versions. None where the store has moved, so that all must be judged anew."""
        updates: list[VersionRecord] = []
        revokes: list[RevocationScope] = []
        size = 0
        for identity in shrunk:
            before = view.versions[identity]
            loaded = tree.version(before.tool, before.version)
            assert loaded is not None
            grant = spell_grant(loaded)
            assert grant is not None, "no longer than the one that it narrows"
            update, revoked = narrow(before, policy=loaded.digest, grant=grant)
            size += len(states.spell_record(update.after))
            if updates and size > MAX_NARROWED_BYTES:
                break  # the rest is found shrunk at the next look
            updates.append(replace(update.after, seq=view.seq + 1))
            revokes.append(revoked)
        record = PolicyNarrowed(
            id=self._entropy.token(),
            ts=self._clock.timestamp(),
            policy=tree.policy.digest,
            gen=view.gen,
            gseq=0,
            seq=view.seq + 1,
            by=by,
            records=tuple(states.record_json(after) for after in updates),
            revoked=tuple(revokes),
        )
        change = VersionChange(
            id=record.id,
            seq=view.seq,
            records=updates,
            revokes=revokes,
            intent=spell_intent(record_json(record)),  # type: ignore[arg-type]  # a record's fields are JSON values
        )
        self._recorder.acting(record.id)
        try:
            applied = await self._store.change(change)
        except StoreUnavailableError:
            self._recorder.doubt()
            raise
        if applied is None:
            return ()
        # At once, before anything else can run: the store holds the narrower grants, and only this tree has them.
        self._source.adopt(tree)
        await self._record_narrowed(record, applied)
        return tuple(after.id for after in updates)

    async def _record_narrowed(self, record: PolicyNarrowed, applied: Applied) -> None:
        made = replace(record, gen=applied.gen, gseq=applied.gseq, seq=applied.seq)
        try:
            await self._recorder.append_effective(made, gen=applied.gen, gseq=applied.gseq)
        finally:
            await self._cache.refresh()

    async def _record_exceptions(self, judged: Report, tree: PolicyTree, *, when: str, by: str) -> None:
        for use in judged.exceptions:
            if use.used:
                await self._recorder.append(
                    ExceptionUsed(
                        id=self._entropy.token(),
                        ts=self._clock.timestamp(),
                        policy=tree.policy.digest,
                        when=when,
                        rule=use.rule,
                        tool=use.tool,
                        version=use.version,
                        key=use.key,
                        reason=use.reason,
                        approved_by=use.approved_by,
                        expires=use.expires,
                        by=by,
                    )
                )


def _shrunk(tree: PolicyTree, view: LifecycleView) -> tuple[VersionId, ...]:
    """Published versions that lose access by a tree; what is retired has none left to lose."""
    return tuple(
        sorted(
            record.id
            for record in view.versions.values()
            if record.state is not State.RETIRED and standing_of(record, tree) is Standing.NARROWED
        )
    )


def _tolerated(tree: PolicyTree, in_force: PolicyTree | None, view: LifecycleView) -> frozenset[VersionId]:
    """Published versions whose edit stops nothing: at the start all; at a reload those whose edit is in force already."""
    if in_force is None:
        return frozenset(view.versions)
    return frozenset(
        record.id
        for record in view.versions.values()
        if standing_of(record, in_force) is Standing.EDITED
        and _digest(tree, record.tool, record.version) == _digest(in_force, record.tool, record.version)
    )


def _digest(tree: PolicyTree, tool: ToolName, version: Version) -> Digest | None:
    found = tree.version(tool, version)
    return found.digest if found is not None else None


def _unread_steps(tree: PolicyTree, published: Published, view: LifecycleView) -> Iterator[Finding]:
    """Versions to come that follow a published one whose text nobody has."""
    for tool, policy in tree.policy.tools.items():
        unread = [record.version for record in view.of(tool) if record.id in published.unread]
        for number, version in policy.versions.items():
            if view.get(tool, number) is not None:
                continue
            before = tree.predecessor(tool, number)
            if before is None and not published.tree.policy.tools.get(tool):
                before = unread[-1] if unread else None
            if before is not None and before in unread:
                yield follows_unread(tree, version.tool, number, before)


def _published_before(
    tree: PolicyTree, version: VersionPolicy, published: Published, view: LifecycleView
) -> Version | None:
    """The published version that this one follows: along the files, else the stable one, else the last that was moved."""
    seen: set[Version] = set()
    before = tree.predecessor(version.tool, version.version)
    while before is not None and before not in seen:
        if view.get(version.tool, before) is not None:
            return before
        seen.add(before)
        before = tree.predecessor(version.tool, before)
    known = published.tree.policy.tools.get(version.tool)
    if known is not None:
        return list(known.versions)[-1]
    living = [record.version for record in view.of(version.tool) if record.state is not State.RETIRED]
    return living[-1] if living else None


def policy_refusal(judged: Report, *, where: str = "version") -> Refusal:
    """What a caller is told of a policy that the rules do not let through."""
    stopping = [one for one in judged.findings if one.severity in (Severity.REFUSED, Severity.UNDECIDED)]
    rules = ", ".join(sorted({one.rule.value for one in stopping}))
    return Refusal(
        Reason.POLICY_REFUSED,
        f"{len(stopping)} finding{'' if len(stopping) == 1 else 's'}: {rules}",
        where=where,
        why=spell_report(judged),
        data=(("report", report_json(judged)),),
    )
