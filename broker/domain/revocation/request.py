"""A revocation scope as an administrator names it.

| kind       | further members                                  |
|------------|--------------------------------------------------|
| everything |                                                  |
| key        | kid                                              |
| tool       | tool                                             |
| client     | client                                           |
| agent      | issuer, agent                                    |
| account    | issuer, account                                  |
| pair       | issuer, agent, account (both of the same issuer) |
| chain      | jti of the first credential                      |
| credential | jti                                              |

A version is revoked by its life (rollback, retire), not here: it must also stop being mintable, in the same step.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from broker.domain.errors import Reason, Refusal
from broker.domain.ids import ClientId, parse_tool_name
from broker.domain.revocation import scopes
from broker.domain.revocation.scopes import RevocationScope

_MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "everything": (),
    "key": ("kid",),
    "tool": ("tool",),
    "client": ("client",),
    "agent": ("issuer", "agent"),
    "account": ("issuer", "account"),
    "pair": ("issuer", "agent", "account"),
    "chain": ("jti",),
    "credential": ("jti",),
}
KINDS: Final = tuple(_MEMBERS)
_KID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")


def parse_revocation_scope(kind: str, names: Mapping[str, str]) -> RevocationScope | Refusal:
    """The revocation scope that is named, or what is wrong with the name."""
    expected = _MEMBERS.get(kind)
    if expected is None:
        return Refusal(Reason.COMMAND_MALFORMED, f"one of {', '.join(_MEMBERS)} was expected", where="kind")
    if set(names) != set(expected) or not all(names.values()):
        return Refusal(
            Reason.COMMAND_MALFORMED, f"{kind} is named by exactly: {', '.join(expected) or 'nothing'}", where="names"
        )
    match kind:
        case "everything":
            return scopes.EVERYTHING
        case "key":
            if not _KID.fullmatch(names["kid"]):  # it goes into `retired-keys`, which holds one a line
                said = "a kid was expected: 1 to 128 letters, digits, `_`, `-`; `broker key list` shows them"
                return Refusal(Reason.COMMAND_MALFORMED, said, where="names/kid")
            return scopes.key_scope(names["kid"])
        case "tool":
            tool = parse_tool_name(names["tool"])
            if tool is None:
                return Refusal(Reason.COMMAND_MALFORMED, "a tool name was expected", where="names/tool")
            return scopes.tool_scope(tool)
        case "client":
            return scopes.client_scope(ClientId(names["client"]))
        case "agent":
            return scopes.agent_scope(names["issuer"], names["agent"])
        case "account":
            return scopes.account_scope(names["issuer"], names["account"])
        case "pair":
            return scopes.pair_scope(names["issuer"], names["agent"], names["issuer"], names["account"])
        case "chain":
            return scopes.chain_scope(names["jti"])
        case _:
            return scopes.jti_scope(names["jti"])
