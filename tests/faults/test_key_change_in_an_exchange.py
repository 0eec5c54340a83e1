"""Another key takes over in the middle of an exchange: record, signature and what is remembered name one key all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jwt
import pytest
from broker.app.compose import Parts
from broker.domain.audit.records import Minted
from broker.domain.errors import SigningUnavailableError
from broker.domain.revocation.scopes import key_scope
from broker.services.exchange import Granted

from broker_parts import detail, exchange_form
from composed_broker import CLIENT, STABLE, TOOL, composed

ASKED = detail(TOOL, version=STABLE, task="report", arguments={"query": "select 1"})


def on_record(parts: Parts, change: Any) -> None:
    """Have the keys change once the mint is on record and before it is signed."""
    append = parts.recorder.append

    async def then_change(record: Any) -> None:
        await append(record)
        if isinstance(record, Minted):
            change(record.kid)

    parts.recorder.append = then_change  # type: ignore[method-assign]


async def exchange(parts: Parts) -> Any:
    form = exchange_form(authorization_details=ASKED)
    return await parts.use_cases.exchange.exchange(CLIENT, form, request_id=parts.entropy.token())


async def is_active(parts: Parts, token: str) -> bool:
    answer: Any = await parts.use_cases.introspection.introspect(CLIENT, {"token": token})
    return bool(answer["active"])


async def test_what_was_recorded_for_a_key_is_signed_by_it_though_another_took_over(tmp_path: Path) -> None:
    async with composed(tmp_path) as (parts, _):
        on_record(parts, lambda _: parts.keys.rotate())
        granted = await exchange(parts)
        assert isinstance(granted, Granted)
        kid = jwt.get_unverified_header(granted.access_token)["kid"]
        assert kid != parts.keys.kid
        assert [record["kid"] for _, record in parts.audit.records() if record["type"] == "mint"] == [kid]
        assert await is_active(parts, granted.access_token)
        versions = parts.use_cases.versions
        await versions.revoke((key_scope(kid),), by="operator", reason="a test", request_id=parts.entropy.token())
        assert not await is_active(parts, granted.access_token)


async def test_what_was_recorded_for_a_key_that_was_revoked_is_not_signed_at_all(tmp_path: Path) -> None:
    async with composed(tmp_path) as (parts, _):
        on_record(parts, parts.keys.retire)
        with pytest.raises(SigningUnavailableError):
            await exchange(parts)
