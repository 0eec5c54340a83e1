"""Composition root: adapters into services into use cases. Here alone all layers meet."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from broker.adapters.auditlog.folder import AuditFolder
from broker.adapters.auditlog.log import SqliteAuditLog
from broker.adapters.jwks.keysets import HttpKeySets
from broker.adapters.keystore.store import FileKeyStore
from broker.adapters.peers.http import HttpPeers
from broker.adapters.policyfile.folder import PolicyFolder
from broker.adapters.redis.store import RedisStore
from broker.adapters.schemas.arithmetic import Arithmetic, open_arithmetic
from broker.adapters.system.clock import SystemClock, elapsed_seconds
from broker.adapters.system.entropy import SystemEntropy
from broker.app.arguments import CompiledArguments
from broker.app.settings import Settings
from broker.app.tokens import JwsReader
from broker.domain.errors import BrokerError
from broker.http.context import UseCases
from broker.services.administrators import Administrators
from broker.services.calls import Calls
from broker.services.clients import Clients
from broker.services.compaction import Compaction
from broker.services.credentials import Credentials
from broker.services.decision import Decision
from broker.services.exchange import Exchange
from broker.services.following import Following
from broker.services.incarnation import IncarnationService
from broker.services.introspection import Introspection
from broker.services.key_retirement import KeyRetirement
from broker.services.knowledge import Knowledge
from broker.services.lifecycle_cache import LifecycleCache
from broker.services.policies import Policies
from broker.services.readiness import Readiness
from broker.services.receipt_statements import ReceiptStatements
from broker.services.receipts import Receipts
from broker.services.recorder import Recorder
from broker.services.refusals import Refusals
from broker.services.release import Release
from broker.services.replicas import Replicas, Statements
from broker.services.signing_keys import SigningKeys
from broker.services.store_lease import StoreLease
from broker.services.subjects import Subjects
from broker.services.verifiers import Verifiers
from broker.services.versions import Versions

log: Final = logging.getLogger("broker.app")


@dataclass(frozen=True, slots=True)
class Parts:
    """A composed broker: its adapters, to open and close, and its use cases."""

    store: RedisStore
    audit: SqliteAuditLog
    keys: FileKeyStore
    key_sets: HttpKeySets
    policy: PolicyFolder
    clock: SystemClock
    entropy: SystemEntropy
    arguments: CompiledArguments
    arithmetic: Arithmetic
    cache: LifecycleCache
    recorder: Recorder
    incarnation: IncarnationService
    lease: StoreLease
    following: Following
    receipts: Receipts
    compaction: Compaction
    policies: Policies
    signing_keys: SigningKeys
    readiness: Readiness
    use_cases: UseCases


def compose(
    settings: Settings, store_url: str, trouble: Callable[[BrokerError], None], reloaded: Callable[[str], None]
) -> Parts:
    """Put a broker together; opens key files, policy and audit log. Raises `ConfigurationError`, `PolicyInvalidError`."""
    policy = PolicyFolder(settings.policies)
    arguments = CompiledArguments()
    arguments.compile(policy.current())
    keys = FileKeyStore.open(settings.key_folder, algorithm=settings.signing_algorithm)
    logs = AuditFolder(settings.data / "audit")
    audit = SqliteAuditLog.open(logs.path(settings.worker))
    store = RedisStore(store_url, policy.current().tenant, required_replicas=settings.required_replicas)
    key_sets, clock, entropy, reader = HttpKeySets(), SystemClock(), SystemEntropy(), JwsReader()
    issuer = settings.public_issuer
    cache = LifecycleCache(store)
    recorder = Recorder(audit, store)
    knowledge = Knowledge(log=audit, logs=logs, clock=clock, entropy=entropy)
    statements = Statements(issuer=issuer, signer=keys, reader=reader, clock=clock, entropy=entropy)
    name = logs.replica()
    peers = HttpPeers(settings.peers, own=name, statement=statements.make)
    key_retirement = KeyRetirement(keys)
    incarnation = IncarnationService(
        fence=store,
        feed=store.feed,
        log=audit,
        logs=logs,
        knowledge=knowledge,
        peers=peers,
        cache=cache,
        clock=clock,
        entropy=entropy,
        retire=key_retirement.on_event,
        force_reason=settings.claim_unknown_store,
    )
    lease = StoreLease(store.feed, monotonic=elapsed_seconds)
    following = Following(
        feed=store.feed,
        lease=lease,
        cache=cache,
        recorder=recorder,
        knowledge=knowledge,
        clock=clock,
        entropy=entropy,
        trouble=trouble,
        retire=key_retirement.on_event,
    )
    receipts = Receipts(following=following, leases=store.feed)
    compaction = Compaction(feed=store.feed, recorder=recorder, clock=clock, entropy=entropy)
    clients = Clients(policy=policy, reader=reader, keys=key_sets, clock=clock, audiences=(issuer, f"{issuer}/token"))
    credentials = Credentials(issuer=issuer, reader=reader, signer=keys, clock=clock)
    arithmetic = open_arithmetic(settings.data / "schemas")
    policies = Policies(
        source=policy,
        arithmetic=arithmetic,
        reloaded=reloaded,
        store=store,
        cache=cache,
        recorder=recorder,
        clock=clock,
        entropy=entropy,
    )
    signing_keys = SigningKeys(ring=keys, signer=keys, log=audit, clock=clock, entropy=entropy)
    readiness = Readiness(incarnation=incarnation, lease=lease, log=audit, recorder=recorder, signer=keys)
    use_cases = UseCases(
        issuer=issuer,
        exchange=Exchange(
            issuer=issuer,
            clients=clients,
            subjects=Subjects(reader=reader, keys=key_sets, credentials=credentials, clock=clock),
            credentials=credentials,
            policy=policy,
            decision=Decision(cache=cache, arguments=arguments),
            cache=cache,
            store=store,
            lease=lease,
            recorder=recorder,
            signer=keys,
            digest_key=keys.digest_key,
            clock=clock,
            entropy=entropy,
        ),
        introspection=Introspection(
            clients=clients, credentials=credentials, policy=policy, cache=cache, store=store, lease=lease
        ),
        following=following,
        verifiers=Verifiers(clients=clients, store=store, leases=store.feed),
        receipts=receipts,
        statements=ReceiptStatements(
            issuer=issuer,
            receipts=receipts,
            signer=keys,
            recorder=recorder,
            logs=logs,
            clock=clock,
            entropy=entropy,
        ),
        release=Release(
            clients=clients, credentials=credentials, policy=policy, store=store, recorder=recorder, clock=clock
        ),
        versions=Versions(
            policy=policy,
            store=store,
            cache=cache,
            recorder=recorder,
            clock=clock,
            entropy=entropy,
            retire=key_retirement.on_event,
        ),
        calls=Calls(clients=clients, store=store, recorder=recorder, clock=clock, entropy=entropy),
        administrators=Administrators(clients=clients, store=store),
        policies=policies,
        keys=signing_keys,
        replicas=Replicas(
            name, statements=statements, knowledge=knowledge, peers=peers, following=following, recorder=recorder
        ),
        readiness=readiness,
        refusals=Refusals(recorder=recorder, clock=clock),
        policy=policy,
        signer=keys,
        audit=audit,
        logs=logs,
        entropy=entropy,
        trouble=trouble,
        deadline_seconds=settings.deadline_seconds,
    )
    return Parts(
        store=store,
        audit=audit,
        keys=keys,
        key_sets=key_sets,
        policy=policy,
        clock=clock,
        entropy=entropy,
        arguments=arguments,
        arithmetic=arithmetic,
        cache=cache,
        recorder=recorder,
        incarnation=incarnation,
        lease=lease,
        following=following,
        receipts=receipts,
        compaction=compaction,
        policies=policies,
        signing_keys=signing_keys,
        readiness=readiness,
        use_cases=use_cases,
    )
