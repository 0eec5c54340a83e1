"""The gate as fastmcp middleware.

    gate = version_gate(issuer="http://127.0.0.1:8420", client_id="reporting-mcp", client_key="keys/reporting-mcp.pem",
                        resource="http://127.0.0.1:8430/mcp", issuers=[trusted_issuer(...)])
    mcp = FastMCP("reports", auth=gate.auth(), middleware=[gate], lifespan=gate.lifespan)

`VersionGate` (`fastmcp_gate`) says what it does with each call. Put this middleware first: what stands before it sees calls that it
will refuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from broker.domain.policy.document import IssuerTrust
from broker.gate.broker_client import BrokerClient
from broker.gate.broker_http import addresses
from broker.gate.client_auth import load_client_auth
from broker.gate.fastmcp_gate import VersionGate
from broker.gate.following import Following, StateSetting
from broker.gate.keys import GateKeySets
from broker.gate.subject import SubjectVerifier

__all__ = ["VersionGate", "version_gate"]


def version_gate(
    *,
    issuer: str,
    broker_url: str | Sequence[str] | None = None,
    client_id: str,
    resource: str,
    issuers: Iterable[IssuerTrust],
    client_key: str | bytes | Path | None = None,
    client_kid: str | None = None,
    client_secret: str | None = None,
    ungated: Iterable[str] = (),
    application: str | None = None,
    follow: bool | None = None,
    state_file: StateSetting = "default",
    timeout_seconds: float = 2.5,
) -> VersionGate:
    """A gate from settings.

    issuer: the broker's. broker_url: where it is reached, if not under that address; several where there are replicas.
    follow: whether it follows the broker's revocations; by default only where callers come with credentials of the broker. Where
    it does not, the exchange alone finds out that such a credential is dead. state_file: as for `CredentialVerifier`.
    client_id, client_key or client_secret: how this server authenticates there.
    resource: the audience that callers' tokens must have, as registered for the client. issuers: whose tokens they are.
    """
    auth = load_client_auth(client_id, issuer=issuer, key=client_key, kid=client_kid, secret=client_secret)
    urls, believed = addresses(broker_url, issuer=issuer), tuple(issuers)
    if follow is None:
        follow = any(trust.issuer == issuer for trust in believed)
    following = Following(urls, auth, issuer=issuer, state_file=state_file) if follow else None
    return VersionGate(
        BrokerClient(urls, auth, timeout_seconds=timeout_seconds),
        SubjectVerifier(issuers=believed, resource=resource, keys=GateKeySets(), broker=issuer, following=following),
        following=following,
        ungated=ungated,
        application=application,
    )
