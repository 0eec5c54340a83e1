"""Audit records: one closed vocabulary. Format 1; grows only.

| type                                   | written when                                                            |
|----------------------------------------|-------------------------------------------------------------------------|
| mint · mint.deny                       | a credential was granted; an exchange was refused                       |
| tool.call.start · .end · .deny         | a gate ran a tool; finished it; refused the call                        |
| request.deny                           | any other request was refused: a command, a question, a report          |
| release                                | a client gave a credential back (RFC 7009)                              |
| version.publish · .canary · .promote · .rollback · .deprecate · .retire | the life of a version moved            |
| revoke                                 | a revocation scope was revoked                                          |
| revocation.receipt                     | no verifier could accept any more what a revocation killed              |
| policy.change                          | another policy was loaded                                               |
| policy.narrow                          | a policy was loaded that takes access away from published versions      |
| policy.exception                       | a policy was loaded, or a version published, by leave of an exception   |
| key.create                             | a signing key was made                                                  |
| key.retire                             | a signing key was revoked, and is not used any more                     |
| marks.compact                          | one mark on everything took the place of marks that no longer matter    |
| gen.claim                              | a broker claimed an incarnation of the store                            |
| heard                                  | another process moved the store, or held it when this one came to it    |
| recover                                | the store acted and the process died before the record was written      |
| log.open · log.close                   | a process opened or closed this log                                     |

Every record: `v type id ts`, and `gen gseq` where the store numbered it. A tool-call or exchange record holds the six fields
of the minimum (tool, version, protocol_version, agent, account, ts) and the rest of `Call`; a field that is null has its
reason under `absent`. What only some records have (`OPTIONAL`) is left out of the others. Never a token, a secret or a raw
argument: arguments are keyed digests (`arguments.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import ClassVar, TypeAlias

from broker.domain.canonical import JsonObject

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Call:
    """Who called what: the facts that every exchange and tool-call record holds. None where unknown, see `absent`.

    act: in a delegation, the agent with all actors of before inside, each by `iss` and `sub`.
    """

    tool: str | None = None
    version: str | None = None
    contract: str | None = None
    protocol_version: str | None = None
    agent: str | None = None
    agent_issuer: str | None = None
    account: str | None = None
    account_issuer: str | None = None
    client: str | None = None
    task: str | None = None
    txn: str | None = None
    jti: str | None = None
    application: str | None = None
    arguments: Mapping[str, str] | None = None
    absent: Mapping[str, str] = field(default_factory=dict)
    act: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class Minted:
    """parent, chain: of a delegated credential, the `jti` of the one it was exchanged for and of the first of the chain."""

    type: ClassVar[str] = "mint"
    id: str
    ts: str
    call: Call
    gen: int
    gseq: int
    rseq: int
    scopes: tuple[str, ...]
    audience: str
    expires_at: int
    kid: str
    policy: str
    rule: str
    decision: str = "permit"
    parent: str | None = None
    chain: str | None = None


@dataclass(frozen=True, slots=True)
class MintDenied:
    """parent, chain: as of what was minted, where a credential was to be exchanged."""

    type: ClassVar[str] = "mint.deny"
    id: str
    ts: str
    call: Call
    reason: str
    where: str | None
    why: str | None
    decision: str = "refuse"
    parent: str | None = None
    chain: str | None = None


@dataclass(frozen=True, slots=True)
class RequestDenied:
    """endpoint: method and path template. by: the administrator or client, once authenticated."""

    type: ClassVar[str] = "request.deny"
    id: str
    ts: str
    endpoint: str
    by: str | None
    tool: str | None
    version: str | None
    command: str | None
    reason: str
    where: str | None
    why: str | None
    decision: str = "refuse"


@dataclass(frozen=True, slots=True)
class ToolCallStarted:
    type: ClassVar[str] = "tool.call.start"
    id: str
    ts: str
    call: Call
    decision: str = "permit"


@dataclass(frozen=True, slots=True)
class ToolCallEnded:
    """status: `ok`, `tool_error` or `cancelled`; duration in microseconds."""

    type: ClassVar[str] = "tool.call.end"
    id: str
    ts: str
    call: Call
    status: str
    duration_us: int


@dataclass(frozen=True, slots=True)
class ToolCallDenied:
    type: ClassVar[str] = "tool.call.deny"
    id: str
    ts: str
    call: Call
    reason: str
    where: str | None
    declared: str | None
    decision: str = "refuse"


@dataclass(frozen=True, slots=True)
class Released:
    type: ClassVar[str] = "release"
    id: str
    ts: str
    client: str
    jti: str


@dataclass(frozen=True, slots=True)
class VersionChanged:
    """One command on a version. `records` are all version records that it changed, as they are afterwards.

    revoked: the scopes that it revoked, at `seq`. contract_members: the contract itself, on publish.
    """

    id: str
    ts: str
    command: str
    tool: str
    version: str
    gen: int
    gseq: int
    seq: int
    by: str
    records: tuple[JsonObject, ...]
    revoked: tuple[str, ...] = ()
    reason: str | None = None
    contract_members: JsonObject | None = None

    @property
    def type(self) -> str:
        return f"version.{self.command}"


@dataclass(frozen=True, slots=True)
class Revoked:
    type: ClassVar[str] = "revoke"
    id: str
    ts: str
    gen: int
    gseq: int
    seq: int
    revoked: tuple[str, ...]
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class ReceiptGiven:
    """Every verifier had applied a revocation, or its lease had run out.

    gen, seq, revoked, change: of the revocation; `change` is the id of its own record, None where another log has it.
    acknowledged, expired: how many verifiers. by: who asked. statement: the signed receipt, which names them.
    """

    type: ClassVar[str] = "revocation.receipt"
    id: str
    ts: str
    gen: int
    seq: int
    revoked: tuple[str, ...]
    change: str | None
    by: str
    acknowledged: int
    expired: int
    statement: str


@dataclass(frozen=True, slots=True)
class MarksCompacted:
    """Marks up to `covered` were made longer ago than any credential lives; `all` at `covered` says what they said.

    Marks of signing keys stay.
    """

    type: ClassVar[str] = "marks.compact"
    id: str
    ts: str
    gen: int
    gseq: int
    seq: int
    covered: int
    by: str


@dataclass(frozen=True, slots=True)
class PolicyChanged:
    type: ClassVar[str] = "policy.change"
    id: str
    ts: str
    policy: str
    previous: str | None
    tools: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PolicyNarrowed:
    """Access was taken away in place. policy: the whole policy that does it.

    records: the version records as they are afterwards. revoked: what was granted by their policies of before, at `seq`.
    """

    type: ClassVar[str] = "policy.narrow"
    id: str
    ts: str
    policy: str
    gen: int
    gseq: int
    seq: int
    by: str
    records: tuple[JsonObject, ...]
    revoked: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExceptionUsed:
    """A finding was let through. when: `load` or `publish`. key: what of the version it is limited to, None: all of it."""

    type: ClassVar[str] = "policy.exception"
    id: str
    ts: str
    policy: str
    when: str
    rule: str
    tool: str
    version: str | None
    key: str | None
    reason: str
    approved_by: tuple[str, ...]
    expires: str
    by: str


@dataclass(frozen=True, slots=True)
class KeyCreated:
    type: ClassVar[str] = "key.create"
    id: str
    ts: str
    kid: str
    algorithm: str
    use: str
    by: str | None = None


@dataclass(frozen=True, slots=True)
class KeyRetired:
    """Nothing that the key signed counts any more. why: `revoked`. successor: the key that signs from then on, if any."""

    type: ClassVar[str] = "key.retire"
    id: str
    ts: str
    kid: str
    why: str
    successor: str | None


@dataclass(frozen=True, slots=True)
class Heard:
    """What the store said that it held at `gen:seq`, so that this log alone can tell it again (replay rule 6).

    records: version records, whole, as they were then. marks: revocation scope → sequence below which all in it is dead.
    Either may be a part of what was held. id: one that no step has, since a step's own record goes by the step's id.
    """

    type: ClassVar[str] = "heard"
    id: str
    ts: str
    gen: int
    seq: int
    records: tuple[JsonObject, ...] = ()
    marks: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Claimed:
    """Written before the claim is made: a claim that the store does not know of afterwards did not happen."""

    type: ClassVar[str] = "gen.claim"
    id: str
    ts: str
    gen: int
    seq: int
    previous_gen: int
    run_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Recovered:
    """intent: what the store's outbox held; enough to tell what happened. seq: the sequence after that step."""

    type: ClassVar[str] = "recover"
    id: str
    ts: str
    gen: int
    gseq: int
    seq: int
    intent: JsonObject


