"""Several `broker serve` of one broker: one store, one issuer, one folder of keys, an audit log each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2

from broker_parts import BrokerProcess, PolicyTree, detail, free_port

CANARY = {"authorization_details": detail("db.query", version="4", task="report", arguments={"query": "select 1"})}
STABLE = {"authorization_details": detail("db.query", version="3", task="report", arguments={"query": "select 1"})}


class Replica(BrokerProcess):
    """A replica; its clients know the broker by the issuer, and reach this one of its processes."""

    def __init__(self, folder: Path, issuer: str, store: str, *options: str, keys: Path, policies: PolicyTree) -> None:
        super().__init__(folder, "--store", store, "--issuer", issuer, "--keys", str(keys), *options, policies=policies)
        self.wire.http.close()
        self.wire.url = issuer
        self.wire.http = httpx2.Client(base_url=self.url, timeout=15.0)

    def is_heard(self) -> bool:
        """Whether it answers at all."""
        try:
            return self.wire.http.get("/healthz").status_code == 200
        except httpx2.TransportError:
            return False

    def checks(self) -> dict[str, str]:
        """What `/readyz` says of each part."""
        found: dict[str, str] = self.wire.http.get("/readyz").json()["checks"]
        return found


class Replicas:
    """So many replicas, none of them started. named: each is told of the others."""

    def __init__(self, folder: Path, store: str, count: int, *options: str, named: bool = False) -> None:
        policies = PolicyTree(folder / "policies")
        issuer = f"http://127.0.0.1:{free_port()}"
        made = [
            Replica(folder / name, issuer, store, *options, keys=folder / "keys", policies=policies)
            for name in "abcdef"[:count]
        ]
        if named:
            for one in made:
                peers = [("--peer", other.url) for other in made if other is not one]
                one.options += tuple(part for peer in peers for part in peer)
        self.all = made

    def __getitem__(self, at: int) -> Replica:
        return self.all[at]

    def remove(self) -> None:
        for one in self.all:
            one.remove()


def serve_both(replica: Replica) -> None:
    """`db.query` 3 stable, 4 canary for all."""
    replica.wire.serve("db.query@3")
    replica.wire.command("db.query@4", "publish")
    replica.wire.command("db.query@4", "canary", weight_percent=100)


def refusal_of(answer: httpx2.Response) -> Any:
    """Why something was refused, or `minted`."""
    return answer.json().get("reason", "minted" if answer.status_code == 200 else answer.text)
