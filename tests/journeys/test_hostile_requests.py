"""What a stranger, a careless gate and a careless operator send to a running broker."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_parts import (
    JWT_BEARER,
    BrokerProcess,
    assertion,
    basic,
    detail,
    exchange_form,
    read_log,
    refused,
    sign,
    subject_token,
)

REPLAYED = (401, "invalid_client", "client_assertion_replayed", "client_assertion")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path_factory.mktemp("hostile"))
    try:
        process.start()
        process.wire.serve("ticket.edit@1")
        yield process
        assert process.stop() == 0
        assert "Traceback" not in process.said()
    finally:
        process.remove()


def ask(broker: BrokerProcess, path: str, made: str, form: dict[str, str]) -> Any:
    proof = {"client_assertion_type": JWT_BEARER, "client_assertion": made}
    return broker.wire.http.post(path, data={**form, **proof})


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("/token", exchange_form(authorization_details=detail(task="nothing"))),
        ("/token", exchange_form(subject_token="no token")),
        ("/token", exchange_form(grant_type="password")),
        ("/introspect", {}),
        ("/introspect", {"token": "x", "use": "not one word"}),
        ("/revoke", {}),
    ],
)
def test_an_assertion_whose_request_was_refused_is_used_up(
    broker: BrokerProcess, path: str, form: dict[str, str]
) -> None:
    made = assertion("key-mcp", broker.url)
    assert ask(broker, path, made, form).status_code == 400
    assert refused(ask(broker, "/token", made, exchange_form())) == REPLAYED


def test_a_refused_exchange_that_is_replayed_is_on_record_as_a_replay(broker: BrokerProcess) -> None:
    made, txn = assertion("key-mcp", broker.url), "replayed-after-refusal"
    form = exchange_form(authorization_details=detail(task="nothing", txn=txn))
    assert ask(broker, "/token", made, form).status_code == 400
    assert refused(ask(broker, "/token", made, form)) == REPLAYED
    reasons = [record["reason"] for record in read_log(broker) if record.get("txn") == txn]
    assert reasons == ["task_unknown", "client_assertion_replayed"]


def test_who_is_registered_cannot_be_told_from_what_an_unsigned_for_assertion_is_answered(
    broker: BrokerProcess,
) -> None:
    """Known with keys; known with a secret; an administrator; nobody. With a key id of its own, and one that is known."""
    told = set()
    for name in ("key-mcp", "svc", "operator", "nobody"):
        for kid in ("key-mcp", "unknown"):
            now = int(time.time())
            claims = {"iss": name, "sub": name, "aud": broker.url, "iat": now, "exp": now + 60, "jti": f"{name}{kid}"}
            answer = ask(broker, "/token", sign(claims, "idp", kid=kid), exchange_form())
            told.add((answer.status_code, answer.json()["reason"], answer.json()["error_description"]))
    assert len(told) == 1


def report(broker: BrokerProcess, record: str) -> Any:
    headers = {"authorization": basic("svc"), "content-type": "application/json"}
    return broker.wire.http.post("/calls", content='{"records":[' + record + "]}", headers=headers)


@pytest.mark.parametrize(
    "record",
    [
        r'{"event":"deny","tool":"ticket.edit","reason":"\ud800"}',
        r'{"event":"deny","tool":"ticket.edit","agent":"a\u001b[2J"}',
        r'{"event":"deny","tool":"ticket.edit","account":"a\nb"}',
        '{"event":"end","tool":"ticket.edit","status":"ok","duration_us":' + "9" * 60 + "}",
    ],
)
def test_a_reported_record_that_could_not_be_shown_is_refused(broker: BrokerProcess, record: str) -> None:
    assert report(broker, record).status_code == 400


def test_records_are_shown_whatever_an_issuer_put_into_a_claim(broker: BrokerProcess) -> None:
    token = subject_token(groups=["\ud800"])
    form = exchange_form(subject_token=token, authorization_details=detail(task="peek", txn="odd-claim"))
    assert broker.wire.post("/token", form, "svc").json()["reason"] == "task_not_allowed"
    answer = broker.wire.admin("GET", "/records?limit=1000")
    assert answer.status_code == 200
    assert "odd-claim" in {record.get("txn") for record in answer.json()["records"]}


def test_a_name_as_long_as_a_request_is_refused_and_on_record_like_any_other(broker: BrokerProcess) -> None:
    named = detail(arguments={"k" * 60_000: 1}, txn="long-name")
    form = exchange_form(authorization_details=named)
    assert broker.wire.post("/token", form, "svc").json()["reason"] == "arguments_invalid"
    assert [record["reason"] for record in read_log(broker) if record.get("txn") == "long-name"] == [
        "arguments_invalid"
    ]


def resident_bytes(broker: BrokerProcess) -> int:
    return int(Path(f"/proc/{broker.pid}/statm").read_text().split()[1]) * 4_096


@pytest.mark.parametrize("path", ["/admin/revocations", "/admin/versions/a/1/retire", "/calls", "/healthz", "/token"])
def test_a_huge_body_is_refused_before_it_is_kept(broker: BrokerProcess, path: str) -> None:
    """Its sender need not be known for that. What is kept of it would still be there with the answer."""
    before = resident_bytes(broker)
    with socket.create_connection(("127.0.0.1", broker.port), timeout=10) as peer:
        kind = b"application/x-www-form-urlencoded" if path == "/token" else b"application/json"
        size = 64_000_000
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n".encode()
        peer.sendall(head + b"Content-Type: " + kind + b"\r\n\r\n")
        try:
            for _ in range(size // 1_000_000):
                peer.sendall(b" " * 1_000_000)
        except OSError:
            pass  # the broker has hung up
        try:
            answer = peer.recv(65_536)
        except ConnectionResetError:
            answer = b""
    assert not answer or answer.startswith(b"HTTP/1.1 413 "), answer
    assert resident_bytes(broker) - before < 16_000_000


@pytest.mark.parametrize("path", ["/admin/revocations", "/calls", "/token"])
def test_a_body_that_does_not_come_is_not_waited_for(broker: BrokerProcess, path: str) -> None:
    with socket.create_connection(("127.0.0.1", broker.port), timeout=10) as peer:
        kind = b"application/x-www-form-urlencoded" if path == "/token" else b"application/json"
        peer.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n".encode())
        peer.sendall(b"Content-Type: " + kind + b"\r\n\r\n{")
        assert peer.recv(65_536).startswith(b"HTTP/1.1 503 ")


@pytest.mark.parametrize("body", [b"[" * 100_000, b"9" * 5_000, b'"\xff"', b'{"weight_percent":' + b"9" * 5_000 + b"}"])
def test_what_is_no_json_is_said_to_administrators_only(broker: BrokerProcess, body: bytes) -> None:
    path, kind = "/admin/versions/ticket.edit/1/canary", {"content-type": "application/json"}
    proof = {"authorization": f"Bearer {assertion('operator', broker.url)}"}
    known = broker.wire.http.post(path, content=body, headers=kind | proof)
    assert (known.status_code, known.json()["error"]) == (400, "invalid_request")
    assert broker.wire.http.post(path, content=body, headers=kind).status_code == 401


@pytest.mark.parametrize("page", ["a" * 5_000, "%00", "..%2f..%2fpyproject", "__init__.py", "errors.md.md"])
def test_a_page_that_there_is_not_is_not_found(broker: BrokerProcess, page: str) -> None:
    assert broker.wire.http.get(f"/docs/{page}").status_code == 404


def test_a_reference_page_is_found_with_and_without_its_ending(broker: BrokerProcess) -> None:
    pages = [broker.wire.http.get(f"/docs/{name}") for name in ("errors", "errors.md")]
    assert [page.status_code for page in pages] == [200, 200]
    assert pages[0].text == pages[1].text
    assert pages[0].headers["content-type"] == "text/plain; charset=utf-8"


GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"


def hung_up(broker: BrokerProcess, first: bytes, more: bytes) -> float:
    """Send more and more until the broker hangs up; how long that took."""
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", broker.port), timeout=20) as peer:
        try:
            peer.sendall(first)
            while time.monotonic() - began < 20:
                peer.sendall(more)
        except OSError:
            return time.monotonic() - began
    raise AssertionError("the broker goes on listening")


@pytest.mark.parametrize(
    ("first", "more"),
    [
        (GET + b"X: ", b"a" * 100_000),
        (GET, b"X: a\r\n" * 10_000),
        (b"GET /", b"a" * 100_000),
        (b"POST /token HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ", b"a" * 100_000),
        (b"POST /token HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;x=", b"a" * 100_000),
    ],
    ids=["one header", "many headers", "address", "trailers", "chunk extension"],
)
def test_a_head_without_an_end_is_hung_up_on_while_it_is_small(
    broker: BrokerProcess, first: bytes, more: bytes
) -> None:
    before = resident_bytes(broker)
    assert hung_up(broker, first, more) < 2
    assert resident_bytes(broker) - before < 16_000_000


@pytest.mark.parametrize("first", [b"", GET, GET + b"\r\n" + GET], ids=["nothing", "half", "half of a second"])
def test_a_head_that_does_not_come_is_not_waited_for(broker: BrokerProcess, first: bytes) -> None:
    with socket.create_connection(("127.0.0.1", broker.port), timeout=10) as peer:
        peer.sendall(first)
        answer = b""
        try:
            while part := peer.recv(65_536):
                answer += part
        except ConnectionResetError:
            pass
        assert answer.count(b"HTTP/1.1 200") == first.count(b"\r\n\r\n")


def test_long_tokens_and_quick_successions_are_taken(broker: BrokerProcess) -> None:
    """What a proxy in front may add, and requests sent one after the other without waiting."""
    assert broker.wire.http.get("/healthz", headers={"x-long": "a" * 60_000}).status_code == 200
    body = b"token=" + b"a" * 100_000
    post = b"POST /introspect HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    post += b"Content-Length: %d\r\n\r\n" % len(body) + body
    with socket.create_connection(("127.0.0.1", broker.port), timeout=10) as peer:
        peer.sendall(post * 20)
        answer = b""
        while answer.count(b"HTTP/1.1 401") < 20:
            part = peer.recv(1_000_000)
            assert part, answer
            answer += part


def denied(broker: BrokerProcess, answer: Any) -> dict[str, Any]:
    """The one record of a refused request, without what every record has."""
    request_id = answer.json()["request_id"]
    (found,) = [record for record in read_log(broker) if record["id"] == request_id]
    assert (found["type"], found["decision"], found["reason"]) == ("request.deny", "refuse", answer.json()["reason"])
    return {name: found[name] for name in ("endpoint", "by", "tool", "version", "command")}


def test_a_command_that_an_administrator_may_not_give_is_on_record(broker: BrokerProcess) -> None:
    answer = broker.wire.admin("POST", "/versions/ticket.edit/1/retire", admin="rollout-bot", body={"emergency": "x"})
    assert answer.status_code == 403
    assert denied(broker, answer) == {
        "endpoint": "POST /admin/versions/{tool}/{version}/{command}",
        "by": "rollout-bot",
        "tool": "ticket.edit",
        "version": "1",
        "command": "retire",
    }


def test_a_command_of_nobody_is_on_record_without_a_word_of_the_senders(broker: BrokerProcess) -> None:
    answer = broker.wire.http.post("/admin/versions/kanarie%0a/1/kanarie", json={"kanarie": "kanarie"})
    assert answer.status_code == 401
    found = denied(broker, answer)
    assert (found["by"], found["tool"], found["command"]) == (None, None, None)
    assert "kanarie" not in json.dumps(read_log(broker))


def test_who_tries_to_revoke_anothers_credential_is_on_record(broker: BrokerProcess) -> None:
    token = broker.wire.mint()["access_token"]
    answer = broker.wire.revoke(token, client="poster")
    assert answer.json()["reason"] == "credential_foreign"
    assert denied(broker, answer)["endpoint"] == "POST /revoke"
    (found,) = [record for record in read_log(broker) if record["id"] == answer.json()["request_id"]]
    assert found["why"].startswith("poster asked for ")
    assert broker.wire.is_active(token)


@pytest.mark.parametrize("path", ["/introspect", "/revoke", "/calls", "/tools/ticket.edit", "/admin/records"])
def test_a_request_of_nobody_is_on_record(broker: BrokerProcess, path: str) -> None:
    get = path.startswith(("/tools", "/admin"))
    answer = broker.wire.http.get(path) if get else broker.wire.http.post(path, data={"token": "x"})
    assert answer.status_code == 401
    assert denied(broker, answer)["by"] is None
