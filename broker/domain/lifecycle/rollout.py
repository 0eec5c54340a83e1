"""Commands on versions: `apply` turns a command and the present view into a change, or a refusal.

1. The transition must stand in `states.TRANSITIONS`.
2. publish: a known version keeps its digests for ever; the same digests again change nothing.
3. canary after a rollback: the same contract digest as published.
4. promote from published: only while the tool has no stable version. Promote deprecates the stable version, with a sunset
   `SUNSET_SECONDS` away.
5. rollback of the stable version: the version it replaced becomes stable again if it is still deprecated; where there is
   none, the command must be forced. So must that of the last deprecated version where none is stable: nothing would be left
   to serve but canaries.
6. A sunset is at least `SUNSET_SECONDS` away, with a security advisory at least `ADVISORY_SECONDS` (after SEP-2596).
7. retire: only after the sunset, or at once with an emergency and its reason.
8. rollback and retire revoke the version's scope in the same step.
9. Taking access away from a published version in place revokes what was granted by its policy of before, in the same step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from broker.domain.canonical import JsonObject
from broker.domain.errors import Reason, Refusal
from broker.domain.ids import Digest, ToolName, Version
from broker.domain.lifecycle.states import TRANSITIONS, Cohort, Command, LifecycleView, State, VersionRecord
from broker.domain.revocation.scopes import RevocationScope, policy_scope, version_scope

DAY_SECONDS: Final = 86_400
SUNSET_SECONDS: Final = 365 * DAY_SECONDS
ADVISORY_SECONDS: Final = 90 * DAY_SECONDS


@dataclass(frozen=True, slots=True)
class Publish:
    tool: ToolName
    version: Version
    contract: Digest
    policy: Digest
    grant: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class Canary:
    tool: ToolName
    version: Version
    cohort: Cohort


@dataclass(frozen=True, slots=True)
class Promote:
    tool: ToolName
    version: Version


@dataclass(frozen=True, slots=True)
class Rollback:
    tool: ToolName
    version: Version
    force: bool = False


@dataclass(frozen=True, slots=True)
class Deprecate:
    tool: ToolName
    version: Version
    sunset: int | None = None
    advisory: str | None = None


@dataclass(frozen=True, slots=True)
class Retire:
    tool: ToolName
    version: Version
    emergency: str | None = None


VersionCommand: TypeAlias = Publish | Canary | Promote | Rollback | Deprecate | Retire

NAMES: Final[dict[type, Command]] = {
    Publish: Command.PUBLISH,
    Canary: Command.CANARY,
    Promote: Command.PROMOTE,
    Rollback: Command.ROLLBACK,
    Deprecate: Command.DEPRECATE,
    Retire: Command.RETIRE,
}


@dataclass(frozen=True, slots=True)
class Update:
    """One version's record before and after. The store applies it only if `before` is what it holds."""

    before: VersionRecord | None
    after: VersionRecord


@dataclass(frozen=True, slots=True)
class Change:
    """All that one command does: the version's own update first, then its neighbour's; revocations in the same step."""

    command: Command
    updates: tuple[Update, ...]
    revokes: tuple[RevocationScope, ...] = ()


def name_of(command: VersionCommand) -> Command:
    return NAMES[type(command)]


def apply(command: VersionCommand, view: LifecycleView, *, now: int) -> Change | Refusal:
    """The change that the command makes to the view, or why it makes none. `now` is in Unix seconds.

    A change without updates means that everything is as the command wants it already.
    """
    name = name_of(command)
    before = view.get(command.tool, command.version)
    if before is None and not isinstance(command, Publish):
        return Refusal(
            Reason.VERSION_NOT_PUBLISHED,
            f"{command.tool}@{command.version} was never published; `broker version publish` does it",
            where="version",
        )
    if isinstance(command, Publish):
        return _publish(command, before, now=now)
    assert before is not None
    target = TRANSITIONS.get((name, before.state))
    if target is None:
        return _not_allowed(name, before)
    after = replace(before, state=target, since=now, sunset=None, advisory=None)
    match command:
        case Canary():
            return Change(name, (Update(before, replace(after, cohort=command.cohort)),))
        case Promote():
            return _promote(before, after, view, now=now)
        case Rollback():
            return _rollback(command, before, after, view, now=now)
        case Deprecate():
            return _deprecate(command, before, after, now=now)
        case Retire():
            return _retire(command, before, after, now=now)


def _not_allowed(name: Command, before: VersionRecord) -> Refusal:
    allowed = sorted(state.value for (command, state) in TRANSITIONS if command is name and state is not None)
    return Refusal(
        Reason.TRANSITION_NOT_ALLOWED,
        f"{before.id} is {before.state.value}; {name.value} takes a version that is {' or '.join(allowed)}",
        where="version",
        data=(("state", before.state.value),),
    )


