"""What of a published version is frozen, and how the loaded policy of a version stands to what was published.

Frozen are audience, contract, arguments and scopes, and what each task grants. Who may have a task, for how long and how
often is its *access*, which may shrink. The store keeps of each version the digest of its policy and, as its *grant*, the
digest of the frozen part and the access in force:

| the loaded policy of a published version           | is                                                     |
|----------------------------------------------------|--------------------------------------------------------|
| is not there                                       | `missing`: not served                                  |
| has the published digest                           | `as_published`: served                                 |
| has the frozen part, and no wider access           | `narrowed`: put in force in the store, and then served |
| anything else; or older brokers published it, which kept no grant | `edited`: not served                    |

A grant is of format 1; it grows only. One of another format is as good as none, and one that is longer than `MAX_GRANT_BYTES`
is not kept: records are small.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from broker.domain.canonical import JsonObject, canonical_json
from broker.domain.digests import digest_of
from broker.domain.ids import ClientId, Digest, TaskName
from broker.domain.policy.access import access_growth
from broker.domain.policy.document import TaskRule, VersionPolicy
from broker.domain.policy.grant import grant_digest

FORMAT: Final = 1
MAX_GRANT_BYTES: Final = 16_384


class Standing(StrEnum):
    """How the loaded policy of a version stands to the published one."""

    AS_PUBLISHED = "as_published"
    NARROWED = "narrowed"
    EDITED = "edited"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Grant:
    """What was published, as far as it is needed to judge what is loaded."""

    frozen: Digest
    tasks: Mapping[TaskName, TaskRule]


def frozen_digest(version: VersionPolicy) -> Digest:
    """The digest of the part that never changes, whatever becomes of its tasks."""
    return digest_of(
        {
            "format": FORMAT,
            "frozen": grant_digest(version.audience, version.contract.digest, version.arguments, version.scopes, {}),
        }
    )


def spell_grant(version: VersionPolicy) -> JsonObject | None:
    """The grant of a version, for its record; None where it is too long to be kept."""
    grant: JsonObject = {
        "v": FORMAT,
        "frozen": frozen_digest(version),
        "tasks": {
            rule.task: {
                "clients": [*sorted(rule.clients)],
                "claims": {name: [*sorted(values)] for name, values in rule.claims.items()},
                "scopes": [*sorted(rule.scopes)],
                "ttl": rule.ttl_seconds,
                "uses": rule.uses,
                **({"online": True} if rule.online else {}),
            }
            for rule in version.tasks.values()
        },
    }
    return grant if len(canonical_json(grant)) <= MAX_GRANT_BYTES else None


def read_grant(value: JsonObject | None) -> Grant | None:
    """The grant that a record holds; None where it holds none that can be read."""
    if value is None or value.get("v") != FORMAT:
        return None
    try:
        listed: dict[str, dict[str, object]] = value["tasks"]  # type: ignore[assignment]
        return Grant(
            frozen=Digest(value["frozen"]),  # type: ignore[arg-type]
            tasks={TaskName(name): _task(name, rule) for name, rule in listed.items()},
        )
    except (KeyError, TypeError, AttributeError):
        return None


def _task(name: str, rule: Mapping[str, object]) -> TaskRule:
    claims: dict[str, list[str]] = rule["claims"]  # type: ignore[assignment]
    return TaskRule(
        task=TaskName(name),
        clients=tuple(ClientId(client) for client in rule["clients"]),  # type: ignore[attr-defined]
        claims={claim: tuple(values) for claim, values in claims.items()},
        scopes=tuple(rule["scopes"]),  # type: ignore[arg-type]
        ttl_seconds=rule["ttl"],  # type: ignore[arg-type]
        uses=rule["uses"],  # type: ignore[arg-type]
        online=rule.get("online") is True,
    )


def standing(loaded: VersionPolicy | None, *, contract: Digest, policy: Digest, grant: JsonObject | None) -> Standing:
    """How a loaded policy stands to the published contract digest, policy digest and grant."""
    if loaded is None:
        return Standing.MISSING
    if loaded.contract.digest != contract:
        return Standing.EDITED
    if loaded.digest == policy:
        return Standing.AS_PUBLISHED
    published = read_grant(grant)
    if published is None or published.frozen != frozen_digest(loaded) or _grown(published.tasks, loaded.tasks):
        return Standing.EDITED
    return Standing.NARROWED


def as_published(candidate: VersionPolicy, *, policy: Digest, grant: JsonObject | None) -> VersionPolicy | None:
    """The version as it was published, from a text that has its frozen part; None where the text has another."""
    if candidate.digest == policy:
        return candidate
    published = read_grant(grant)
    if published is None or published.frozen != frozen_digest(candidate):
        return None
    return replace(candidate, tasks=published.tasks, digest=policy)


def _grown(published: Mapping[TaskName, TaskRule], loaded: Mapping[TaskName, TaskRule]) -> bool:
    if any(True for _ in access_growth(published, loaded)):
        return True
    return any(set(rule.scopes) != set(published[name].scopes) for name, rule in loaded.items())
