"""`broker policy init` on real running MCP servers: contracts as the gate compares them, and a bound on what a server can do."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from broker.adapters.mcpclient import listing
from broker.adapters.policyfile.folder import load_tree
from broker.cli.policy_init import policy_init
from broker.domain.errors import ConfigurationError
from broker.gate.served import digest_as_listed, list_plainly
from click.testing import CliRunner
from listing_servers import COUNT, fastmcp_server

SERVERS = str(Path(__file__).with_name("listing_servers.py"))
TOKEN = "a-token-that-nobody-else-may-see"


def init(*arguments: str | Path):
    return CliRunner().invoke(policy_init, [str(one) for one in arguments])


def over_stdio(kind: str, folder: Path):
    return init("--out", folder, "--stdio", "--", sys.executable, SERVERS, kind)


@contextmanager
def serving(kind: str) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    process = subprocess.Popen(
        [sys.executable, SERVERS, kind, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 30
        while True:
            assert process.poll() is None, "the server has ended"
            assert time.monotonic() < deadline, "the server does not listen"
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait(10)


def digests(folder: Path) -> dict[str, str]:
    tree = load_tree(folder, with_keys=False)
    return {
        f"{tool.tool}@{number}": version.contract.digest
        for tool in tree.policy.tools.values()
        for number, version in tool.versions.items()
    }


def test_the_contracts_are_those_that_the_gate_compares(tmp_path):
    listed = asyncio.run(list_plainly(fastmcp_server()))
    expected = {f"{one.name}@{one.version or '1'}": digest_as_listed(one) for one in listed}
    assert sorted(expected) == ["files.read@1", "parts.write@2.0"]
    assert over_stdio("fastmcp", tmp_path / "a").exit_code == 0
    assert digests(tmp_path / "a") == expected


def test_a_server_over_http_gives_the_same_as_over_stdio(tmp_path):
    for kind in ("fastmcp", "official"):
        assert over_stdio(kind, tmp_path / kind / "a").exit_code == 0
        with serving(kind) as url:
            result = init("--out", tmp_path / kind / "b", "--from", url)
        assert result.exit_code == 0, result.output
        assert digests(tmp_path / kind / "a") == digests(tmp_path / kind / "b")
        assert f"resource: {url}" in (tmp_path / kind / "b" / "trust.yaml").read_text()


def test_every_page_is_fetched(tmp_path):
    assert over_stdio("pages", tmp_path / "a").exit_code == 0
    assert sorted(digests(tmp_path / "a")) == [f"page.{n}@1" for n in range(COUNT)]
    with serving("pages") as url:
        assert init("--out", tmp_path / "b", "--from", url).exit_code == 0
    assert digests(tmp_path / "a") == digests(tmp_path / "b")


def test_pages_that_go_round_are_an_error_and_nothing_is_written(tmp_path):
    result = over_stdio("circle", tmp_path / "a")
    assert result.exit_code == 3
    assert "the same cursor again and again" in result.output
    assert not (tmp_path / "a").exists()


def test_a_server_of_the_old_protocol_is_listed_and_its_nulls_are_absent(tmp_path):
    result = over_stdio("old", tmp_path / "a")
    assert result.exit_code == 0, result.output
    contract = json.loads((tmp_path / "a/contracts/old.tool/1.json").read_text())
    assert contract == {
        "name": "old.tool",
        "inputSchema": {"type": "object", "properties": {"query": {"type": "string", "default": None}}},
    }


def test_a_second_time_there_is_nothing_to_do(tmp_path):
    assert over_stdio("official", tmp_path / "a").exit_code == 0
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "a").rglob("*.*")}
    result = over_stdio("official", tmp_path / "a")
    assert result.exit_code == 0
    assert "host.look_up: its file has this contract already" in result.output
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "a").rglob("*.*")} == before


@contextmanager
def answering(answer) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """A web server that is no MCP server: `answer(handler)`; the headers it was asked with."""
    seen: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append({name.lower(): value for name, value in self.headers.items()})
            self.rfile.read(int(self.headers.get("content-length", 0)))
            answer(self)

        do_GET = do_POST  # noqa: N815  # the name is http.server's

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp", seen
    finally:
        server.shutdown()
        server.server_close()


def refuse(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(401)
    handler.end_headers()


def test_a_token_is_sent_and_is_in_no_message(tmp_path):
    (tmp_path / "token").write_text(TOKEN + "\n")
    with answering(refuse) as (url, seen):
        result = init("--out", tmp_path / "a", "--from", url, "--token-file", tmp_path / "token")
    assert result.exit_code == 3
    assert {one["authorization"] for one in seen} == {f"Bearer {TOKEN}"}
    assert TOKEN not in result.output


def test_a_token_follows_no_redirect(tmp_path):
    (tmp_path / "token").write_text(TOKEN)
    with answering(refuse) as (elsewhere, stolen):

        def redirect(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(307)
            handler.send_header("location", elsewhere)
            handler.end_headers()

        with answering(redirect) as (url, _):
            assert init("--out", tmp_path / "a", "--from", url, "--token-file", tmp_path / "token").exit_code == 3
    assert stolen == []


def test_a_token_does_not_go_over_plain_http(tmp_path):
    (tmp_path / "token").write_text(TOKEN)
    result = init("--out", tmp_path / "a", "--from", "http://tools.example/mcp", "--token-file", tmp_path / "token")
    assert result.exit_code == 3
    assert "https only" in result.output


def endless(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("content-type", "application/json")
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(b" " * 65_536)
    except OSError:
        return


def test_an_endless_answer_ends(monkeypatch):
    monkeypatch.setattr(listing, "MAX_BYTES", 1_000_000)
    started = time.monotonic()
    with answering(endless) as (url, _), pytest.raises(ConfigurationError):
        listing.list_over_http(url, deadline_seconds=20)
    assert time.monotonic() - started < 15


def test_a_server_that_never_answers_ends_at_the_deadline():
    waiting = threading.Event()
    with answering(lambda _: waiting.wait(30)) as (url, _):
        started = time.monotonic()
        with pytest.raises(ConfigurationError, match="no complete answer within 1 seconds"):
            listing.list_over_http(url, deadline_seconds=1)
        assert time.monotonic() - started < 10
        waiting.set()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["/nowhere/at/all"], "No such file"),
        ([sys.executable, "-c", "print('no protocol')"], "Connection closed"),
    ],
)
def test_a_command_that_is_no_server_is_an_error(command, said):
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        listing.list_over_stdio(command, deadline_seconds=10)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--stdio"],
        ["--from", "x.json", "--stdio", "--", "server"],
        ["--from", "x.json", "--audience", "not a uri"],
    ],
)
def test_what_was_not_meant_is_a_usage_error(tmp_path, arguments):
    assert init("--out", tmp_path / "a", *arguments).exit_code == 2


def test_a_saved_list_is_read_from_a_file_and_twice_named_members_are_refused(tmp_path):
    tool = '{"name": "a", "inputSchema": {"type": "object"}}'
    (tmp_path / "good.json").write_text(f'{{"tools": [{tool}]}}')
    (tmp_path / "twice.json").write_text(f'{{"tools": [], "tools": [{tool}]}}')
    assert init("--out", tmp_path / "a", "--from", tmp_path / "good.json").exit_code == 0
    result = init("--out", tmp_path / "b", "--from", tmp_path / "twice.json")
    assert (result.exit_code, "twice" in result.output) == (3, True)
    assert init("--out", tmp_path / "c", "--from", tmp_path / "nowhere.json").exit_code == 3
