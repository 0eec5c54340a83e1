"""The admin API: the life of versions, revocations, policy, records. Its own authentication, never open.

Every request carries `Authorization`: Basic, or a signed assertion as Bearer (`aud` the issuer, `iss` and `sub` the
administrator, used once). `trust.yaml` says what each administrator may do.
"""

from __future__ import annotations

import asyncio
import datetime
from itertools import islice
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from broker.domain.errors import Reason, Refusal
from broker.domain.ids import ToolName, Version, parse_tool_name, parse_version
from broker.domain.lifecycle.rollout import (
    Canary,
    Deprecate,
    Promote,
    Retire,
    Rollback,
    VersionCommand,
)
from broker.domain.lifecycle.states import Cohort, VersionRecord, record_json
from broker.domain.policy.judgement import PolicyRefusedError
from broker.domain.policy.located import PolicyInvalidError
from broker.domain.policy.report_wire import report_json
from broker.domain.revocation.request import parse_revocation_scope
from broker.domain.revocation.scopes import version_scope
from broker.http.admitted import admitted, answer_json
from broker.http.context import Refused, UseCases, request_id_of, settled
from broker.http.receipts import Wait, answer_revoking, show_moved
from broker.services.policies import policy_refusal

router = APIRouter(
    prefix="/admin",
    tags=["admin"],
    responses={
        400: {"description": "The command is malformed"},
        401: {"description": "The administrator did not authenticate"},
        403: {"description": "The administrator may not do this"},
        404: {"description": "Not in the loaded policy"},
        409: {"description": "The version's state does not allow it"},
        503: {"description": "Store or audit log away, or effective and not recorded"},
    },
)

CommandName = Literal["publish", "canary", "promote", "rollback", "deprecate", "retire"]
ON_ONE_LINE = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$"  # it is shown in terminals, tables and logs
Text = Annotated[str, Field(min_length=1, max_length=500, pattern=ON_ONE_LINE)]
Principal = Annotated[str, Field(min_length=1, max_length=255, pattern=ON_ONE_LINE)]
Tool = Annotated[str, Path(max_length=200)]


