"""Whom to believe about where the primary is, and what an operator is told about replicas."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest
from broker.adapters.redis.advised import Advised, ClusterNodes, Sentinels
from broker.adapters.redis.connection import Address, dialer
from broker.adapters.redis.replies import RIGHTS
from broker.adapters.redis.suitability import replication_warnings
from broker.domain.errors import StoreUnavailableError, StoreUnsuitableError
from redis.asyncio.connection import AbstractConnection

from store_parts import free_ports, until

DEPLOY = Path(__file__).parents[4] / "deploy"


class Teller:
    """A server that gives the same answer to everything; None for one that never answers."""

    def __init__(self, answer: bytes | None) -> None:
        self.answer = answer
        self.asked = 0
        self.at: Address = ("127.0.0.1", 0)
        self.serving: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.serving.add(task)
        with suppress(OSError):
            while await reader.read(4096):
                self.asked += 1
                if self.answer is not None:
                    writer.write(self.answer)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def names(host: str, port: int) -> bytes:
    return b"*2\r\n$%d\r\n%b\r\n$%d\r\n%d\r\n" % (len(host), host.encode(), len(str(port)), port)


PRIMARY, REPLICA, NOBODY = b"*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n", b"*1\r\n$5\r\nslave\r\n", b"*-1\r\n"
GONE: Address = ("127.0.0.1", 1)


@asynccontextmanager
async def tellers(*answers: bytes | None) -> AsyncIterator[list[Teller]]:
    async with AsyncExitStack() as stack:
        found = []
        for answer in answers:
            teller = Teller(answer)
            server = await stack.enter_async_context(await asyncio.start_server(teller.serve, "127.0.0.1", 0))
            teller.at = server.sockets[0].getsockname()[:2]
            found.append(teller)
        yield found
        serving = set().union(*(teller.serving for teller in found))
        if serving:
            await asyncio.wait(serving)


def advised(sentinels: Sequence[Address]) -> Advised:
    dial = dialer({}, connect_seconds=1.0, protocol=2)
    return Advised(Sentinels(sentinels, "brokers"), dial=dial, dial_adviser=dial, connect_seconds=1.0)


def leads_to(connection: AbstractConnection) -> Address:
    return connection.host, connection.port  # type: ignore[attr-defined]


async def found(*answers: bytes | None) -> Address:
    async with tellers(*answers) as sentinels:
        connection = await advised([sentinel.at for sentinel in sentinels]).open()
        await connection.disconnect(nowait=True)
        return leads_to(connection)


async def test_the_address_that_most_name_is_taken() -> None:
    async with tellers(PRIMARY, PRIMARY) as (old, new):
        assert await found(names(*old.at), names(*new.at), names(*new.at)) == new.at
        assert await found(names(*old.at), names(*new.at), names(*old.at)) == old.at


async def test_an_address_that_most_name_and_where_nobody_is_gives_way_to_another() -> None:
    async with tellers(PRIMARY, REPLICA) as (new, demoted):
        assert await found(names(*GONE), names(*GONE), names(*new.at)) == new.at
        assert await found(names(*demoted.at), names(*demoted.at), names(*new.at)) == new.at


async def test_who_does_not_answer_holds_nobody_up_for_long() -> None:
    async with tellers(PRIMARY) as (primary,):
        began = time.monotonic()
        assert await found(None, names(*primary.at), names(*primary.at)) == primary.at
        assert time.monotonic() - began < 0.3
        assert await found(None, None, names(*primary.at)) == primary.at
        assert time.monotonic() - began < 1.5


async def test_a_server_that_hangs_in_place_of_the_primary_is_unavailable_in_time() -> None:
    async with tellers(None) as (frozen,):
        began = time.monotonic()
        with pytest.raises(StoreUnavailableError, match="does not answer"):
            await found(names(*frozen.at), names(*frozen.at))
        assert time.monotonic() - began < 1.0


async def test_a_replica_that_all_name_is_not_taken_for_the_primary() -> None:
    async with tellers(REPLICA) as (replica,):
        with pytest.raises(StoreUnavailableError, match="is none"):
            await found(names(*replica.at), names(*replica.at))


async def test_a_name_that_nobody_knows_is_an_operators_mistake() -> None:
    with pytest.raises(StoreUnsuitableError, match="no primary named brokers"):
        await found(NOBODY, NOBODY)


async def test_a_primary_that_more_than_half_name_takes_the_place_of_the_present_one() -> None:
    async with tellers(PRIMARY, PRIMARY) as (old, new), tellers(*[names(*old.at)] * 3) as sentinels:
        topology = advised([sentinel.at for sentinel in sentinels])
        connection = await topology.open()
        assert leads_to(connection) == old.at
        sentinels[0].answer = names(*new.at)
        topology.look(soon=True)
        await until(lambda: topology._looking is not None and topology._looking.done())
        assert topology.is_present(connection)  # one of three
        sentinels[1].answer = names(*GONE)
        sentinels[2].answer = names(*GONE)
        topology._looked_at = 0.0
        topology.look(soon=True)
        await until(lambda: topology._looking is not None and topology._looking.done())
        assert topology.is_present(connection)  # more than half, but there is nobody
        sentinels[1].answer = names(*new.at)
        topology._looked_at = 0.0
        topology.look(soon=True)
        await until(lambda: not topology.is_present(connection))
        await connection.disconnect(nowait=True)
        other = await topology.open()
        assert leads_to(other) == new.at
        assert topology.is_present(other)
        await other.disconnect(nowait=True)


def slots(*entries: tuple[int, int, list[list[object]]]) -> list[object]:
    return [[first, last, *nodes] for first, last, nodes in entries]


def test_the_node_of_the_slot_is_read_from_what_a_cluster_says_and_others_are_heard_of() -> None:
    nodes = ClusterNodes([("seed", 1)], slot=700)
    assert nodes.known == (("seed", 1),)
    answer = slots(
        (0, 500, [[b"a", 1, b"id", []], [b"d", 4, b"id", []]]),
        (501, 1000, [[b"b", 2, b"id", []], [b"e", 5, b"id", []]]),
    )
    assert nodes.read(answer, ("seed", 1)) == ("b", 2)
    assert nodes.known == (("a", 1), ("b", 2), ("d", 4), ("e", 5))
    nodes.silence()
    assert nodes.known == (("seed", 1),)


@pytest.mark.parametrize("unnamed", [None, b"", b"?"])
def test_a_node_that_does_not_know_its_own_name_is_where_it_was_asked(unnamed: bytes | None) -> None:
    nodes = ClusterNodes([("seed", 1)], slot=0)
    assert nodes.read(slots((0, 16383, [[unnamed, 7, b"id", []]])), ("seed", 1)) == ("seed", 7)


def test_a_slot_that_nobody_holds_is_named_by_nobody() -> None:
    nodes = ClusterNodes([("seed", 1)], slot=9000)
    assert nodes.read(slots((0, 500, [[b"a", 1, b"id", []]])), ("seed", 1)) is None
    assert isinstance(nodes.nobody(), StoreUnavailableError)


def test_of_a_large_cluster_a_few_nodes_are_asked() -> None:
    nodes = ClusterNodes([("seed", 1)], slot=0)
    nodes.read(slots(*((at, at, [[b"n%d" % at, 1, b"id", []]]) for at in range(100))), ("seed", 1))
    assert len(nodes.known) == ClusterNodes.MOST


@pytest.mark.parametrize(
    ("info", "required", "can_move", "says"),
    [
        ({"connected_slaves": "0"}, 0, False, None),
        ({"connected_slaves": "2"}, 1, True, None),
        ({"connected_slaves": "2"}, 0, False, "none is waited for"),
        ({"connected_slaves": "0"}, 1, True, "nothing is minted before there are so many"),
        ({"connected_slaves": "3"}, 1, True, "at least half of them"),
        ({"connected_slaves": "2", "min_slaves_good_slaves": "2"}, 1, True, "set it to 0"),
        ({"cluster_enabled": "1"}, 0, False, "name the cluster by cluster://"),
        ({"cluster_enabled": "1"}, 0, True, None),
    ],
)
def test_what_replicas_promise_is_said(info: dict[str, str], required: int, can_move: bool, says: str | None) -> None:
    found = replication_warnings(info, required=required, can_move=can_move)
    assert [says in said for said in found if says] == ([True] if says else [])
    assert len(found) == (1 if says else 0)


def test_the_shipped_user_has_exactly_the_rights_that_the_broker_asks_for() -> None:
    lines = [line.split() for line in (DEPLOY / "store.acl").read_text().splitlines()]
    (rights,) = [line[4:] for line in lines if line[1] == "broker"]
    assert sorted(rights) == sorted(RIGHTS.split())


def test_ports_for_tests_are_free_and_apart() -> None:
    assert len(set(free_ports(6))) == 6
