"""Who could ask: principals that a task lets in, and those who only just miss.

Made from what trust.yaml and the tasks say, so that everything they name exists. The simplest come first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from broker.domain.ids import ClientId
from broker.domain.policy.document import Policy, TaskRule, VersionPolicy
from broker.domain.scopes import within_patterns


@dataclass(frozen=True, slots=True)
class Who:
    """A client, an issuer, and what the token says. Hashable by `key`."""

    client: ClientId
    issuer: str
    claims: Mapping[str, frozenset[str]]

    @property
    def key(self) -> tuple[str, str, tuple[tuple[str, tuple[str, ...]], ...]]:
        return self.client, self.issuer, tuple((name, tuple(sorted(self.claims[name]))) for name in sorted(self.claims))


def clients_for(version: VersionPolicy, policy: Policy) -> tuple[ClientId, ...]:
    """The clients that may act for a tool, in the order of trust.yaml."""
    return tuple(
        name
        for name, client in policy.clients.items()
        if within_patterns(version.tool, client.tools)
        and (client.ceiling is None or within_patterns(version.tool, client.ceiling.tools))
    )


def issuers_for(version: VersionPolicy, policy: Policy, claims: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """The issuers whose ceiling covers a tool and whose tokens can hold these claims."""
    return tuple(
        name
        for name, issuer in policy.issuers.items()
        if within_patterns(version.tool, issuer.ceiling.tools) and claims <= set(issuer.claims.others)
    )


def let_in(task: TaskRule, version: VersionPolicy, policy: Policy) -> Iterator[Who]:
    """Principals that a task's `allow` lets in: one for each client and each value that it names."""
    if not task.clients and not task.claims:
        return
    usable = clients_for(version, policy)
    clients = [name for name in task.clients or usable if name in usable]
    issuers = issuers_for(version, policy, frozenset(task.claims))
    if not clients or not issuers:
        return
    first = {name: frozenset(values[:1]) for name, values in task.claims.items()}
    for client in clients if task.clients else clients[:1]:
        yield Who(client, issuers[0], first)
    for name, values in task.claims.items():
        for value in values[1:]:
            yield Who(clients[0], issuers[0], {**first, name: frozenset((value,))})


def just_missed(
    task: TaskRule, version: VersionPolicy, policy: Policy, known: Mapping[str, frozenset[str]]
) -> Iterator[Who]:
    """Principals like those that a task lets in, but for one thing: a claim, its value, or the client."""
    for who in let_in(task, version, policy):
        for name, values in task.claims.items():
            rest = {key: value for key, value in who.claims.items() if key != name}
            yield Who(who.client, who.issuer, rest)
            for value in sorted(known.get(name, frozenset()).difference(values)):
                yield Who(who.client, who.issuer, {**rest, name: frozenset((value,))})
        for client in clients_for(version, policy):
            if task.clients and client not in task.clients:
                yield Who(client, who.issuer, who.claims)
    if not task.clients and not task.claims:
        clients, issuers = clients_for(version, policy), issuers_for(version, policy)
        if clients and issuers:
            yield Who(clients[0], issuers[0], {})


def claim_values(policy: Policy) -> Mapping[str, frozenset[str]]:
    """By claim, every value that a task of the policy asks for."""
    found: dict[str, set[str]] = {}
    for tool in policy.tools.values():
        for version in tool.versions.values():
            for task in version.tasks.values():
                for name, values in task.claims.items():
                    found.setdefault(name, set()).update(values)
    return {name: frozenset(values) for name, values in found.items()}