def _publish(command: Publish, before: VersionRecord | None, *, now: int) -> Change | Refusal:
    if before is None:
        made = VersionRecord(
            tool=command.tool,
            version=command.version,
            state=State.PUBLISHED,
            contract=command.contract,
            policy=command.policy,
            since=now,
            grant=command.grant,
        )
        return Change(Command.PUBLISH, (Update(None, made),))
    if (before.contract, before.policy) == (command.contract, command.policy):
        return Change(Command.PUBLISH, ())
    what, had, has = (
        ("contract", before.contract, command.contract)
        if before.contract != command.contract
        else ("policy", before.policy, command.policy)
    )
    return Refusal(
        Reason.DIGEST_CONFLICT,
        f"{before.id} was published with {what} {had}, the loaded policy has {has}; a version never changes, publish a new one",
        where=what,
    )


def _promote(before: VersionRecord, after: VersionRecord, view: LifecycleView, *, now: int) -> Change | Refusal:
    stable = view.stable(before.tool)
    if before.state is State.PUBLISHED and stable is not None:
        return Refusal(
            Reason.TRANSITION_NOT_ALLOWED,
            f"{stable.id} is stable; {before.id} must be a canary before it can replace it",
            where="version",
            data=(("state", before.state.value),),
        )
    promoted = replace(after, cohort=Cohort(), replaced=stable.version if stable else before.replaced)
    updates = [Update(before, promoted)]
    if stable is not None:
        updates.append(Update(stable, replace(stable, state=State.DEPRECATED, since=now, sunset=now + SUNSET_SECONDS)))
    return Change(Command.PROMOTE, tuple(updates))


def _rollback(
    command: Rollback, before: VersionRecord, after: VersionRecord, view: LifecycleView, *, now: int
) -> Change | Refusal:
    updates = [Update(before, replace(after, cohort=Cohort()))]
    if before.state is State.STABLE:
        predecessor = view.get(before.tool, before.replaced) if before.replaced else None
        if predecessor is not None and predecessor.state is State.DEPRECATED:
            updates.append(
                Update(predecessor, replace(predecessor, state=State.STABLE, since=now, sunset=None, advisory=None))
            )
        elif not command.force:
            return Refusal(
                Reason.NO_VERSION_LEFT,
                f"{before.id} is the stable version and no deprecated predecessor can take its place; "
                "promote another version first, or repeat with --force",
                where="version",
            )
    elif before.state is State.DEPRECATED and not command.force and not _others_served(before, view):
        return Refusal(
            Reason.NO_VERSION_LEFT,
            f"{before.id} is the last version that all callers are served; "
            "promote another version first, or repeat with --force",
            where="version",
        )
    return Change(Command.ROLLBACK, tuple(updates), (version_scope(before.tool, before.version),))


def _others_served(before: VersionRecord, view: LifecycleView) -> bool:
    """Whether the tool has another version that is served to all."""
    others = (record for record in view.of(before.tool) if record.version != before.version)
    return any(record.state in (State.STABLE, State.DEPRECATED) for record in others)


def _deprecate(command: Deprecate, before: VersionRecord, after: VersionRecord, *, now: int) -> Change | Refusal:
    sunset = command.sunset if command.sunset is not None else now + SUNSET_SECONDS
    floor = ADVISORY_SECONDS if command.advisory else SUNSET_SECONDS
    if sunset < now + floor:
        days = floor // DAY_SECONDS
        hint = "" if command.advisory else "; with --advisory ID, 90 days are enough"
        return Refusal(Reason.SUNSET_TOO_EARLY, f"the sunset must be at least {days} days away{hint}", where="sunset")
    since = before.since if before.state is State.DEPRECATED else now
    return Change(
        Command.DEPRECATE,
        (Update(before, replace(after, since=since, sunset=sunset, advisory=command.advisory)),),
    )


def _retire(command: Retire, before: VersionRecord, after: VersionRecord, *, now: int) -> Change | Refusal:
    if command.emergency is None:
        if before.state is not State.DEPRECATED:
            return Refusal(
                Reason.TRANSITION_NOT_ALLOWED,
                f"{before.id} is {before.state.value}; retire takes a deprecated version, or --emergency REASON",
                where="version",
                data=(("state", before.state.value),),
            )
        if before.sunset is None or now < before.sunset:
            return Refusal(
                Reason.SUNSET_NOT_REACHED,
                f"{before.id} may be retired after its sunset; at once only with --emergency REASON",
                where="sunset",
            )
    return Change(
        Command.RETIRE,
        (Update(before, replace(after, cohort=Cohort())),),
        (version_scope(before.tool, before.version),),
    )


def narrow(before: VersionRecord, *, policy: Digest, grant: JsonObject) -> tuple[Update, RevocationScope]:
    """Put a narrower policy in force for a version (rule 9); that it is narrower is for the caller to know."""
    return Update(before, replace(before, policy=policy, grant=grant)), policy_scope(before.policy)
