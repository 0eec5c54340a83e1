"""A real broker process on policies, keys and a port of its own, and the clients that speak to it.

`PolicyTree` writes the policy folder, `BrokerProcess` runs `broker serve` on it, `Wire` speaks to it as its clients do. Tokens
and assertions are signed with PyJWT, not with the broker's own engine, so that nothing judges itself.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus, urlencode

import httpx2
import jwt
from broker.domain.contracts.contract import parse_contract
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from store_parts import PATIENCE_SECONDS

SHIPPED = Path(__file__).parent.parent / "policies"
ISSUER = "https://idp.example"
RESOURCE = "https://reports.example/mcp"
TOOLS_API = "https://tools.example/mcp"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
JWT_TYPE = "urn:ietf:params:oauth:token-type:jwt"
JWT_BEARER = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

SECRETS = {
    "agent:alpha/1": ("client_secret_basic", "p:a+b%/é z"),
    "svc": ("client_secret_basic", "se:cret"),
    "poster": ("client_secret_post", "posted secret & more"),
    "tools-api": ("client_secret_basic", "tools-api-secret"),
    "db-api": ("client_secret_basic", "db-api-secret"),
    "vector-mcp": ("client_secret_basic", "vector-secret"),
    "stranger": ("client_secret_basic", "stranger-secret"),
    "bystander": ("client_secret_basic", "bystander-secret"),
}
KEYED = {"key-mcp": "ES256", "rsa-mcp": "RS256", "ed-mcp": "EdDSA"}
EXCHANGERS = ("agent:alpha/1", "svc", "poster", "vector-mcp", *KEYED)


@cache
def private_key(name: str, algorithm: str = "ES256") -> Any:
    """One private key for each name and algorithm, for the whole run."""
    if algorithm == "ES256":
        return ec.generate_private_key(ec.SECP256R1())
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(public_exponent=65_537, key_size=2_048)


def public_set(name: str, algorithm: str = "ES256") -> dict[str, Any]:
    maker = {"ES256": ECAlgorithm, "EdDSA": OKPAlgorithm}.get(algorithm, RSAAlgorithm)
    jwk = json.loads(maker.to_jwk(private_key(name, algorithm).public_key()))
    jwk.pop("key_ops", None)
    return {"keys": [{**jwk, "kid": name, "alg": algorithm, "use": "sig"}]}


def sign(claims: Mapping[str, Any], name: str, *, algorithm: str = "ES256", **header: Any) -> str:
    payload = json.dumps(dict(claims)).encode()
    return jwt.api_jws.encode(payload, private_key(name, algorithm), algorithm, headers={"kid": name, **header})


def subject_token(**claims: Any) -> str:
    """A token of the test issuer for an analyst; a claim given as None is left out."""
    now = int(time.time())
    made = {
        "iss": ISSUER,
        "sub": "alice",
        "aud": RESOURCE,
        "azp": "agent-7",
        "groups": ["analysts"],
        "iat": now,
        "exp": now + 600,
        "jti": secrets.token_urlsafe(12),
        **claims,
    }
    return sign({name: value for name, value in made.items() if value is not None}, "idp", typ="at+jwt")


def assertion(client: str, audience: str, *, algorithm: str = "ES256", key: str | None = None, **claims: Any) -> str:
    """A client assertion (RFC 7523 §3); a claim given as None is left out."""
    now = int(time.time())
    made = {
        "iss": client,
        "sub": client,
        "aud": audience,
        "iat": now,
        "exp": now + 60,
        "jti": secrets.token_urlsafe(12),
        **claims,
    }
    return sign({name: value for name, value in made.items() if value is not None}, key or client, algorithm=algorithm)


def basic(client: str, secret: str | None = None) -> str:
    pair = f"{quote_plus(client)}:{quote_plus(SECRETS[client][1] if secret is None else secret)}"
    return "Basic " + base64.b64encode(pair.encode()).decode()


def contract(name: str, properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }
    return {"name": name, "description": f"The tool {name}, for tests.", "inputSchema": schema}


TICKET = contract(
    "ticket.edit",
    {"id": {"type": "string", "maxLength": 64}, "create": {"type": "boolean"}, "note": {"type": "string"}},
)
ROOT = contract("root.get", {"key": {"type": "string"}})


class PolicyTree:
    """A policy folder: the shipped tools, two of our own, and a trust file with a client of each kind."""

    def __init__(self, folder: Path, *, tenant: str = "default") -> None:
        self.folder = folder
        self.tenant = tenant
        (folder / "contracts").mkdir(parents=True)
        (folder / "keys").mkdir()
        (folder / "tests").mkdir()
        for name in ("db.query", "files.read"):
            shutil.copytree(SHIPPED / "contracts" / name, folder / "contracts" / name)
            text = (SHIPPED / f"{name}.yaml").read_text().replace("[reporting-mcp]", json.dumps(EXCHANGERS))
            (folder / f"{name}.yaml").write_text(text)
            cases = (SHIPPED / "tests" / f"{name}.yaml").read_text().replace("reporting-mcp", "svc")
            (folder / "tests" / f"{name}.yaml").write_text(cases.replace("http://127.0.0.1:8421", ISSUER))
        self.add_tool(
            TICKET,
            audience=TOOLS_API,
            scopes={
                "ticket.read": {"needed_when": True},
                "ticket.create": {"needed_when": {"properties": {"create": {"const": True}}, "required": ["create"]}},
            },
            tasks={
                "edit": {
                    "allow": {"clients": list(EXCHANGERS)},
                    "scopes": ["ticket.read", "ticket.create"],
                    "ttl": "60s",
                },
                "peek": {"allow": {"claims": {"groups": ["auditors"]}}, "scopes": ["ticket.read"], "uses": 2},
            },
        )
        self.add_tool(
            ROOT,
            audience="https://root.example",
            scopes={"root.read": {"needed_when": True}},
            tasks={"read": {"allow": {"clients": list(EXCHANGERS)}, "scopes": ["root.read"]}},
        )
        self.write_key("idp")
        self.write_key("operator")
        self.write_key("rollout-bot")
        for name, algorithm in KEYED.items():
            self.write_key(name, algorithm)
        self.write_trust()

    def add_tool(
        self, made: dict[str, Any], *, audience: str, scopes: dict[str, Any], tasks: dict[str, Any], versions: int = 1
    ) -> None:
        """A tool with so many versions, alike but for a word in their description."""
        name = made["name"]
        (self.folder / "contracts" / name).mkdir(exist_ok=True)
        known: dict[str, Any] = {}
        for number in map(str, range(1, versions + 1)):
            served = {**made, "description": f"{made['description']} Version {number}."}
            (self.folder / "contracts" / name / f"{number}.json").write_text(json.dumps(served))
            known[number] = {
                "contract": f"contracts/{name}/{number}.json",
                "digest": parse_contract(served).digest,
                "scopes": scopes,
                "tasks": tasks,
                **({"change": {"class": "semantic only"}} if number != "1" else {}),
            }
        # JSON is YAML
        file = {"tool": name, "audience": audience, "owners": ["tests"], "versions": known}
        (self.folder / f"{name}.yaml").write_text(json.dumps(file, indent=1))
        always = [scope for scope, rule in scopes.items() if rule["needed_when"] is True]
        self.add_tests(name, *known, task=next(iter(tasks)), permit=always)

    def add_tests(self, tool: str, *versions: str, task: str, permit: list[str], **request: Any) -> None:
        """For each version, a request that is permitted and the same for a task that there is not."""
        cases = []
        for version in versions:
            asked = {"version": version, "client": "svc", "issuer": ISSUER, "arguments": {}, **request}
            cases.append({"name": f"{version} is used", "request": {**asked, "task": task}, "permit": permit})
            refused = {**asked, "task": "no-such-task"}
            cases.append({"name": f"{version} is not misused", "request": refused, "refuse": "task_unknown"})
        (self.folder / "tests" / f"{tool}.yaml").write_text(json.dumps({"tool": tool, "cases": cases}, indent=1))

    def write_key(self, name: str, algorithm: str = "ES256") -> None:
        (self.folder / "keys" / f"{name}.json").write_text(json.dumps(public_set(name, algorithm)))

    def write_trust(self, **issuers: Any) -> None:
        every = ["db.*", "files.*", "ticket.*", "root.*"]
        ceiling = {"tools": every, "scopes": ["db:*", "files:read:*", "ticket.*", "root.*"]}
        claims = {"groups": "groups", "agent": "azp"}
        idp = {"jwks": {"file": "keys/idp.json"}, "algorithms": ["ES256"], "claims": claims, "ceiling": ceiling}
        exchanger = {"resource": RESOURCE, "tools": every, "may": ["exchange", "introspect", "report"]}
        clients: dict[str, Any] = {}
        for name, algorithm in KEYED.items():
            assert algorithm
            clients[name] = {"auth": "private_key_jwt", "jwks": {"file": f"keys/{name}.json"}, **exchanger}
        for name, (method, secret) in SECRETS.items():
            digest = "sha256:" + hashlib.sha256(secret.encode()).hexdigest()
            clients[name] = {"auth": method, "secret": digest, **exchanger}
        clients["tools-api"] |= {"resource": TOOLS_API, "may": ["introspect"]}
        clients["vector-mcp"] |= {"resource": TOOLS_API}
        clients["db-api"] |= {"resource": "https://db.internal", "may": ["introspect"]}
        clients["stranger"] |= {"resource": "https://elsewhere.example", "may": ["introspect"]}
        clients["bystander"] |= {"may": ["report"]}
        commands = ["publish", "canary", "promote", "rollback", "deprecate", "retire", "revoke", "read"]
        admins = {
            "operator": {"auth": "private_key_jwt", "jwks": {"file": "keys/operator.json"}, "may": commands},
            "rollout-bot": {
                "auth": "private_key_jwt",
                "jwks": {"file": "keys/rollout-bot.json"},
                "may": ["canary", "promote", "rollback"],
            },
        }
        trust = {
            "tenant": self.tenant,
            "issuers": {ISSUER: idp, **{name: {"ceiling": ceiling, **value} for name, value in issuers.items()}},
            "clients": clients,
            "admins": admins,
            "defaults": {"ttl": "60s", "max_ttl": "300s", "leeway": "10s"},
        }
        (self.folder / "trust.yaml").write_text(json.dumps(trust, indent=1))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(condition: Callable[[], bool], *, seconds: float = PATIENCE_SECONDS, what: str = "") -> None:
    """Wait for a condition, with a deadline."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.005)


