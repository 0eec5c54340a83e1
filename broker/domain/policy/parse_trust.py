"""`trust.yaml`: from checked nodes to issuers, clients, admins and defaults.

Beyond the form, each departure a problem at its place:

1. Plain http reaches loopback only, for issuers and for key sources.
2. `private_key_jwt` has `jwks` and no `secret`; the two secret methods have `secret` and no `jwks`.
3. A client that exchanges or introspects has a `resource`; one that exchanges has `tools`.
4. `ttl` ≤ `max_ttl` ≤ 300 s; `leeway` ≤ 60 s.
5. An issuer's `claims` gives no claim two names that could be taken for one another: `account` and `agent` are ours.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, cast

from broker.domain.ids import ClientId, Digest, Tenant
from broker.domain.policy.document import (
    MAX_LEEWAY_SECONDS,
    MAX_SUBJECT_LIFETIME_SECONDS,
    MAX_TTL_SECONDS,
    AdminTrust,
    Ceiling,
    ClaimNames,
    ClientAuth,
    ClientTrust,
    Defaults,
    IssuerTrust,
    KeySource,
)
from broker.domain.policy.form import TRUST_FILE
from broker.domain.policy.located import Located, Problems
from broker.domain.policy.shape import conform

_UNITS: Final = {"s": 1, "m": 60, "h": 3600}
_LOOPBACK: Final = re.compile(r"http://(?:localhost|127(?:\.[0-9]{1,3}){3}|\[::1\])(?::[0-9]{1,5})?(?:/.*)?")


@dataclass(frozen=True, slots=True)
class Trust:
    """What `trust.yaml` says, and the key files it names, for whoever can look whether they are there."""

    tenant: Tenant
    lockstep: str
    issuers: dict[str, IssuerTrust]
    clients: dict[ClientId, ClientTrust]
    admins: dict[str, AdminTrust]
    defaults: Defaults
    key_files: tuple[tuple[str, Located], ...]


def parse_trust(root: Located, *, base: str, problems: Problems) -> Trust:
    """Read `trust.yaml`, below the policy folder `base`; what departs from the form or the rules goes to `problems`."""
    node = conform(TRUST_FILE, root, problems)
    reader = _Reader(base, problems)
    defaults = reader.defaults(node.get("defaults"))
    named = found.entries() if (found := node.get("issuers")) is not None else {}
    issuers = {name: reader.issuer(named[name].key, child) for name, child in node.children("issuers")}
    clients = {ClientId(name): reader.client(name, child) for name, child in node.children("clients")}
    admins = {name: reader.admin(name, child) for name, child in node.children("admins")}
    return Trust(
        tenant=Tenant(node.text("tenant") or "default"),
        lockstep=node.text("lockstep") or "strict",
        issuers=issuers,
        clients=clients,
        admins=admins,
        defaults=defaults,
        key_files=tuple(reader.key_files),
    )


def parse_duration(node: Located, name: str, default: int) -> int:
    """The seconds of the duration under a name, or the default where none is readable there."""
    text = node.text(name)
    return int(text[:-1]) * _UNITS[text[-1]] if text else default


class _Reader:
    """Reads one trust file; every method reports what is wrong and goes on with what is right."""

    def __init__(self, base: str, problems: Problems) -> None:
        self._base = base
        self._problems = problems
        self.key_files: list[tuple[str, Located]] = []

    def defaults(self, node: Located | None) -> Defaults:
        if node is None:
            return Defaults()
        most = self._bounded(node, "max_ttl", MAX_TTL_SECONDS, MAX_TTL_SECONDS)
        return Defaults(
            ttl_seconds=self._bounded(node, "ttl", min(Defaults().ttl_seconds, most), most),
            max_ttl_seconds=most,
            leeway_seconds=self._bounded(node, "leeway", Defaults().leeway_seconds, MAX_LEEWAY_SECONDS),
        )

    def issuer(self, key: Located, node: Located) -> IssuerTrust:
        name = str(key.value)
        self._web(name, key)
        lifetime = self._bounded(node, "max_lifetime", MAX_SUBJECT_LIFETIME_SECONDS, MAX_SUBJECT_LIFETIME_SECONDS)
        claims = {key: str(child.value) for key, child in node.children("claims")}
        return IssuerTrust(
            issuer=name,
            jwks=self._keys(node.get("jwks")) or KeySource(),
            algorithms=node.texts("algorithms"),
            types=node.texts("types") or ("at+jwt",),
            claims=ClaimNames(
                account=claims.pop("account", "sub"),
                agent=claims.pop("agent", None),
                others=claims,
            ),
            ceiling=_ceiling(node.get("ceiling")) or Ceiling((), ()),
            max_lifetime_seconds=lifetime,
        )

    def client(self, name: str, node: Located) -> ClientTrust:
        auth, jwks, secrets = self._auth(node)
        may = frozenset(node.texts("may"))
        for power, key in (("exchange", "resource"), ("introspect", "resource"), ("exchange", "tools")):
            if power in may and key not in node.entries():
                message = f"a client that may {power} needs {key}"
                self._problems.report(node, "client.incomplete", message, mend=f"add {key}")
        return ClientTrust(
            client_id=ClientId(name),
            auth=auth,
            jwks=jwks,
            secrets=secrets,
            resource=node.text("resource"),
            tools=node.texts("tools"),
            ceiling=_ceiling(node.get("ceiling")),
            may=may,
        )

    def admin(self, name: str, node: Located) -> AdminTrust:
        auth, jwks, secrets = self._auth(node)
        return AdminTrust(name=name, auth=auth, jwks=jwks, secrets=secrets, may=frozenset(node.texts("may")))

    def _auth(self, node: Located) -> tuple[ClientAuth, KeySource | None, tuple[Digest, ...]]:
        auth = node.text("auth")
        if auth is not None:
            wanted, other = ("jwks", "secret") if auth == "private_key_jwt" else ("secret", "jwks")
            if wanted not in node.entries():
                message = f"{auth} needs {wanted}"
                self._problems.report(node, "client.incomplete", message, mend=f"add {wanted}")
            if other in node.entries():
                message = f"{auth} does not use {other}"
                self._problems.report(node.entries()[other].key, "client.auth", message, mend=f"take {other} out")
        secrets = tuple(Digest(text) for text in node.texts("secret"))
        return cast("ClientAuth", auth or "private_key_jwt"), self._keys(node.get("jwks")), secrets

    def _keys(self, node: Located | None) -> KeySource | None:
        if node is None:
            return None
        url, file = node.get("url"), node.get("file")
        if url is not None:
            self._web(str(url.value), url)
            return KeySource(url=str(url.value))
        if file is None:
            return None
        text = str(file.value)
        if ".." in text.split("/"):
            self._problems.report(
                file, "trust.keys", "the file leads out of its folder by `..`", mend="name it plainly"
            )
            return None
        path = text if text.startswith("/") else f"{self._base.rstrip('/')}/{text}"
        self.key_files.append((path, file))
        return KeySource(file=path)

    def _web(self, url: str, node: Located) -> None:
        if url.startswith("http://") and not _LOOPBACK.fullmatch(url):
            message = f"{url[:80]} is plain http and not loopback"
            self._problems.report(node, "trust.transport", message, mend="use https")

    def _bounded(self, node: Located, name: str, default: int, most: int) -> int:
        seconds = parse_duration(node, name, default)
        if seconds > most:
            place = node.get(name) or node
            message = f"{name} is {seconds} seconds, at most {most} are accepted"
            self._problems.report(place, "field.value", message, mend=f"write at most {most}s")
        return seconds


def _ceiling(node: Located | None) -> Ceiling | None:
    return None if node is None else Ceiling(tools=node.texts("tools"), scopes=node.texts("scopes"))