@dataclass(frozen=True, slots=True)
class LogOpened:
    type: ClassVar[str] = "log.open"
    id: str
    ts: str
    broker: str
    records: int


@dataclass(frozen=True, slots=True)
class LogClosed:
    type: ClassVar[str] = "log.close"
    id: str
    ts: str


Record: TypeAlias = (
    Minted
    | MintDenied
    | RequestDenied
    | ToolCallStarted
    | ToolCallEnded
    | ToolCallDenied
    | Released
    | VersionChanged
    | Revoked
    | MarksCompacted
    | ReceiptGiven
    | PolicyChanged
    | PolicyNarrowed
    | ExceptionUsed
    | KeyCreated
    | KeyRetired
    | Heard
    | Claimed
    | Recovered
    | LogOpened
    | LogClosed
)

CONTROL: frozenset[str] = frozenset(
    {
        "version.publish",
        "version.canary",
        "version.promote",
        "version.rollback",
        "version.deprecate",
        "version.retire",
        "policy.narrow",
        "revoke",
        "marks.compact",
        "gen.claim",
        "heard",
        "recover",
    }
)
"""The types that a replay of the log reads: they say what the store must hold."""

WHOLE: frozenset[str] = CONTROL | {ReceiptGiven.type}
"""The types of which nothing may be cut, however long a record is: a receipt without its end is no receipt."""

OPTIONAL: frozenset[str] = frozenset({"act", "parent", "chain"})
"""Facts that stand only in the records that have them."""

_CALL_FIELDS = tuple(f.name for f in fields(Call) if f.name not in OPTIONAL)
_call_values = attrgetter(*_CALL_FIELDS)
_FIELDS: dict[type, tuple[tuple[str, ...], attrgetter[tuple[object, ...]], bool]] = {}


def record_json(record: Record) -> dict[str, object]:
    """A record as JSON, flat: a call's facts stand beside the record's own."""
    kind = type(record)
    known = _FIELDS.get(kind)
    if known is None:
        names = tuple(f.name for f in fields(record) if f.name != "call" and f.name not in OPTIONAL)
        known = _FIELDS[kind] = (names, attrgetter(*names), hasattr(record, "call"))
    names, values, has_call = known
    made: dict[str, object] = {"v": FORMAT, "type": record.type}
    if has_call:
        call: Call = record.call  # type: ignore[union-attr]
        made.update(zip(_CALL_FIELDS, _call_values(call), strict=True))
        if call.act is not None:
            made["act"] = call.act
    made.update(zip(names, values(record), strict=True))
    if isinstance(record, Minted | MintDenied) and record.parent is not None:
        made.update(parent=record.parent, chain=record.chain)
    return made
