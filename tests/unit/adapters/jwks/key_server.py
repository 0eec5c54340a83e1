"""An issuer's JWKS endpoint on a real socket, which answers as it is told and counts what it was asked."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Self

from broker.domain.canonical import JsonObject
from broker.engines.jwk import PrivateKey, generate_private_key, public_jwk

PRIVATE: dict[str, PrivateKey] = {name: generate_private_key("ES256") for name in ("k1", "k2")}


def jwks(*names: str) -> bytes:
    keys: list[JsonObject] = [{**public_jwk(PRIVATE[name], algorithm="ES256"), "kid": name} for name in names]
    return json.dumps({"keys": keys}).encode()


class KeyServer:
    """serve: `keys`, `body` or `bytes`; `status`; `encoding`; `hold`, an event that the answer waits for."""

    def __init__(self) -> None:
        self.serve: dict[str, Any] = {"keys": ["k1"]}
        self.requests = 0
        self.paths: list[str] = []
        self.sent_bytes = 0
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/jwks.json"

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.requests += 1
            self.paths.append(head.split(b" ")[1].decode())
            if "hold" in self.serve:
                await self.serve["hold"].wait()
            await self._send(writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _send(self, writer: asyncio.StreamWriter) -> None:
        serve = self.serve
        body = serve["body"].encode() if "body" in serve else jwks(*serve.get("keys", []))
        lines = [f"HTTP/1.1 {serve.get('status', 200)} X", "Connection: close", "Content-Type: application/json"]
        lines += [f"Content-Encoding: {serve['encoding']}"] if "encoding" in serve else []
        lines += ["Location: /elsewhere"] if serve.get("status") == 302 else []
        writer.write("\r\n".join([*lines, "", ""]).encode())
        if "bytes" not in serve:
            writer.write(body)
            return
        self.sent_bytes = 0
        while self.sent_bytes < serve["bytes"]:
            writer.write(b" " * 65_536)
            self.sent_bytes += 65_536
            await writer.drain()