class CommandBody(BaseModel):
    """What a command takes beside the version; members of other commands are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)

    principals: list[Principal] = Field(default_factory=list, max_length=1000)
    weight_percent: float = Field(default=0, ge=0, le=100)
    force: bool = False
    sunset: Annotated[str, Field(max_length=40)] | None = None
    advisory: Annotated[str, Field(min_length=1, max_length=64, pattern=ON_ONE_LINE)] | None = None
    emergency: Text | None = None


_TAKES: dict[str, set[str]] = {
    "publish": set(),
    "canary": {"principals", "weight_percent"},
    "promote": set(),
    "rollback": {"force"},
    "deprecate": {"sunset", "advisory"},
    "retire": {"emergency"},
}
_REVOKES = {"rollback", "retire"}


class RevocationBody(BaseModel):
    """A revocation scope, as `domain/revocation/request.py` names them, and why."""

    model_config = ConfigDict(extra="forbid", strict=True)

    kind: Annotated[str, Field(max_length=32)]
    names: dict[Annotated[str, Field(max_length=32)], Annotated[str, Field(max_length=512)]] = Field(
        default_factory=dict, max_length=4
    )
    reason: Text


def _names(tool: str, version: str) -> tuple[ToolName, Version]:
    found_tool, found_version = parse_tool_name(tool), parse_version(version)
    if found_tool is None:
        raise Refused(Refusal(Reason.COMMAND_MALFORMED, "a tool name was expected", where="tool"))
    if found_version is None:
        raise Refused(Refusal(Reason.COMMAND_MALFORMED, "a version was expected", where="version"))
    return found_tool, found_version


@router.get("/versions", summary="All versions")
async def list_versions(request: Request, tool: Annotated[str | None, Query(max_length=200)] = None) -> Response:
    use_cases, _ = await admitted(request, "read")
    view = await use_cases.versions.view()
    records = sorted(view.versions.values(), key=lambda record: (record.tool, record.since, record.version))
    shown: list[VersionRecord] = [record for record in records if tool in (None, record.tool)]
    return answer_json({"gen": view.gen, "seq": view.seq, "versions": [record_json(record) for record in shown]})


@router.get("/versions/{tool}/{version}", summary="One version, with its contract")
async def show_version(request: Request, tool: Tool, version: Tool) -> Response:
    use_cases, _ = await admitted(request, "read")
    name, number = _names(tool, version)
    record = (await use_cases.versions.view()).get(name, number)
    if record is None:
        said = f"{name}@{number} was never published; `broker version publish` does it"
        raise Refused(Refusal(Reason.VERSION_NOT_PUBLISHED, said, where="version"))
    members, loaded = use_cases.versions.contract_members(record), use_cases.versions.is_loaded(record)
    return answer_json({**record_json(record), "members": members, "loaded": loaded})


@router.post("/versions/{tool}/{version}/{command}", summary="Move a version through its life")
async def run_command(
    request: Request,
    tool: Tool,
    version: Tool,
    command: CommandName,
    body: CommandBody | None = None,
    *,
    wait: Wait = False,
) -> Response:
    use_cases, admin = await admitted(request, command)
    name, number = _names(tool, version)
    given = body or CommandBody()
    foreign = sorted(given.model_fields_set - _TAKES[command])
    if foreign:
        raise Refused(Refusal(Reason.COMMAND_MALFORMED, f"{command} does not take {foreign[0]}", where=foreign[0]))
    if wait and command not in _REVOKES:
        said = f"{command} revokes nothing, so there is no receipt to wait for"
        raise Refused(Refusal(Reason.COMMAND_MALFORMED, said, where="wait"))
    made = await _command(use_cases, name, number, command, given, by=admin)
    acting = use_cases.versions.run(made, by=admin, request_id=request_id_of(request))
    if command not in _REVOKES:
        return answer_json(show_moved(settled(await acting)))
    return await answer_revoking(request, acting, (version_scope(name, number),), wait=wait, by=admin)


async def _command(
    use_cases: UseCases, tool: ToolName, version: Version, command: CommandName, body: CommandBody, *, by: str
) -> VersionCommand:
    match command:
        case "publish":
            return settled(await use_cases.policies.publishing(tool, version, by=by))
        case "canary":
            return Canary(tool, version, Cohort(tuple(sorted(set(body.principals))), _weight(body.weight_percent)))
        case "promote":
            return Promote(tool, version)
        case "rollback":
            return Rollback(tool, version, force=body.force)
        case "deprecate":
            return Deprecate(tool, version, sunset=_instant(body.sunset), advisory=body.advisory)
        case "retire":
            return Retire(tool, version, emergency=body.emergency)


def _weight(percent: float) -> int:
    weight = round(percent * 100)
    if abs(weight - percent * 100) > 1e-6:
        raise Refused(
            Refusal(Reason.COMMAND_MALFORMED, "a percentage with at most two decimals was expected", "weight_percent")
        )
    return weight


def _instant(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        found = datetime.datetime.fromisoformat(text)
        moment = found if found.tzinfo else found.replace(tzinfo=datetime.UTC)
        return int(moment.timestamp())
    except (ValueError, OverflowError):
        raise Refused(
            Refusal(Reason.COMMAND_MALFORMED, "a date such as 2027-12-31 was expected (RFC 3339)", where="sunset")
        ) from None


@router.post("/revocations", summary="Revoke everything in a revocation scope")
async def revoke(request: Request, body: RevocationBody, *, wait: Wait = False) -> Response:
    use_cases, admin = await admitted(request, "revoke")
    scope = settled(parse_revocation_scope(body.kind, body.names))
    acting = use_cases.versions.revoke([scope], by=admin, reason=body.reason, request_id=request_id_of(request))
    return await answer_revoking(request, acting, (scope,), wait=wait, by=admin)


@router.post(
    "/policy/reload",
    summary="Load the policy files again; the policy in force stays if they are not lawful or the rules refuse them",
)
async def reload_policy(request: Request) -> Response:
    use_cases, admin = await admitted(request, "publish")
    try:
        loaded = await use_cases.policies.reload(by=admin)
    except PolicyInvalidError as error:
        count = len(error.problems)
        said = f"{count} problem{'' if count == 1 else 's'}; the last good policy stays in force"
        raise Refused(
            Refusal(Reason.POLICY_INVALID, said, where="policies", data=(("problems", str(error)),))
        ) from None
    except PolicyRefusedError as error:
        raise Refused(policy_refusal(error.report, where="policies")) from None
    return answer_json(
        {
            "policy": loaded.digest,
            "edited": list(loaded.edited),
            "narrowed": list(loaded.narrowed),
            "report": report_json(loaded.report),
        }
    )


@router.get("/records", summary="Audit records, from an index on")
async def records(
    request: Request,
    start: Annotated[int, Query(ge=0, le=2**53)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    log: Annotated[int, Query(ge=0, le=9999, description="Whose log: a worker's number, of those under `logs`")] = 0,
) -> Response:
    use_cases, _ = await admitted(request, "read")
    logs = await asyncio.to_thread(use_cases.logs.logs)
    if log not in logs:
        known = ", ".join(map(str, logs))
        raise Refused(Refusal(Reason.COMMAND_MALFORMED, f"there is a log of each of these: {known}", where="log"))
    found = await asyncio.to_thread(lambda: list(islice(use_cases.logs.records(log, start=start), limit)))
    return answer_json(
        {"log": log, "logs": list(logs), "records": [{"index": index, **record} for index, record in found]}
    )
