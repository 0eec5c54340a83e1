"""A case of a policy's tests, tried: what is asked goes through the very decision that an exchange goes through.

1. What a case names exists: tool, version, task, arguments, client, issuer, claims, the reason it expects. A case that names
   something unknown is *unusable*, unless the refusal it expects is just that: it would pass by matching nothing.
2. A permit is met by exactly its scopes; a refusal by its reason. `ttl`, `uses` and `rule` are met where they are stated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from broker.domain.canonical import JsonObject
from broker.domain.errors import Reason, Refusal
from broker.domain.ids import ClientId, TaskName, Version, version_id
from broker.domain.policy.cases import PolicyCase
from broker.domain.policy.decide import Permit, decide
from broker.domain.policy.deciding import Deciding, deciding
from broker.domain.policy.document import ArgumentFacts, Policy, Principal, VersionPolicy
from broker.domain.policy.located import Located
from broker.domain.scopes import Scope, spell_scopes

# What `decide` can answer, and the one refusal before it that a case may expect.
OUTCOMES: Final = frozenset(
    (
        Reason.VERSION_UNKNOWN, Reason.CLIENT_NOT_PERMITTED, Reason.TOKEN_ISSUER_UNKNOWN, Reason.CEILING_EXCEEDED,
        Reason.TASK_MISSING, Reason.TASK_UNKNOWN, Reason.TASK_NOT_ALLOWED, Reason.ARGUMENTS_REQUIRED,
        Reason.ARGUMENTS_INVALID, Reason.ARGUMENT_OUTSIDE_ROOT, Reason.ARGUMENT_SEPARATOR, Reason.SCOPE_NOT_IN_TASK,
        Reason.SCOPE_NOT_GRANTED,
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked: who, with which token, for what. arguments: None where none are given; requested: None for all."""

    version: Version
    client: ClientId
    issuer: str
    task: TaskName | None
    claims: Mapping[str, frozenset[str]]
    arguments: JsonObject | None
    requested: frozenset[str] | None

    @property
    def principal(self) -> Principal:
        return Principal(
            account_issuer=self.issuer,
            account="account",
            agent_issuer=self.issuer,
            agent="agent",
            client=self.client,
            claims=self.claims,
            expires_at=0,
        )


class Status(StrEnum):
    """What came of a case."""

    OK = "ok"
    FAILED = "failed"
    UNUSABLE = "unusable"


@dataclass(frozen=True, slots=True)
class CaseResult:
    """A case and what came of it.

    outcome:  None where the case is unusable before anything can be asked.
    departs:  what was expected and did not come, in words; of an unusable case, what it names that is not there.
    mend:     how to make it right.
    """

    case: PolicyCase
    status: Status
    outcome: Permit | Refusal | None
    decided: Deciding | None
    departs: str = ""
    mend: str = ""


def request_of(case: PolicyCase) -> Request:
    """What a case asks."""
    return Request(
        version=case.version,
        client=case.client,
        issuer=case.issuer,
        task=case.task,
        claims=case.claims,
        arguments=case.arguments,
        requested=case.requested,
    )


def ask(request: Request, version: VersionPolicy, facts: ArgumentFacts | None, policy: Policy) -> Permit | Refusal:
    """What becomes of a request; `facts` are about its arguments."""
    return decide(
        version,
        principal=request.principal,
        task=request.task,
        arguments=request.arguments,
        facts=facts,
        requested=frozenset(map(Scope, request.requested)) if request.requested is not None else None,
        policy=policy,
    )


def try_case(case: PolicyCase, version: VersionPolicy, facts: ArgumentFacts | None, policy: Policy) -> CaseResult:
    """A case whose version exists."""
    unknown = next(unknown_names(case, policy), None)
    if unknown is not None:
        return CaseResult(case, Status.UNUSABLE, None, None, unknown[1], unknown[2])
    request = request_of(case)
    outcome = ask(request, version, facts, policy)
    decided = deciding(outcome, version, principal=request.principal, task=request.task)
    departs = departure(case, outcome, decided)
    return CaseResult(case, Status.FAILED if departs else Status.OK, outcome, decided, departs, _mend(case, outcome))


