"""Resource indicators (RFC 8707 §2) and `audience` (RFC 8693 §2.1): the credential's `aud` is the registered spelling."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest
from wire_vectors import VECTORS, as_refused, names

from broker_parts import Wire, basic, detail, exchange_form, unverified_claims


@pytest.mark.parametrize("case", VECTORS["target"], ids=names)
def test_a_target_is_read_as_the_vector_says(wire: Wire, case: dict[str, Any]) -> None:
    asked = dict(case["value"])
    tool = asked.pop("tool", "ticket.edit")
    task = "edit" if tool == "ticket.edit" else "read"
    form = {**exchange_form(authorization_details=detail(tool, task=task)), **asked}
    headers = {"authorization": basic("svc"), "content-type": "application/x-www-form-urlencoded"}
    answer = wire.http.post("/token", content=urlencode(form, doseq=True), headers=headers)
    if isinstance(case["expect"], str):
        assert answer.status_code == 200, answer.text
        assert unverified_claims(answer.json()["access_token"])["aud"] == case["expect"]
    else:
        assert as_refused(answer) == case["expect"]
