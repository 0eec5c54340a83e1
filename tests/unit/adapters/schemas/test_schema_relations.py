"""Relations and common values, as the vectors say: the claims are right, and what shows them is shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import jsonschema_rs
import pytest
from broker.adapters.schemas.arithmetic import Arithmetic, open_arithmetic
from broker.domain.schema.answers import SAME, No, Related, Relation, Unknown, Yes

VECTORS = Path(__file__).parents[3] / "vectors"
SHARED = Path(__file__).parents[5] / "shared" / "data" / "schema"
RELATIONS = json.loads((VECTORS / "schema_relations.json").read_text())
COMMON = json.loads((VECTORS / "schema_common.json").read_text())
BATTERY = {"narrower": "narrowed", "wider": "widened"}
PAIRS = {"tightens": "narrowed", "widens": "widened", "both": "incomparable", "equal": "equal"}
# Decided by a pattern that validators read differently, so undecided by rule.
UNPORTABLE = {"pattern-\\d", "maxLength-vs-dot-pattern", "pattern-unanchored", "pattern_anchored"}
# Its own examples hold a value that only old accepts, and its verdict says that there is none.
CONTRADICTS_ITSELF = {"pattern_properties_fall_back_to_additional_properties"}


@pytest.fixture(scope="module")
def arithmetic() -> Iterator[Arithmetic]:
    made = open_arithmetic(None)
    yield made
    made.close()


def is_valid(schema, value) -> bool:
    """A validator that shares nothing with ours but the library: no limits, nothing remembered."""
    return jsonschema_rs.Draft202012Validator(schema, offline=True, validate_formats=False).is_valid(value)


def check_witnesses(related: Related, old, new) -> None:
    for answer, one, other in ((related.lost, old, new), (related.gained, new, old)):
        if isinstance(answer, Yes):
            assert is_valid(one, answer.witness)
            assert not is_valid(other, answer.witness)


def as_object(schema):
    return schema if isinstance(schema, dict) else {} if schema else {"not": {}}


@pytest.mark.parametrize("vector", RELATIONS, ids=[vector["name"] for vector in RELATIONS])
def test_the_relation_is_the_one_of_the_vector_both_ways_round(arithmetic, vector):
    old, new = vector["old"], vector["new"]
    there, back = arithmetic.relate(old, new), arithmetic.relate(new, old)
    reverse = {"narrowed": "widened", "widened": "narrowed"}
    assert there.relation == vector["relation"]
    assert back.relation == reverse.get(vector["relation"], vector["relation"])
    check_witnesses(there, old, new)
    check_witnesses(back, new, old)


@pytest.mark.parametrize("vector", COMMON, ids=[vector["name"] for vector in COMMON])
def test_what_schemas_have_in_common_is_what_the_vector_says(arithmetic, vector):
    answer = arithmetic.common(vector["schemas"])
    assert type(answer).__name__.lower() == vector["answer"]
    if isinstance(answer, Yes):
        assert all(is_valid(schema, answer.witness) for schema in vector["schemas"])


@pytest.mark.shared
def test_the_hand_made_pairs_are_decided_but_for_patterns_that_are_not_portable(arithmetic):
    if not SHARED.is_dir():
        pytest.skip("the folder ../shared/data is not here")
    wrong, undecided = [], []
    for name, old, new, expected in json.loads((SHARED / "subsumption_battery.json").read_text()):
        related = arithmetic.relate(as_object(old), as_object(new))
        check_witnesses(related, as_object(old), as_object(new))
        if related.relation is Relation.UNDECIDED:
            undecided.append(name)
        elif related.relation != BATTERY.get(expected, expected):
            wrong.append((name, related))
    assert wrong == []
    assert set(undecided) <= UNPORTABLE


@pytest.mark.shared
def test_the_pairs_with_a_witness_are_decided_but_for_patterns_that_are_not_portable(arithmetic):
    if not SHARED.is_dir():
        pytest.skip("the folder ../shared/data is not here")
    pairs = json.loads((SHARED / "schema_pairs.json").read_text())
    found = {pair["name"]: arithmetic.relate(as_object(pair["old"]), as_object(pair["new"])).relation for pair in pairs}
    expected = {pair["name"]: PAIRS[pair["verdict"]] for pair in pairs}
    assert found == {**expected, **dict.fromkeys(UNPORTABLE & expected.keys(), Relation.UNDECIDED)}


@pytest.mark.shared
def test_a_peers_fixtures_are_answered_as_its_examples_say(arithmetic):
    """Its serializer is compatible where nothing is gained, its deserializer where nothing is lost."""
    if not SHARED.is_dir():
        pytest.skip("the folder ../shared/data is not here")
    counts = {"agree": 0, "undecided": 0}
    for folder in sorted((SHARED / "jsoncompat" / "tests" / "fixtures" / "backcompat").iterdir()):
        old, new = (as_object(json.loads((folder / f"{side}.json").read_text())) for side in ("old", "new"))
        related = arithmetic.relate(old, new)
        check_witnesses(related, old, new)
        expected = json.loads((folder / "expect.json").read_text()) if (folder / "expect.json").exists() else {}
        for side, answer in (("deserializer", related.lost), ("serializer", related.gained)):
            if isinstance(answer, Unknown) or side not in expected:
                counts["undecided"] += isinstance(answer, Unknown)
            elif isinstance(answer, No) is expected[side]:
                counts["agree"] += 1
            else:
                assert folder.name in CONTRADICTS_ITSELF, (folder.name, side, answer)
    print(counts)
    assert counts["agree"] >= 110


def test_the_same_text_is_the_same_whatever_it_holds(arithmetic):
    odd = {"type": "object", "properties": {"a": {"pattern": "(?<=x)\\1("}}}
    assert arithmetic.relate(odd, dict(odd)) == SAME


def test_a_schema_that_cannot_be_compiled_is_unknown_with_its_place(arithmetic):
    broken = {"type": "object", "properties": {"a": {"type": "strnig"}}}
    related = arithmetic.relate({"type": "object"}, broken)
    assert related.relation is Relation.UNDECIDED
    assert isinstance(related.lost, Unknown)
    (blocker,) = related.lost.blockers
    assert (blocker.side, blocker.pointer, blocker.keyword) == ("new", "/properties/a", "type")
    assert not arithmetic.accepts(broken, {})


def test_a_reference_that_leads_nowhere_or_outside_is_unknown(arithmetic):
    for reference in ("#/$defs/none", "https://example.com/s.json", "other.json#/a"):
        answer = arithmetic.common([{"$ref": reference}])
        assert isinstance(answer, Unknown)
        assert answer.blockers[0].keyword == "$ref"


def test_an_undecided_answer_names_the_pattern_and_its_place(arithmetic):
    old = {"properties": {"id": {"type": "string", "pattern": "^\\d+$"}}}
    new = {"properties": {"id": {"type": "string", "pattern": "^[0-9]+$"}}}
    related = arithmetic.relate(old, new)
    assert isinstance(related.lost, Unknown)
    first = related.lost.blockers[0]
    assert (first.keyword, first.pointer, first.side) == ("pattern", "/properties/id", "old")
    assert "not portable" in first.why


def test_a_witness_is_the_plainest_there_is(arithmetic):
    old = {
        "type": "object",
        "properties": {"mode": {"enum": ["read", "write"]}, "path": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["mode"],
        "unevaluatedProperties": False,
    }
    new = {**old, "properties": {**old["properties"], "mode": {"enum": ["read"]}}}
    assert arithmetic.relate(old, new) == Related(Yes({"mode": "write"}), No("cover"))