def departure(case: PolicyCase, outcome: Permit | Refusal, decided: Deciding | None) -> str:
    """How the outcome differs from what the case expects; empty where it does not."""
    if case.rule is not None and decided is not None and case.rule != decided.rule:
        return f"expected the rule {case.rule} to decide, it was {decided.rule}"
    if isinstance(outcome, Refusal):
        if case.permit is not None:
            return f"expected a permit with {spell_scopes(map(Scope, case.permit))}"
        return "" if case.refuse == outcome.reason else f"expected the refusal {case.refuse}"
    if case.permit is None:
        return f"expected the refusal {case.refuse}"
    if outcome.scopes != case.permit:
        lacking, extra = sorted(case.permit - outcome.scopes), sorted(outcome.scopes - case.permit)
        said = [f"lacks {', '.join(lacking)}"] if lacking else []
        said += [f"has {', '.join(extra)} too"] if extra else []
        return f"expected the scopes {spell_scopes(map(Scope, case.permit))}; what is granted {' and '.join(said)}"
    if case.ttl_seconds not in (None, outcome.ttl_seconds):
        return f"expected a life of {case.ttl_seconds} seconds, it is {outcome.ttl_seconds}"
    if case.uses not in (None, outcome.uses):
        return f"expected {case.uses} uses, there are {'any number' if outcome.uses is None else outcome.uses}"
    return ""


def unknown_names(case: PolicyCase, policy: Policy) -> Iterator[tuple[Located, str, str]]:
    """What a case names in trust.yaml or among the reasons that is not there: where, what, and the mend.

    Tools, versions, tasks and arguments are `tested.check_tests`' to name.
    """
    request = case.node.get("request") or case.node
    if case.refuse is not None and case.refuse not in OUTCOMES:
        known = ", ".join(sorted(OUTCOMES))
        yield case.node.get("refuse") or case.node, f"policy never refuses with {case.refuse}", f"it can be: {known}"
    if case.refuse is not None and (case.ttl_seconds is not None or case.uses is not None):
        yield case.node, "a refusal has neither ttl nor uses", "take them out"
    if case.client not in policy.clients and case.refuse != Reason.CLIENT_NOT_PERMITTED:
        mend = f"clients here: {', '.join(sorted(policy.clients))}; or expect refuse: client_not_permitted"
        yield request.get("client") or request, f"trust.yaml has no client {case.client}", mend
    issuer = policy.issuers.get(case.issuer)
    if issuer is None:
        if case.refuse != Reason.TOKEN_ISSUER_UNKNOWN:
            mend = f"issuers here: {', '.join(sorted(policy.issuers))}; or expect refuse: token_issuer_unknown"
            yield request.get("issuer") or request, f"trust.yaml has no issuer {case.issuer}", mend
        return
    for name in case.claims:
        if name not in issuer.claims.others:
            known = ", ".join(sorted(issuer.claims.others)) or "none"
            message = f"no token of {case.issuer} has the claim {name}: its claims in trust.yaml do not name it"
            yield request.get("claims") or request, message, f"claims of this issuer: {known}"


def no_such_version(case: PolicyCase, versions: tuple[Version, ...]) -> Refusal:
    """The outcome for a version that the tool does not have."""
    return Refusal(
        Reason.VERSION_UNKNOWN,
        f"{version_id(case.tool, case.version)} is not in this policy; versions here: {', '.join(versions)}",
        where="authorization_details/version",
    )


def _mend(case: PolicyCase, outcome: Permit | Refusal) -> str:
    """What to do about a case that fails: the first thing is what the operator sees, the second what was meant."""
    if isinstance(outcome, Permit):
        return f"mend the policy; or, if this is meant, expect permit: [{', '.join(sorted(outcome.scopes))}]"
    return f"{outcome.detail}; or, if this is meant, expect refuse: {outcome.reason}"
