"""Asking the other replicas over HTTP, all at once.

1. A replica is asked with a short statement signed by the shared signing key: who can sign it holds the broker's keys already.
2. What answers is believed over TLS, or on loopback; redirects are not followed, a body is read up to `MAX_BYTES`.
3. Each tells its name. What answers as this replica itself, or as one that has answered already, is no other replica.
4. A replica that does not answer in time, or whose answer is not understood, is away. There is no half of an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import httpx2

from broker.domain.addresses import base_url_problem, is_loopback
from broker.domain.audit.knowledge import read_knowledge
from broker.domain.audit.replay import Replayed
from broker.domain.canonical import JsonObject, parse_json_object
from broker.domain.errors import BrokerError, ConfigurationError
from broker.domain.revocation.feed import Point

ANSWER_SECONDS: Final = 5.0
RECORDED_SECONDS: Final = 0.7
MAX_BYTES: Final = 64 * 1024 * 1024


class HttpPeers:
    """`ports.peers.Peers`. urls: the replicas' addresses. own: this replica's name.

    statement: makes what a request is authenticated with.

    Raises `ConfigurationError` for an address that cannot be one.
    """

    def __init__(
        self, urls: Sequence[str], *, own: str, statement: Callable[[], str], answer_seconds: float = ANSWER_SECONDS
    ) -> None:
        self._own = own
        for url in urls:
            problem = base_url_problem(url)
            if problem is not None:
                raise ConfigurationError(f"--peer {url!r}: {problem}")
        self._urls = tuple(dict.fromkeys(urls))
        self._statement = statement
        self._answer_seconds = answer_seconds

    async def recorded(self, point: Point) -> Mapping[str, bool | str]:
        path = f"/replicas/recorded?gen={point.gen}&seq={point.seq}"
        answers = await self._ask_all(path, within_seconds=RECORDED_SECONDS)
        return {
            url: answer if isinstance(answer, str) else answer.get("recorded") is True
            for url, answer in answers.items()
        }

    async def knowledge(self) -> Mapping[str, Replayed | str]:
        answers = await self._ask_all("/replicas/knowledge", within_seconds=self._answer_seconds)
        return {url: answer if isinstance(answer, str) else _understood(answer) for url, answer in answers.items()}

    async def _ask_all(self, path: str, *, within_seconds: float) -> dict[str, JsonObject | str]:
        """Rule 3."""
        answers = await asyncio.gather(*(self._ask(url, path, within_seconds=within_seconds) for url in self._urls))
        found: dict[str, JsonObject | str] = {}
        names = {self._own: "this replica itself"}
        for url, answer in zip(self._urls, answers, strict=True):
            name = None if isinstance(answer, str) else answer.get("replica")
            if isinstance(answer, str) or not isinstance(name, str):
                found[url] = answer if isinstance(answer, str) else "its answer has no name"
            elif name in names:
                found[url] = f"it is {names[name]}, or has a copy of its data folder; name each of the others once"
            else:
                found[url], names[name] = answer, f"the one at {url}"
        return found

    async def _ask(self, url: str, path: str, *, within_seconds: float) -> JsonObject | str:
        """The answer's JSON, or why there is none."""
        try:
            headers = {"authorization": f"Bearer {self._statement()}"}
            async with (
                asyncio.timeout(within_seconds),
                httpx2.AsyncClient(trust_env=not is_loopback(url), timeout=within_seconds) as http,
                http.stream("GET", f"{url}{path}", headers=headers) as response,
            ):
                if response.status_code != 200:
                    return f"it answered HTTP {response.status_code}"
                body = bytearray()
                async for part in response.aiter_bytes():
                    body += part
                    if len(body) > MAX_BYTES:
                        return "its answer is too large"
            return parse_json_object(bytes(body))
        except TimeoutError:
            return f"it did not answer within {within_seconds:g} s"
        except httpx2.HTTPError as error:
            return f"it cannot be reached, {type(error).__name__}"
        except BrokerError as error:
            return str(error)
        except ValueError:
            return "its answer is not understood"


def _understood(answer: JsonObject) -> Replayed | str:
    try:
        return read_knowledge(answer)
    except ValueError as error:
        return f"its answer is not understood: {error}"
