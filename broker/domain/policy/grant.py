"""What a policy comes to, in one spelling, so that equal digests decide alike.

1. A version's grant: audience, contract digest, arguments, scopes, tasks. What an author says about a step
   (`replaces`, `change`, `unrelated`) decides nothing and stays outside.
2. A policy: the grants of all versions, and all of `trust.yaml`. Key files count by the name they are written with
   below the policy folder, so that the same files give the same digest on every machine; owners stay outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker.domain.digests import digest_of
from broker.domain.ids import Digest, TaskName
from broker.domain.policy.document import (
    AdminTrust,
    ArgumentRule,
    Ceiling,
    ClientTrust,
    Defaults,
    IssuerTrust,
    KeySource,
    ScopeRule,
    TaskRule,
    ToolPolicy,
)

FORMAT = 1


def grant_digest(
    audience: str,
    contract: Digest,
    arguments: Mapping[str, ArgumentRule],
    scopes: Mapping[str, ScopeRule],
    tasks: Mapping[TaskName, TaskRule],
) -> Digest:
    """The digest of what one version grants. Raises `JsonError` where a number has no exact spelling."""
    return digest_of(
        {
            "format": FORMAT,
            "audience": audience,
            "contract": contract,
            "arguments": {
                rule.pointer: {
                    "kind": rule.kind,
                    "within": sorted(rule.within),
                    "enforced_by": sorted(rule.enforced_by),
                }
                for rule in arguments.values()
            },
            "scopes": {rule.template: rule.needed_when for rule in scopes.values()},
            "tasks": {
                rule.task: {
                    "clients": sorted(rule.clients),
                    "claims": {name: sorted(values) for name, values in rule.claims.items()},
                    "scopes": sorted(rule.scopes),
                    "ttl": rule.ttl_seconds,
                    "uses": rule.uses,
                    **({"online": True} if rule.online else {}),  # or the digests of before would be others
                }
                for rule in tasks.values()
            },
        }
    )


def policy_digest(
    *,
    base: str,
    tenant: str,
    lockstep: str,
    issuers: Iterable[IssuerTrust],
    clients: Iterable[ClientTrust],
    admins: Iterable[AdminTrust],
    defaults: Defaults,
    tools: Iterable[ToolPolicy],
) -> Digest:
    """The digest of everything that decides."""
    return digest_of(
        {
            "format": FORMAT,
            "tenant": tenant,
            "lockstep": lockstep,
            "issuers": {issuer.issuer: _issuer(issuer, base) for issuer in issuers},
            "clients": {client.client_id: _client(client, base) for client in clients},
            "admins": {admin.name: _party(admin, base) for admin in admins},
            "defaults": {
                "ttl": defaults.ttl_seconds,
                "max_ttl": defaults.max_ttl_seconds,
                "leeway": defaults.leeway_seconds,
            },
            "tools": {
                tool.tool: {number: version.digest for number, version in tool.versions.items()} for tool in tools
            },
        }
    )


def _issuer(issuer: IssuerTrust, base: str) -> dict[str, object]:
    return {
        "jwks": _keys(issuer.jwks, base),
        "algorithms": sorted(issuer.algorithms),
        "types": sorted(issuer.types),
        "account": issuer.claims.account,
        "agent": issuer.claims.agent,
        "claims": dict(issuer.claims.others),
        "ceiling": _ceiling(issuer.ceiling),
        "max_lifetime": issuer.max_lifetime_seconds,
    }


def _client(client: ClientTrust, base: str) -> dict[str, object]:
    return {
        **_party(client, base),
        "resource": client.resource,
        "tools": sorted(client.tools),
        "ceiling": _ceiling(client.ceiling),
    }


def _party(party: ClientTrust | AdminTrust, base: str) -> dict[str, object]:
    return {
        "auth": party.auth,
        "jwks": _keys(party.jwks, base),
        "secrets": sorted(party.secrets),
        "may": sorted(party.may),
    }


def _keys(keys: KeySource | None, base: str) -> dict[str, object] | None:
    if keys is None:
        return None
    file = keys.file.removeprefix(base.rstrip("/") + "/") if keys.file is not None else None
    return {"url": keys.url, "file": file}


def _ceiling(ceiling: Ceiling | None) -> dict[str, object] | None:
    return None if ceiling is None else {"tools": sorted(ceiling.tools), "scopes": sorted(ceiling.scopes)}
