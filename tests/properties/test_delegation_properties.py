"""Whatever is minted, exchanged and revoked, a child is dead as soon as anything that it came from is, and never holds more.

The model knows each credential by itself and its parent: dead is what a mark above its *own* `rseq` stands on, or whose parent is
dead. The code is asked about a child alone: all its revocation scopes against the child's one `rseq`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from broker.domain.canonical import JsonObject, canonical_json
from broker.domain.errors import Reason, Refusal
from broker.domain.ids import ClientId, Digest, TaskName, ToolName, Version
from broker.domain.revocation.scopes import RevocationScope, is_revoked
from broker.domain.scopes import Scope, ScopeSet
from broker.domain.tokens.ancestors import MAX_ACTORS, count_actors, spell_ancestors
from broker.domain.tokens.claims import MAX_ACT_BYTES, Credential, KnownCredential, read_credential, spell_claims
from broker.domain.tokens.delegation import ancestors_of_child, check_scopes, check_version, read_delegated
from broker.domain.tokens.subject import Actor, Subject
from hypothesis import given
from hypothesis import strategies as st

BROKER, IDP = "https://broker.example", "https://idp.example"
CLIENTS = [ClientId(name) for name in ("a", "b", "c|d")]
AGENTS = ["agent-7", "agent-8"]
ACCOUNTS = ["alice", "bob"]
KINDS = [(ToolName(tool), Version(version)) for tool in ("t", "u") for version in ("1", "2")]
POLICIES = [Digest("sha256:" + digit * 64) for digit in "12"]
KIDS = ["k1", "k2"]
SCOPES = [Scope(name) for name in ("r", "w", "x")]

scope_sets = st.frozensets(st.sampled_from(SCOPES), min_size=1)
kinds = st.sampled_from(KINDS)
clients = st.sampled_from(CLIENTS)
actors = st.none() | st.builds(Actor, issuer=st.just(IDP), name=st.sampled_from(AGENTS), expires_at=st.integers(50, 90))


@dataclass
class World:
    """All credentials so far, each with the index of its parent, and what was revoked."""

    made: list[tuple[KnownCredential, int | None]] = field(default_factory=list)
    marks: dict[RevocationScope, int] = field(default_factory=dict)
    seq: int = 0

    def own_scopes(self, index: int) -> tuple[RevocationScope, ...]:
        known, _ = self.made[index]
        return known.credential.own_scopes(known.kid)

    def origins(self, parent: int | None) -> list[int]:
        """A credential's parent, the parent's, and so on to the first."""
        found: list[int] = []
        while parent is not None:
            found.append(parent)
            parent = self.made[parent][1]
        return found

    def is_dead(self, index: int | None) -> bool:
        """The model."""
        if index is None:
            return False
        known, parent = self.made[index]
        own = is_revoked(self.marks, self.own_scopes(index), rseq=known.credential.rseq)
        return own or self.is_dead(parent)

    def revoke(self, scope: RevocationScope) -> None:
        self.seq += 1
        self.marks[scope] = self.seq


@st.composite
def worlds(draw: st.DrawFn) -> World:
    world = World()
    for number in range(draw(st.integers(1, 14))):
        living = [index for index in range(len(world.made)) if not world.is_dead(index)]
        step = draw(st.sampled_from(["first", "child", "child", "revoke", "other"]))
        if step == "child" and living:
            index = draw(st.sampled_from(living))
            parent = world.made[index][0]
            subject = read_delegated(parent, draw(actors))
            if isinstance(subject, Subject):
                world.made.append((draw(children(subject, f"j{number}", world.seq)), index))
        elif step == "revoke" and world.made:
            scopes = world.own_scopes(draw(st.integers(0, len(world.made) - 1)))
            world.revoke(draw(st.sampled_from(scopes)))
        elif step == "other":
            world.revoke(RevocationScope("tool:nobody's"))
        else:
            world.made.append((draw(firsts(f"j{number}", world.seq)), None))
    return world


@st.composite
def firsts(draw: st.DrawFn, /, jti: str, seq: int) -> KnownCredential:
    act: JsonObject = {"iss": IDP, "sub": draw(st.sampled_from(AGENTS))}
    return draw(credentials(jti, seq, account=draw(st.sampled_from(ACCOUNTS)), act=act, scopes=draw(scope_sets)))


@st.composite
def children(draw: st.DrawFn, /, subject: Subject, jti: str, seq: int) -> KnownCredential:
    """As an exchange makes them."""
    assert subject.parent is not None
    scopes = draw(st.sampled_from(sorted(subsets(subject.parent.credential.scopes), key=sorted)))
    chain, ancestors = subject.parent.credential.chain, ancestors_of_child(subject.parent)
    return draw(
        credentials(jti, seq, account=subject.account, act=subject.act, scopes=scopes, chain=chain, ancestors=ancestors)
    )


@st.composite
def credentials(draw: st.DrawFn, /, jti: str, seq: int, *, account: str, **more: object) -> KnownCredential:
    tool, version = draw(kinds)
    made: dict[str, object] = {
        "issuer": BROKER,
        "audience": "https://api.example",
        "account_issuer": IDP,
        "account": account,
        "client": draw(clients),
        "tool": tool,
        "version": version,
        "contract": POLICIES[0],
        "task": TaskName("t"),
        "policy": draw(st.sampled_from(POLICIES)),
        "issued_at": 0,
        "expires_at": 100,
        "jti": jti,
        "txn": "x",
        "chain": jti,
        "gen": 1,
        "rseq": seq,
        **more,
    }
    return KnownCredential(Credential(**made), draw(st.sampled_from(KIDS)))  # type: ignore[arg-type]


def subsets(scopes: ScopeSet) -> Sequence[ScopeSet]:
    made: list[ScopeSet] = [frozenset()]
    for scope in scopes:
        made += [frozenset({scope}) | one for one in made]
    return [one for one in made if one]


@given(worlds())
def test_a_child_is_dead_exactly_when_it_or_anything_it_came_from_is(world: World) -> None:
    for index, (known, _) in enumerate(world.made):
        found = is_revoked(world.marks, known.scopes, rseq=known.credential.rseq)
        assert found is world.is_dead(index)


@given(worlds())
def test_a_credential_reads_back_as_it_was_spelled_with_all_that_it_came_from(world: World) -> None:
    for index, (known, parent) in enumerate(world.made):
        credential = known.credential
        claims = spell_claims(credential)
        assert read_credential(claims) == credential
        assert ("ancestors" in claims) is (parent is not None)
        if parent is None:
            continue
        origin = world.made[parent][0].credential
        assert credential.scopes <= origin.scopes
        assert (credential.account, credential.chain) == (origin.account, origin.chain)
        assert credential.act["act"] == origin.act
        assert credential.version_ids == (credential.version_id, *(one.version_id for one in credential.ancestors))
        assert set(credential.version_ids) >= set(origin.version_ids)
        assert set(credential.key_scopes(known.kid)) >= set(origin.key_scopes(world.made[parent][0].kid))
        origins = world.origins(parent)
        assert credential.ancestor_scopes() == tuple(world.own_scopes(one) for one in reversed(origins))
        assert set(known.scopes) == set(world.own_scopes(index)).union(*map(world.own_scopes, origins))
        assert len(set(known.scopes)) == len(known.scopes)
        assert 1 < count_actors(credential.act) <= MAX_ACTORS


@given(worlds(), kinds, scope_sets)
def test_only_what_the_parent_holds_and_no_other_version_of_its_tools_may_come_of_it(
    world: World, kind: tuple[ToolName, Version], wanted: ScopeSet
) -> None:
    tool, version = kind
    for known, parent in world.made:
        refused = check_scopes(known, wanted)
        assert (refused is None) is (wanted <= known.credential.scopes)
        assert refused is None or refused.reason is Reason.SCOPE_BEYOND_SUBJECT
        chain = [known.credential, *(world.made[one][0].credential for one in world.origins(parent))]
        hop = any(one.tool == tool and one.version != version for one in chain)
        assert (check_version(known, tool=tool, version=version) is not None) is hop


@given(firsts("j0", 0), st.integers(1, 60), st.text('ä\\"x', min_size=1, max_size=200))
def test_a_chain_stops_growing_before_its_token_cannot_be_read(first: KnownCredential, count: int, client: str) -> None:
    known, length = first, 1
    for number in range(count):
        subject = read_delegated(known)
        if isinstance(subject, Refusal):
            assert (subject.reason, subject.where) == (Reason.TOKEN_CLAIM_INVALID, "act")
            break
        made = spell_claims(known.credential) | {
            "act": subject.act,
            "jti": f"j{number + 1}",
            "client_id": client.encode("ascii", "replace").decode()[:200],
            "ancestors": spell_ancestors(ancestors_of_child(known)),
        }
        credential = read_credential(made)
        assert isinstance(credential, Credential), credential
        known, length = KnownCredential(credential, "k" * 64), length + 1
    assert length <= MAX_ACTORS
    assert len(canonical_json({"act": known.credential.act})) <= MAX_ACT_BYTES
