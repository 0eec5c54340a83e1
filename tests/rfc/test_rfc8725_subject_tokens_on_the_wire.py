"""Every vector of `jwt_jwks.json`, presented as a subject token to a real broker: its verdict, and never a 500."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt_cases
import pytest
from jwt_cases import ISSUER, VECTORS, make_token, public_members

from broker_parts import BrokerProcess, PolicyTree, refused

# what the wire says where it is another step than the verifier that stops the token
ON_THE_WIRE = {
    "iss is absent": "token_issuer_unknown",  # there is nobody whose keys could be asked
    "expired within the leeway": "lifetime_exhausted",  # believed, but nothing is left to hand on
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder: Path = tmp_path_factory.mktemp("broker")
    tree = PolicyTree(folder / "policies")
    publish_keys(tree, "RS256")
    trust = {"jwks": {"file": "keys/vectors.json"}, "algorithms": ["RS256", "ES256"]}
    tree.write_trust(**{ISSUER: trust})
    process = BrokerProcess(folder, policies=tree)
    try:
        process.start()
        process.wire.serve("ticket.edit@1")
        yield process
        assert process.stop() == 0
        assert "Traceback" not in process.said()
    finally:
        process.remove()


def publish_keys(tree: PolicyTree, *algorithms: str) -> None:
    """Put the key set in place as an operator would: another file under the same name."""
    keys = [{**public_members(name), "kid": name, "alg": alg} for alg in algorithms for name in ("k1", "k2")]
    made = tree.folder / "keys" / "vectors.new"
    made.write_text(json.dumps({"keys": keys}))
    made.replace(tree.folder / "keys" / "vectors.json")


@pytest.mark.parametrize("case", VECTORS["tokens"], ids=lambda case: case["name"])
def test_a_subject_token_has_its_stated_outcome(
    served: BrokerProcess, case: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jwt_cases, "NOW", int(time.time()))
    algorithms = case.get("key_algorithms", ["RS256"])
    if algorithms != ["RS256"]:
        publish_keys(served.policies, *algorithms)
    try:
        answer = served.wire.exchange(client="vector-mcp", subject_token=make_token(case))
    finally:
        if algorithms != ["RS256"]:
            publish_keys(served.policies, "RS256")
    expect = ON_THE_WIRE.get(case["name"], case["expect"])
    if expect == "accept":
        assert answer.status_code == 200, answer.text
        return
    status, error, reason, where = refused(answer)
    assert (status, error, reason) == (400, "invalid_request", expect)
    assert (where or "").split("/")[0] == "subject_token"


def test_keys_behind_jku_and_x5u_are_never_fetched(served: BrokerProcess) -> None:
    assert "127.0.0.1:1/" not in served.said()
