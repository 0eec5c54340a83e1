"""The decision: may this principal have a credential for this version, task and arguments, and with which scopes?

Pure: what the JSON Schema engine found about the arguments comes in as `ArgumentFacts`.

1. Reach.     The client's `tools`, the client's ceiling and the ceilings of both issuers cover the tool. In a delegation:
              the ceilings of all issuers and clients of the chain, each of which is still known.
2. Task.      It is known and allowed to the principal: every key that `allow` states matches, an empty `allow` matches
              nobody. Where none is named, it is the only one this principal may have.
3. Arguments. Absent, they are no obstacle unless an argument has roots or a granted scope names one. Present, they fit
              the contract and its closure.
4. Roots.     Every argument with `within` is brought to its normal form and lies under a root.
5. Scopes.    Arguments present: those that they need, all of which the task grants. Absent: all that the task grants.
              Templates are filled with normal forms that a scope can carry. Nothing needed is nothing granted: refused.
6. Ceilings.  Every scope lies within all these ceilings.
7. Request.   A requested scope that is wider is refused; a narrower one narrows.

Steps 3 to 5 are in `argument_scopes.py`. The first step that says no ends it. `detail` is for the caller and names what
to mend; `why` is for the operator.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.domain.canonical import JsonObject
from broker.domain.errors import Reason, Refusal
from broker.domain.ids import TaskName, version_id
from broker.domain.policy.argument_scopes import scopes_with_arguments, scopes_without_arguments
from broker.domain.policy.document import ArgumentFacts, Bounds, Ceiling, Policy, Principal, TaskRule, VersionPolicy
from broker.domain.scopes import ScopeSet, spell_scopes, within_patterns


@dataclass(frozen=True, slots=True)
class Permit:
    """A yes: what the credential may hold. `rule` names the rule that decided, such as `db.query@3/tasks/report`."""

    task: TaskName
    scopes: ScopeSet
    ttl_seconds: int
    uses: int | None
    audience: str
    rule: str
    online: bool = False


def decide(
    version: VersionPolicy,
    *,
    principal: Principal,
    task: TaskName | None,
    arguments: JsonObject | None,
    facts: ArgumentFacts | None,
    requested: ScopeSet | None,
    policy: Policy,
) -> Permit | Refusal:
    """Decide one exchange. `facts` are about `arguments` and are present exactly when these are."""
    ceilings = _ceilings(version, principal, policy)
    if isinstance(ceilings, Refusal):
        return ceilings
    chosen = _task(version, principal, task)
    if isinstance(chosen, Refusal):
        return chosen
    rule = f"{version_id(version.tool, version.version)}/tasks/{chosen.task}"
    if arguments is None:
        granted = scopes_without_arguments(version, chosen, rule)
    elif facts is None:
        raise ValueError("arguments without facts: nothing has validated them")
    else:
        granted = scopes_with_arguments(version, chosen, arguments, facts, rule)
    if isinstance(granted, Refusal):
        return granted
    for name, ceiling in ceilings:
        above = sorted(scope for scope in granted if not within_patterns(scope, ceiling.scopes))
        if above:
            return Refusal(
                Reason.CEILING_EXCEEDED,
                f"the scope {above[0]} is above what the issuer or client may ever have; ask for a task without it",
                where="scope",
                why=f"{rule} grants {spell_scopes(granted)}; {name} ends below {spell_scopes(above)}",
            )
    if requested is not None:
        wider = requested - granted
        if wider or not requested:
            return Refusal(
                Reason.SCOPE_NOT_GRANTED,
                f"requested beyond what is granted: {spell_scopes(wider) or 'an empty scope'}; "
                f"granted would be: {spell_scopes(granted)}; leave scope out to get that",
                where="scope",
                why=f"{rule} grants {spell_scopes(granted)}",
            )
        granted = requested
    return Permit(
        task=chosen.task,
        scopes=granted,
        ttl_seconds=min(chosen.ttl_seconds, policy.defaults.max_ttl_seconds),
        uses=chosen.uses,
        audience=version.audience,
        rule=rule,
        online=chosen.online,
    )


def tasks_for(version: VersionPolicy, principal: Principal) -> tuple[TaskName, ...]:
    """The tasks of a version that its `allow` rules leave to a principal, sorted; reach and ceilings are not asked."""
    return tuple(sorted(name for name, rule in version.tasks.items() if _allows(rule, principal)))


# 1. Reach


def _ceilings(
    version: VersionPolicy, principal: Principal, policy: Policy
) -> tuple[tuple[str, Ceiling], ...] | Refusal:
    """Every ceiling over this decision, by the name operators know it by; a refusal where one ends below the tool."""
    client = policy.clients.get(principal.client)
    if client is None or not within_patterns(version.tool, client.tools):
        return Refusal(
            Reason.CLIENT_NOT_PERMITTED,
            f"this client may not act for the tool {version.tool}; the operator grants that in trust.yaml",
            where="authorization_details/tool",
            why=f"trust.yaml/clients/{principal.client}/tools does not cover {version.tool}",
        )
    found: list[tuple[str, Ceiling]] = []
    bounds = principal.bounded_by or Bounds(issuers=(principal.account_issuer, principal.agent_issuer), clients=())
    for client_id in dict.fromkeys((principal.client, *bounds.clients)):
        known = policy.clients.get(client_id)
        if known is None:
            return Refusal(
                Reason.SUBJECT_CREDENTIAL_DEAD,
                "a client that the subject credential was issued to is not known here any more",
                where="subject_token",
                why=f"trust.yaml/clients has no {client_id}",
            )
        if known.ceiling is not None:
            found.append((f"trust.yaml/clients/{client_id}/ceiling", known.ceiling))
    for issuer in dict.fromkeys(bounds.issuers):
        trust = policy.issuers.get(issuer)
        if trust is None:
            return Refusal(
                Reason.TOKEN_ISSUER_UNKNOWN,
                "the token's issuer is not trusted here; the operator lists issuers in trust.yaml",
                where="subject_token",
                why=f"trust.yaml/issuers has no {issuer}",
            )
        found.append((f"trust.yaml/issuers/{issuer}/ceiling", trust.ceiling))
    for name, ceiling in found:
        if not within_patterns(version.tool, ceiling.tools):
            return Refusal(
                Reason.CEILING_EXCEEDED,
                f"the issuer or client may never use the tool {version.tool}",
                where="authorization_details/tool",
                why=f"{name}/tools does not cover {version.tool}",
            )
    return tuple(found)


# 2. Task


def _allows(rule: TaskRule, principal: Principal) -> bool:
    if not rule.clients and not rule.claims:
        return False
    if rule.clients and principal.client not in rule.clients:
        return False
    return all(not principal.claims.get(name, frozenset()).isdisjoint(values) for name, values in rule.claims.items())


def _task(version: VersionPolicy, principal: Principal, task: TaskName | None) -> TaskRule | Refusal:
    where = "authorization_details/task"
    place = version_id(version.tool, version.version)
    if task is None:
        open_to = tasks_for(version, principal)
        if len(open_to) == 1:
            return version.tasks[open_to[0]]
        offer = f"name one of {', '.join(open_to)}" if open_to else "none is open to this principal"
        return Refusal(
            Reason.TASK_MISSING,
            f"no task was named and there is not exactly one to choose; {offer}",
            where=where,
            why=f"{place} leaves {len(open_to)} tasks to this principal",
        )
    rule = version.tasks.get(task)
    if rule is None:
        known = ", ".join(sorted(version.tasks))
        return Refusal(
            Reason.TASK_UNKNOWN,
            f"{place} has no task {task}; it has {known}",
            where=where,
            why=f"{place}/tasks has {known}",
        )
    if not _allows(rule, principal):
        open_to = tasks_for(version, principal)
        offer = f"open to it: {', '.join(open_to)}" if open_to else "no task of this version is open to it"
        return Refusal(
            Reason.TASK_NOT_ALLOWED,
            f"this principal may not have the task {task}; {offer}",
            where=where,
            why=f"{place}/tasks/{task}/allow wants {_spell_allow(rule)}; "
            f"the client is {principal.client}, the claims are {_spell_claims(principal, rule)}",
        )
    return rule


def _spell_allow(rule: TaskRule) -> str:
    wants = [f"client in [{', '.join(rule.clients)}]"] if rule.clients else []
    wants += [f"{name} in [{', '.join(values)}]" for name, values in rule.claims.items()]
    return " and ".join(wants) or "nobody"


def _spell_claims(principal: Principal, rule: TaskRule) -> str:
    said = (f"{name}=[{', '.join(sorted(principal.claims.get(name, ())))}]" for name in rule.claims)
    return " ".join(said) or "not asked for"
