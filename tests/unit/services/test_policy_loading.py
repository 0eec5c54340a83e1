"""Loading and publishing in a composed broker: what two replicas hold, what runs aside, what takes too long."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from broker.domain.audit.records import PolicyNarrowed
from broker.domain.errors import Reason, Refusal
from broker.domain.ids import Version
from broker.domain.policy.judgement import PolicyRefusedError
from broker.domain.schema.answers import No, Related, Unknown
from broker.services.aside import Aside
from broker.services.patience import Patience
from broker.services.published_policy import out_of_service, published_policy

from broker_parts import detail, exchange_form
from composed_broker import CLIENT, TOOL, composed


def asked() -> dict[str, str]:
    said = detail("db.query", version="3", task="report", arguments={"query": "select 1"})
    return exchange_form(authorization_details=said)


def shrink(folder: Path) -> None:
    file = folder / "policies" / "db.query.yaml"
    file.write_text(file.read_text().replace("ttl: 60s", "ttl: 20s"))


async def test_a_replica_that_has_the_wider_files_refuses_what_another_one_narrowed(tmp_path: Path) -> None:
    async with composed(tmp_path) as (parts, _):
        wide = parts.policy.tree()
        shrink(tmp_path)
        loaded = await parts.policies.reload(by="operator")
        assert set(loaded.narrowed) == {"db.query@3", "db.query@4"}
        assert not isinstance(await parts.use_cases.exchange.exchange(CLIENT, asked(), request_id="a"), Refusal)

        parts.policy.adopt(wide)  # as another replica still has it

        refused = await parts.use_cases.exchange.exchange(CLIENT, asked(), request_id="b")
        assert isinstance(refused, Refusal)
        assert refused.reason is Reason.POLICY_MISMATCH
        assert set(out_of_service(wide, parts.cache.view)) == {"db.query@3", "db.query@4"}
        assert (await parts.policies.reload(by="operator")).edited == ()
        assert not isinstance(await parts.use_cases.exchange.exchange(CLIENT, asked(), request_id="c"), Refusal)


async def test_all_that_one_load_takes_away_is_one_step_of_the_store(tmp_path: Path) -> None:
    async with composed(tmp_path) as (parts, _):
        seq = parts.cache.view.seq
        shrink(tmp_path)
        await parts.policies.reload(by="operator")
        assert parts.cache.view.seq == seq + 1
        records = [record for _, record in parts.audit.records() if record["type"] == PolicyNarrowed.type]
        assert [sorted(after["version"] for after in record["records"]) for record in records] == [["3", "4"]]


async def test_what_is_published_is_told_from_the_store_even_where_the_files_are_narrower(tmp_path: Path) -> None:
    async with composed(tmp_path) as (parts, _):
        before = parts.policy.tree()
        shrink(tmp_path)
        read = parts.policy.read()
        told = published_policy(parts.cache.view, read, None)
        assert told.unread == frozenset()
        for number in ("3", "4"):
            known, was = told.version(TOOL, Version(number)), before.version(TOOL, Version(number))
            assert known is not None
            assert was is not None
            assert known.tasks["report"].ttl_seconds == was.tasks["report"].ttl_seconds == 60
            assert known.digest == was.digest


async def test_a_version_whose_published_text_is_nowhere_is_unread_and_its_edit_refused(tmp_path: Path) -> None:
    async with composed(tmp_path) as (parts, _):
        view = parts.cache.view
        written = (tmp_path / "policies" / "db.query.yaml").read_text()
        (tmp_path / "policies" / "db.query.yaml").write_text(written.replace("db:read", "db:look"))
        tests = tmp_path / "policies" / "tests" / "db.query.yaml"
        tests.write_text(tests.read_text().replace("db:read", "db:look"))
        told = published_policy(view, parts.policy.read(), None)
        assert told.unread == {"db.query@3", "db.query@4"}
        assert told.version(TOOL, Version("3")) is None
        with pytest.raises(PolicyRefusedError, match=r"version\.edited"):
            await parts.policies.reload(by="operator")


async def test_work_aside_is_done_one_after_the_other_and_its_errors_come_back() -> None:
    aside, running, seen = Aside(), threading.Lock(), []

    def work() -> str:
        assert running.acquire(blocking=False), "two at a time"
        seen.append(threading.current_thread().name)
        running.release()
        return "done"

    assert await asyncio.gather(*(aside.run(work) for _ in range(8))) == ["done"] * 8
    assert set(seen) == {"aside"}
    with pytest.raises(ZeroDivisionError):
        await aside.run(lambda: 1 // 0)


async def test_a_wait_that_is_broken_off_leaves_the_next_one_its_turn() -> None:
    aside, may_end = Aside(), threading.Event()
    first = asyncio.ensure_future(aside.run(may_end.wait))
    await asyncio.sleep(0)
    first.cancel()
    may_end.set()
    assert await aside.run(lambda: "next") == "next"


class Proves:
    """Arithmetic that always knows."""

    def relate(self, old: object, new: object) -> Related:
        return Related(No("same"), No("same"))

    def common(self, schemas: object) -> No:
        return No("nothing")

    def accepts(self, schema: object, value: object) -> bool:
        return True


def test_patience_passes_questions_on_until_it_is_over() -> None:
    assert Patience(Proves(), seconds=60).relate({}, {}) == Related(No("same"), No("same"))
    over = Patience(Proves(), seconds=-1)
    assert isinstance(over.common([{}]), Unknown)
    assert isinstance(over.relate({}, {}).lost, Unknown)
    assert over.accepts({}, {})
