"""What an exchange knows of the call so far, for the record that it will leave, whatever its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from broker.domain.audit.arguments import DigestKey, digest_arguments
from broker.domain.audit.records import Call
from broker.domain.ids import ClientId
from broker.domain.lifecycle.states import VersionRecord
from broker.domain.tokens.ancestors import named_actors
from broker.domain.tokens.exchange_request import Detail
from broker.domain.tokens.subject import Subject

_NOT_STATED: Final = "not stated by the client"
_NOT_VERIFIED: Final = "refused before it was verified"
_NOT_REACHED: Final = "refused before it was settled"


@dataclass(slots=True)
class CallFacts:
    """Filled step by step; `call` is what is known at the time."""

    client: ClientId | None = None
    detail: Detail | None = None
    subject: Subject | None = None
    record: VersionRecord | None = None
    task: str | None = None
    txn: str | None = None
    jti: str | None = None

    @property
    def parent(self) -> str | None:
        """`jti` of the credential that is to be exchanged, where the subject token is one."""
        parent = self.subject.parent if self.subject else None
        return parent.credential.jti if parent else None

    @property
    def chain(self) -> str | None:
        """`jti` of the first credential of its chain."""
        parent = self.subject.parent if self.subject else None
        return parent.credential.chain if parent else None

    def call(self, key: DigestKey) -> Call:
        """The facts for an audit record; what is unknown is null with its reason."""
        detail, subject, record = self.detail, self.subject, self.record
        version = record.version if record else (detail.version if detail else None)
        contract = record.contract if record else (detail.contract if detail else None)
        arguments: dict[str, str] | None = None
        absent: dict[str, str] = {}
        if detail is not None and detail.arguments is not None:
            arguments = digest_arguments(detail.arguments, key=key)
        made = Call(
            tool=detail.tool if detail else None,
            version=version,
            contract=contract,
            protocol_version=detail.protocol_version if detail else None,
            agent=subject.agent if subject else None,
            agent_issuer=subject.agent_issuer if subject else None,
            account=subject.account if subject else None,
            account_issuer=subject.issuer if subject else None,
            client=self.client,
            task=self.task or (detail.task if detail else None),
            txn=self.txn or (detail.txn if detail else None),
            jti=self.jti,
            application=detail.application if detail else None,
            arguments=arguments,
            absent=absent,
            act=named_actors(subject.act) if subject else None,
        )
        if made.client is None:
            absent["client"] = _NOT_VERIFIED
        if subject is None:
            absent["agent"] = absent["account"] = _NOT_VERIFIED
        if detail is None:
            absent["tool"] = absent["protocol_version"] = _NOT_REACHED
        elif made.protocol_version is None:
            absent["protocol_version"] = _NOT_STATED
        if version is None:
            absent["version"] = _NOT_REACHED
        if made.arguments is None:
            absent.setdefault("arguments", _NOT_STATED)
        return made
