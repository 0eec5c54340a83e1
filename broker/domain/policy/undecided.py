"""`relation.undecided`: a question that a rule had to ask and that has no answer. It is never read as a yes or a no."""

from __future__ import annotations

from broker.domain.policy.document import VersionPolicy
from broker.domain.policy.findings import Finding, Place, RuleId, Severity
from broker.domain.policy.tree import PolicyTree
from broker.domain.schema.answers import Unknown

_SHOWN = 3


def undecided(
    version: VersionPolicy,
    tree: PolicyTree,
    *,
    pointer: str,
    key: str,
    asked: str,
    answer: Unknown,
    related: tuple[tuple[Place, str], ...] = (),
) -> Finding:
    """The finding. asked: the question, such as `whether inputs are lost`."""
    blockers = list(dict.fromkeys(str(blocker).removeprefix(" at /: ") for blocker in answer.blockers))
    said = "; ".join(blockers[:_SHOWN])
    places = list(related)
    for blocker in answer.blockers[:_SHOWN]:
        if blocker.pointer and blocker.side in ("", "new"):
            place = tree.contract_place(version.tool, version.version, f"/inputSchema{blocker.pointer}")
            places.append((place, f"{blocker.keyword or 'this'} stands here"))
    return Finding(
        rule=RuleId.RELATION_UNDECIDED,
        severity=Severity.UNDECIDED,
        tool=version.tool,
        version=version.version,
        key=key,
        place=tree.place(version.tool, version.version, pointer),
        what=f"it is unknown {asked}: {said or 'no proof and no witness was found'}",
        why="unknown is refused: a guess would be wrong where it matters",
        mend="restate the keyword: patterns anchored, with explicit classes such as [0-9], without \\d \\w \\s . and "
        "lookaround; or approve an exception whose reason says how a person worked it out",
        related=tuple(places),
    )
