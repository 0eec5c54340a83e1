"""The life of a version, as data.

| command   | from                          | to          | besides                                                      |
|-----------|-------------------------------|-------------|--------------------------------------------------------------|
| publish   | (absent)                      | published   | contract and policy are frozen; access may shrink in place   |
| canary    | published, rolled_back        | canary      | same digests as published; old credentials stay dead         |
| promote   | canary                        | stable      | the stable version becomes deprecated, with a sunset         |
| promote   | published                     | stable      | only while the tool has no stable version                    |
| rollback  | canary, deprecated            | rolled_back | **revokes** the version                                      |
| rollback  | stable                        | rolled_back | **revokes**; the version it replaced becomes stable again    |
| deprecate | stable                        | deprecated  | sets a sunset                                                |
| deprecate | deprecated                    | deprecated  | moves the sunset                                             |
| retire    | deprecated                    | retired     | **revokes**; once the sunset has passed                      |
| retire    | canary, stable, deprecated    | retired     | **revokes**; at once, with `--emergency REASON`              |

A credential is minted and accepted only for a *mintable* state: canary, stable, deprecated. An absent state is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from broker.domain.canonical import JsonObject, canonical_json, parse_json_object
from broker.domain.ids import Digest, ToolName, Version, VersionId, version_id


class State(StrEnum):
    """Where a version is in its life."""

    PUBLISHED = "published"
    CANARY = "canary"
    STABLE = "stable"
    DEPRECATED = "deprecated"
    RETIRED = "retired"
    ROLLED_BACK = "rolled_back"


class Command(StrEnum):
    """What an administrator can ask of a version."""

    PUBLISH = "publish"
    CANARY = "canary"
    PROMOTE = "promote"
    ROLLBACK = "rollback"
    DEPRECATE = "deprecate"
    RETIRE = "retire"


MINTABLE: Final = frozenset({State.CANARY, State.STABLE, State.DEPRECATED})

TRANSITIONS: Final[Mapping[tuple[Command, State | None], State]] = {
    (Command.PUBLISH, None): State.PUBLISHED,
    (Command.CANARY, State.PUBLISHED): State.CANARY,
    (Command.CANARY, State.CANARY): State.CANARY,  # moves the cohort
    (Command.CANARY, State.ROLLED_BACK): State.CANARY,
    (Command.PROMOTE, State.PUBLISHED): State.STABLE,
    (Command.PROMOTE, State.CANARY): State.STABLE,
    (Command.ROLLBACK, State.CANARY): State.ROLLED_BACK,
    (Command.ROLLBACK, State.STABLE): State.ROLLED_BACK,
    (Command.ROLLBACK, State.DEPRECATED): State.ROLLED_BACK,
    (Command.DEPRECATE, State.STABLE): State.DEPRECATED,
    (Command.DEPRECATE, State.DEPRECATED): State.DEPRECATED,
    (Command.RETIRE, State.DEPRECATED): State.RETIRED,
    (Command.RETIRE, State.STABLE): State.RETIRED,  # emergency only
    (Command.RETIRE, State.CANARY): State.RETIRED,  # emergency only
}


@dataclass(frozen=True, slots=True)
class Cohort:
    """Who is routed to a canary: named principals (an account or an agent), then a share of all others.

    weight: how many of 10 000 principals, 0–10 000.
    """

    principals: tuple[str, ...] = ()
    weight: int = 0


@dataclass(frozen=True, slots=True)
class VersionRecord:
    """What the store and the audit log hold of one version. Format 1; grows only.

    policy: digest of the policy in force for it. grant: what was published, as `policy.frozen` spells it; None where an
            older broker published it. Both change together, and only when access is taken away in place.
    since, sunset: Unix seconds. seq: the revocation sequence at the last change.
    """

    tool: ToolName
    version: Version
    state: State
    contract: Digest
    policy: Digest
    since: int
    seq: int = 0
    cohort: Cohort = field(default_factory=Cohort)
    replaced: Version | None = None
    sunset: int | None = None
    advisory: str | None = None
    grant: JsonObject | None = field(default=None, hash=False)

    @property
    def id(self) -> VersionId:
        return version_id(self.tool, self.version)


@dataclass(frozen=True, slots=True)
class LifecycleView:
    """All versions of a tenant as of one point of the logical clock."""

    gen: int
    seq: int
    versions: Mapping[VersionId, VersionRecord]
    by_tool: Mapping[ToolName, tuple[VersionRecord, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        found: dict[ToolName, tuple[VersionRecord, ...]] = {}
        for record in self.versions.values():
            found[record.tool] = (*found.get(record.tool, ()), record)
        object.__setattr__(self, "by_tool", found)

    def of(self, tool: ToolName) -> tuple[VersionRecord, ...]:
        """The versions of a tool, in no order that means anything."""
        return self.by_tool.get(tool, ())

    def get(self, tool: ToolName, version: Version) -> VersionRecord | None:
        return self.versions.get(version_id(tool, version))

    def stable(self, tool: ToolName) -> VersionRecord | None:
        return next((record for record in self.of(tool) if record.state is State.STABLE), None)


def spell_record(record: VersionRecord) -> bytes:
    """The bytes under which a record is stored; equal records have equal bytes."""
    return canonical_json(record_json(record))


def record_json(record: VersionRecord) -> JsonObject:
    """A record as JSON, for the store, the audit log and the admin API. A record without a grant has no such member."""
    granted: JsonObject = {} if record.grant is None else {"grant": record.grant}
    return {
        "v": 1,
        "tool": record.tool,
        "version": record.version,
        "state": record.state.value,
        "contract": record.contract,
        "policy": record.policy,
        "since": record.since,
        "seq": record.seq,
        "cohort": {"principals": list(record.cohort.principals), "weight": record.cohort.weight},
        "replaced": record.replaced,
        "sunset": record.sunset,
        "advisory": record.advisory,
        **granted,
    }


def read_record(text: bytes | JsonObject) -> VersionRecord:
    """A record from its stored bytes or JSON. Raises `ValueError` where it is none, or of an unknown format."""
    value = parse_json_object(text) if isinstance(text, bytes) else text
    if value.get("v") != 1:
        raise ValueError(f"a version record of format {value.get('v')!r}; this broker knows format 1")
    try:
        cohort: dict[str, object] = value["cohort"]  # type: ignore[assignment]
        return VersionRecord(
            tool=value["tool"],  # type: ignore[arg-type]
            version=value["version"],  # type: ignore[arg-type]
            state=State(str(value["state"])),
            contract=value["contract"],  # type: ignore[arg-type]
            policy=value["policy"],  # type: ignore[arg-type]
            since=value["since"],  # type: ignore[arg-type]
            seq=value["seq"],  # type: ignore[arg-type]
            cohort=Cohort(principals=tuple(cohort["principals"]), weight=cohort["weight"]),  # type: ignore[arg-type]
            replaced=value["replaced"],  # type: ignore[arg-type]
            sunset=value["sunset"],  # type: ignore[arg-type]
            advisory=value["advisory"],  # type: ignore[arg-type]
            grant=value.get("grant"),  # type: ignore[arg-type]
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a version record: {error}") from None
