"""The exchange (DESIGN §3, RFC 8693): a caller's token in, a credential for one tool call out.

Each step is a refusal with its own reason:
1. client                  5. contract digest                                          (4–6: `decision.py`)
2. request form            6. policy: task, principal, arguments; then the target
3. subject token           7. lifetime
4. lifecycle state         8. one store function, which re-checks state and takes the assertion
9. the audit record is durable   10. signature   11. answer

Where the subject token is a credential of ours (`domain/tokens/delegation.py`), 4 to 7 keep the child within its parent, and 8
sees in the same step that the parent and all that it comes from are alive.

Unsigned is unusable, so: no record, no credential. A refusal is written down before it is answered, too, and uses up
the assertion just as a grant does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from broker.domain.audit.arguments import DigestKey
from broker.domain.audit.records import MintDenied, Minted
from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.errors import BrokerError, Reason, Refusal, StoreUnclaimedError
from broker.domain.policy.document import ClientTrust
from broker.domain.tokens.claims import MAX_LIFETIME_SECONDS, KnownCredential, spell_claims
from broker.domain.tokens.client_auth import ClientCredentials
from broker.domain.tokens.exchange_request import parse_exchange
from broker.ports.keys import Signer
from broker.ports.policy import PolicySource
from broker.ports.store import Assertion, CredentialStore, Issue, Issued, IssueRefused
from broker.ports.system import Clock, Entropy
from broker.services.ancestry import ancestor_dead, ancestors_to_judge, parent_used_up
from broker.services.call_facts import CallFacts
from broker.services.clients import Clients, refuse_once, replayed
from broker.services.credentials import Credentials
from broker.services.decision import Asked, Decided, Decision
from broker.services.incarnation import spell_intent
from broker.services.lifecycle_cache import LifecycleCache
from broker.services.minting import Bounds, credential_of
from broker.services.recorder import Recorder
from broker.services.store_lease import StoreLease
from broker.services.subjects import Subjects

LOOKS: Final = 4
"""How often a decision is made anew because the lifecycle moved while it was being made."""


@dataclass(frozen=True, slots=True)
class Granted:
    """A successful exchange; RFC 8693 §2.2.1 with the granted detail."""

    access_token: str
    issued_token_type: str
    expires_in: int
    scope: str
    authorization_details: JsonValue


class Exchange:
    """The use case; one for a process."""

    def __init__(
        self,
        *,
        issuer: str,
        clients: Clients,
        subjects: Subjects,
        credentials: Credentials,
        policy: PolicySource,
        decision: Decision,
        cache: LifecycleCache,
        store: CredentialStore,
        lease: StoreLease,
        recorder: Recorder,
        signer: Signer,
        digest_key: DigestKey,
        clock: Clock,
        entropy: Entropy,
    ) -> None:
        self._issuer = issuer
        self._clients = clients
        self._subjects = subjects
        self._credentials = credentials
        self._policy = policy
        self._decision = decision
        self._cache = cache
        self._store = store
        self._lease = lease
        self._recorder = recorder
        self._signer = signer
        self._digest_key = digest_key
        self._clock = clock
        self._entropy = entropy

    async def exchange(
        self, credentials: ClientCredentials | Refusal, form: Mapping[str, str], *, request_id: str
    ) -> Granted | Refusal:
        """Exchange. Raises a `BrokerError` where store or log cannot do their part; then nothing was handed out."""
        facts = CallFacts()
        found = await self._clients.client(credentials)
        if isinstance(found, Refusal):
            outcome: Granted | Refusal = found
        else:
            client, assertion = found
            facts.client = client.client_id
            outcome = await self._exchange(client, assertion, form, facts, request_id)
            if isinstance(outcome, Refusal) and outcome.reason is not Reason.CLIENT_ASSERTION_REPLAYED:
                outcome = await refuse_once(outcome, assertion, self._store)
        if isinstance(outcome, Refusal):
            await self.record_refusal(outcome, facts=facts, request_id=request_id)
        return outcome

    async def record_refusal(self, refusal: Refusal, *, facts: CallFacts | None = None, request_id: str) -> None:
        """Write a refusal down; also for the edge, which refuses what never becomes a request."""
        known = facts or CallFacts()
        await self._recorder.append(
            MintDenied(
                id=request_id,
                ts=self._clock.timestamp(),
                call=known.call(self._digest_key),
                reason=refusal.reason.value,
                where=refusal.where,
                why=refusal.why or refusal.detail,
                parent=known.parent,
                chain=known.chain,
            )
        )

    async def _exchange(
        self,
        client: ClientTrust,
        assertion: Assertion | None,
        form: Mapping[str, str],
        facts: CallFacts,
        request_id: str,
    ) -> Granted | Refusal:
        asked = await self._ask(client, assertion, form, facts)
        if isinstance(asked, Refusal):
            return asked
        self._recorder.check_recorded()
        await self._lease.check()
        for _ in range(LOOKS):
            decided = self._decision.decide(asked, facts)
            if isinstance(decided, Refusal):
                return decided
            bounds = self._bound(asked, decided, facts)
            if isinstance(bounds, Refusal):
                return bounds
            issued = await self._issue(asked, decided, bounds, request_id)
            match issued:
                case Issued():
                    return await self._hand_out(asked, decided, bounds, issued, facts, request_id)
                case IssueRefused.ASSERTION_REPLAYED:
                    return replayed()
                case IssueRefused.ANCESTOR_DEAD:
                    return ancestor_dead()
                case IssueRefused.PARENT_USED_UP:
                    return parent_used_up()
                case _:
                    await self._cache.refresh()
                    # what moved may be a policy: its store record and its files go together
                    asked = replace(asked, policy=self._policy.current())
        raise StoreUnclaimedError("the versions of this tool are changing too fast to decide")

    async def _ask(
        self, client: ClientTrust, assertion: Assertion | None, form: Mapping[str, str], facts: CallFacts
    ) -> Asked | Refusal:
        """Steps 1–3, for a client that has proved who it is."""
        if "exchange" not in client.may or client.resource is None:
            return Refusal(
                Reason.CLIENT_NOT_PERMITTED,
                "this client may not exchange tokens",
                why="trust.yaml gives it no `exchange` under may, or no resource",
            )
        request = parse_exchange(form)
        if isinstance(request, Refusal):
            return request
        facts.detail = request.detail
        policy = self._policy.current()
        subject = await self._subjects.subject(
            request.unverified_subject_token, request.unverified_actor_token, client=client, policy=policy
        )
        if isinstance(subject, Refusal):
            return subject
        facts.subject = subject
        return Asked(request=request, client=client, subject=subject, assertion=assertion, policy=policy)

    def _bound(self, asked: Asked, decided: Decided, facts: CallFacts) -> Bounds | Refusal:
        """Step 7."""
        now = self._clock.now()
        expires_at = min(now + min(decided.permit.ttl_seconds, MAX_LIFETIME_SECONDS), asked.subject.expires_at)
        if expires_at <= now:
            return Refusal(
                Reason.LIFETIME_EXHAUSTED, "the subject token is at its end; get a new one", where="subject_token"
            )
        jti = facts.jti = self._entropy.token()
        parent, stated = asked.subject.parent, asked.request.detail.txn
        txn = facts.txn = (parent.credential.txn if parent is not None else stated) or self._entropy.token()
        return Bounds(issued_at=now, expires_at=expires_at, jti=jti, txn=txn)

    async def _issue(self, asked: Asked, decided: Decided, bounds: Bounds, request_id: str) -> Issued | IssueRefused:
        """Step 8."""
        carried = self._recorder.take_settled(decided.gen)
        intent: JsonObject = {
            "v": 1,
            "type": "mint",
            "id": request_id,
            "jti": bounds.jti,
            "tool": decided.record.tool,
            "version": decided.record.version,
            "client": asked.client.client_id,
            "agent": asked.subject.agent,
            "account": asked.subject.account,
            "task": decided.permit.task,
        }
        if asked.subject.parent is not None:
            intent |= {"parent": asked.subject.parent.credential.jti, "chain": asked.subject.parent.credential.chain}
        try:
            issued = await self._store.issue(
                Issue(
                    jti=bounds.jti,
                    version=decided.record.id,
                    seq=decided.seq,
                    expires_at=bounds.expires_at,
                    uses=decided.permit.uses,
                    intent=spell_intent(intent),
                    assertion=asked.assertion,
                    audited=carried,
                    ancestors=ancestors_to_judge(asked.subject.parent),
                )
            )
        except BrokerError:
            self._recorder.settle(decided.gen, carried)
            raise
        if isinstance(issued, IssueRefused):
            self._recorder.settle(decided.gen, carried)
        return issued

    async def _hand_out(
        self, asked: Asked, decided: Decided, bounds: Bounds, issued: Issued, facts: CallFacts, request_id: str
    ) -> Granted:
        """Steps 9–11."""
        permit, kid = decided.permit, self._signer.kid
        await self._recorder.append(
            Minted(
                id=request_id,
                ts=self._clock.timestamp(),
                call=facts.call(self._digest_key),
                gen=issued.gen,
                gseq=issued.gseq,
                rseq=issued.rseq,
                scopes=tuple(sorted(permit.scopes)),
                audience=permit.audience,
                expires_at=bounds.expires_at,
                kid=kid,
                policy=decided.record.policy,
                rule=permit.rule,
                parent=facts.parent,
                chain=facts.chain,
            )
        )
        self._recorder.settle(issued.gen, [issued.gseq])
        credential = credential_of(asked, decided, bounds, issued, issuer=self._issuer)
        claims = spell_claims(credential)
        token = self._signer.sign(claims, kid=kid)
        self._credentials.remember(token, KnownCredential(credential, kid))
        return Granted(
            access_token=token,
            issued_token_type=asked.request.issued_token_type,
            expires_in=bounds.expires_at - bounds.issued_at,
            scope=str(claims["scope"]),
            authorization_details=claims["authorization_details"],
        )