class BrokerProcess:
    """`broker serve` as an operator starts it; ended by its own process id."""

    def __init__(self, folder: Path, *options: str, policies: PolicyTree | None = None) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.policies = policies or PolicyTree(folder / "policies")
        self.data = folder / "data"
        self.options = options
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None
        self.log = folder / "broker.log"
        self.wire = Wire(self.url)

    @property
    def audit_path(self) -> Path:
        return self.data / "audit" / "log.sqlite"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def store_pid(self) -> int:
        """The embedded store's process id, as it stands in the file that it keeps locked."""
        return int((self.data / "store" / "server.lock").read_text())

    def launch(self, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "broker.cli.main", "serve", "--policies", str(self.policies.folder)]
        command += ["--data", str(self.data), "--port", str(self.port), *self.options, *options]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BROKER_")}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        return self.process

    def start(self, *options: str) -> BrokerProcess:
        self.launch(*options)
        wait_until(self.is_ready, seconds=40, what="the broker becomes ready")
        return self

    def is_ready(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise AssertionError(f"the broker ended with {self.process.returncode}:\n{self.log.read_text()}")
        try:
            return self.wire.http.get("/readyz").status_code == 200
        except httpx2.TransportError:
            return False

    def said(self) -> str:
        return self.log.read_text()

    def stop(self, how: int = signal.SIGTERM) -> int:
        """Send the signal, wait for the end; its exit code."""
        process, self.process = self.process, None
        if process is None:
            return 0
        if process.poll() is None:
            process.send_signal(how)
        return process.wait(PATIENCE_SECONDS)

    def remove(self) -> None:
        try:
            self.stop(signal.SIGKILL)
        finally:
            self.wire.http.close()


@dataclass
class Wire:
    """The broker's clients on the wire."""

    url: str
    http: httpx2.Client = field(init=False)

    def __post_init__(self) -> None:
        self.http = httpx2.Client(base_url=self.url, timeout=15.0)

    def proof(self, client: str) -> tuple[dict[str, str], dict[str, str]]:
        """Headers and form members with which this client authenticates."""
        if client in KEYED:
            made = assertion(client, self.url, algorithm=KEYED[client])
            return {}, {"client_assertion_type": JWT_BEARER, "client_assertion": made}
        method, secret = SECRETS[client]
        if method == "client_secret_post":
            return {}, {"client_id": client, "client_secret": secret}
        return {"authorization": basic(client)}, {}

    def post(self, path: str, form: Mapping[str, str], client: str | None) -> httpx2.Response:
        headers, members = self.proof(client) if client is not None else ({}, {})
        return self.http.post(path, data={**form, **members}, headers=headers)

    def exchange(self, *, client: str | None = "svc", **changes: Any) -> httpx2.Response:
        return self.post("/token", exchange_form(**changes), client)

    def mint(self, *, client: str = "svc", **changes: Any) -> dict[str, Any]:
        answer = self.exchange(client=client, **changes)
        assert answer.status_code == 200, answer.text
        found = answer.json()
        assert isinstance(found, dict)
        return found

    def introspect(self, token: str, *, client: str | None = "svc", **more: str) -> httpx2.Response:
        return self.post("/introspect", {"token": token, **more}, client)

    def is_active(self, token: str, *, client: str = "svc") -> bool:
        answer = self.introspect(token, client=client)
        assert answer.status_code == 200, answer.text
        return bool(answer.json()["active"])

    def revoke(self, token: str, *, client: str | None = "svc", **more: str) -> httpx2.Response:
        return self.post("/revoke", {"token": token, **more}, client)

    def admin(self, method: str, path: str, *, admin: str = "operator", body: Any = None) -> httpx2.Response:
        headers = {"authorization": f"Bearer {assertion(admin, self.url)}"}
        return self.http.request(method, f"/admin{path}", headers=headers, json=body)

    def command(self, version: str, command: str, **body: Any) -> dict[str, Any]:
        tool, _, number = version.partition("@")
        answer = self.admin("POST", f"/versions/{tool}/{number}/{command}", body=body)
        assert answer.status_code == 200, answer.text
        found = answer.json()
        assert isinstance(found, dict)
        return found

    def serve(self, *versions: str) -> None:
        """Publish and promote these versions."""
        for version in versions:
            self.command(version, "publish")
            self.command(version, "promote")


def detail(tool: str = "ticket.edit", **members: Any) -> dict[str, Any]:
    """One authorization detail; a member given as None is left out."""
    made = {"type": "mcp_tool_call", "tool": tool, "version": "1", "task": "edit", "arguments": {}, **members}
    return {name: value for name, value in made.items() if value is not None}


def exchange_form(**changes: Any) -> dict[str, str]:
    """The form of an exchange that is granted; a parameter given as None is left out."""
    form: dict[str, Any] = {
        "grant_type": EXCHANGE,
        "subject_token_type": ACCESS_TOKEN,
        "authorization_details": detail(),
        **changes,
    }
    if "subject_token" not in form:
        form["subject_token"] = subject_token()
    if isinstance(form["authorization_details"], dict):
        form["authorization_details"] = [form["authorization_details"]]
    if isinstance(form["authorization_details"], list):
        form["authorization_details"] = json.dumps(form["authorization_details"])
    return {name: value for name, value in form.items() if value is not None}


def spell_form(form: Mapping[str, str]) -> bytes:
    return urlencode(form).encode()


def unverified_claims(token: str) -> dict[str, Any]:
    found = jwt.decode(token, options={"verify_signature": False})
    assert isinstance(found, dict)
    return found


def pem_of(name: str, algorithm: str = "ES256") -> bytes:
    made: bytes = private_key(name, algorithm).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return made


def read_log(broker: BrokerProcess) -> list[dict[str, Any]]:
    """Every audit record, read from the file beside a running or ended broker."""
    from broker.adapters.auditlog.database import read_records

    return [record for _, record in read_records(broker.audit_path)]


def refused(answer: httpx2.Response) -> tuple[int, str, str, str | None]:
    """Status, error, reason, where."""
    body = answer.json()
    return answer.status_code, body["error"], body["reason"], body.get("where")
