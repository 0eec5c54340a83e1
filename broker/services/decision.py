"""The middle of an exchange (steps 4–6): which version, under which contract, and what policy grants.

Made on the lifecycle as this process last saw it. The store re-checks that view in the step that mints; where it has moved,
the decision is made anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from broker.domain.errors import Reason, Refusal
from broker.domain.lifecycle.choice import choose
from broker.domain.lifecycle.states import VersionRecord
from broker.domain.policy.decide import Permit, decide
from broker.domain.policy.document import ClientTrust, Policy, VersionPolicy
from broker.domain.tokens.delegation import check_scopes, check_transaction, check_version
from broker.domain.tokens.exchange_request import ExchangeRequest
from broker.domain.tokens.subject import Subject
from broker.domain.tokens.target import check_target
from broker.ports.arguments import ArgumentMatcher
from broker.ports.store import Assertion
from broker.services.call_facts import CallFacts
from broker.services.lifecycle_cache import LifecycleCache


@dataclass(frozen=True, slots=True)
class Asked:
    """What is settled before the lifecycle is looked at."""

    request: ExchangeRequest
    client: ClientTrust
    subject: Subject
    assertion: Assertion | None
    policy: Policy


@dataclass(frozen=True, slots=True)
class Decided:
    """What one look at lifecycle and policy decides."""

    record: VersionRecord
    version: VersionPolicy
    permit: Permit
    gen: int
    seq: int


class Decision:
    """One for a process."""

    def __init__(self, *, cache: LifecycleCache, arguments: ArgumentMatcher) -> None:
        self._cache = cache
        self._arguments = arguments

    def decide(self, asked: Asked, facts: CallFacts) -> Decided | Refusal:
        """Steps 4–6."""
        view = self._cache.view
        detail, subject = asked.request.detail, asked.subject
        record = choose(view, detail.tool, detail.version, agent=subject.agent, account=subject.account)
        if isinstance(record, Refusal):
            return record
        facts.record = record
        parent = subject.parent
        if parent is not None:
            refused = check_transaction(parent, detail.txn) or check_version(
                parent, tool=record.tool, version=record.version
            )
            if refused is not None:
                return refused
        if detail.contract is not None and detail.contract != record.contract:
            return Refusal(
                Reason.CONTRACT_MISMATCH,
                f"{record.id} was published with contract {record.contract}",
                where="authorization_details/0/contract",
            )
        tool = asked.policy.tools.get(record.tool)
        version = tool.versions.get(record.version) if tool else None
        if version is None or version.digest != record.policy or version.contract.digest != record.contract:
            return Refusal(
                Reason.POLICY_MISMATCH,
                f"{record.id} is refused until its published policy is loaded again, or a new version is published",
                where="authorization_details/0/version",
                why=f"published policy {record.policy}, loaded {version.digest if version else 'none'}",
            )
        permit = decide(
            version,
            principal=subject.principal(asked.client.client_id),
            task=detail.task,
            arguments=detail.arguments,
            facts=None if detail.arguments is None else self._arguments.facts(version, detail.arguments),
            requested=asked.request.scopes,
            policy=asked.policy,
        )
        if isinstance(permit, Refusal):
            return replace(permit, where=in_request(permit.where))
        facts.task = permit.task
        refused = check_target(
            resource=asked.request.resource, audience=asked.request.audience, registered=permit.audience
        )
        if refused is None and parent is not None:
            refused = check_scopes(parent, permit.scopes)
        return refused or Decided(record=record, version=version, permit=permit, gen=view.gen, seq=view.seq)


def in_request(where: str | None) -> str | None:
    """The place that a decision names, in the request: pointers into the arguments lie in the one detail."""
    if where is None or not where.startswith(("/", "authorization_details/")):
        return where
    if where.startswith("/"):
        return f"authorization_details/0/arguments{where}"
    return where.replace("authorization_details/", "authorization_details/0/", 1)
