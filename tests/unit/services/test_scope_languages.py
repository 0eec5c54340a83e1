"""The scopes that a template can become are compared as sets of values, not as schemas."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from broker.adapters.schemas.arithmetic import Arithmetic, open_arithmetic
from broker.domain.contracts.contract import parse_contract
from broker.domain.policy.document import ArgumentRule, ScopeRule, TaskRule, VersionPolicy
from broker.domain.policy.facts import VersionFacts
from broker.domain.policy.templates import parse_template
from broker.domain.schema.answers import No, Relation, Unknown, Yes
from broker.services.facts import Facts
from broker.services.scope_languages import ScopeLanguages

SCOPE = "files:{/path}"
NEEDED = {"required": ["path"]}
REPORTS = {"/path": ArgumentRule("/path", "path", within=("/srv/reports",))}
ANY_PATH = {"/path": ArgumentRule("/path", "path")}


@pytest.fixture(scope="module")
def arithmetic() -> Iterator[Arithmetic]:
    made = open_arithmetic(None)
    yield made
    made.close()


def inputs(**properties: object) -> dict[str, object]:
    return {"type": "object", "properties": properties}


def text(pattern: str, **more: object) -> dict[str, object]:
    return {"type": "string", "pattern": pattern, **more}


class Compare:
    """Compares two versions of one tool."""

    def __init__(self, arithmetic: Arithmetic) -> None:
        self._facts = Facts(arithmetic)
        self._languages = ScopeLanguages(arithmetic)
        self._made = 0

    def facts(self, schema, needed=NEEDED, arguments=None, scope=SCOPE) -> VersionFacts:
        self._made += 1
        rule = ScopeRule(scope, parse_template(scope) or (), needed)
        task = TaskRule("read", ("mcp",), {}, (scope,), 60)
        version = VersionPolicy(
            tool="files.read",
            version=str(self._made),
            audience="https://files.internal",
            contract=parse_contract({"name": "files.read", "inputSchema": schema}),
            arguments=arguments or {},
            scopes={scope: rule},
            tasks={"read": task},
            digest=f"sha256:{self._made:064x}",
        )
        return self._facts.version(version)

    def __call__(self, old: VersionFacts, new: VersionFacts, scope=SCOPE):
        return self._languages.related(scope, old, new)


@pytest.fixture
def compare(arithmetic) -> Compare:
    return Compare(arithmetic)


WORD = text("^[a-z]+$")
WORDS = {"type": "array", "items": WORD}
COUNT = {"type": "integer", "minimum": 1}


@pytest.mark.parametrize(
    ("old", "new", "relation", "lost", "gained"),
    [
        (WORD, text("^[a-c]+$"), "narrowed", "d", None),
        (text("^[a-c]+$"), WORD, "widened", None, "d"),
        (text("^[a-c]+$"), text("^[b-d]+$"), "incomparable", "a", "d"),
        (text("^[a-z]{1,50}$"), text("^[a-z]+$", maxLength=50), "equal", None, None),
        ({"enum": ["a", "b"]}, {"enum": ["b"]}, "narrowed", "a", None),
        (COUNT, {**COUNT, "maximum": 100}, "narrowed", "101", None),
        ({"type": ["integer", "string"], "pattern": "^[0-9]+$"}, text("^[0-9]+$"), "narrowed", "-1", None),
        (WORD, {"anyOf": [WORD, {"type": "null"}]}, "equal", None, None),
        (WORD, {"anyOf": [WORD, {"type": "array", "items": text("^[A-Z]+$")}]}, "widened", None, "A"),
        (WORDS, {"type": "array", "items": text("^[a-c]+$"), "maxItems": 5}, "narrowed", "d", None),
        ({"$ref": "#/$defs/word"}, WORD, "equal", None, None),
    ],
)
def test_a_tighter_value_is_a_smaller_scope(compare, old, new, relation, lost, gained):
    before, after = (compare.facts({**inputs(path=value), "$defs": {"word": WORD}}) for value in (old, new))
    related = compare(before, after)
    assert related.relation is Relation(relation)
    assert (related.lost.witness if isinstance(related.lost, Yes) else None) == (lost and f"files:{lost}")
    assert (related.gained.witness if isinstance(related.gained, Yes) else None) == (gained and f"files:{gained}")


def test_what_no_scope_can_carry_makes_no_scope_larger(compare):
    old, new = inputs(path=text("^[a-z]+$")), inputs(path=text("^[a-z/ :]+$"))
    assert compare(compare.facts(old), compare.facts(new)).relation is Relation.EQUAL


def test_other_arguments_that_come_and_go_move_no_scope(compare):
    old = inputs(path=text("^[a-z]+$"), size={"type": "integer"})
    new = inputs(path=text("^[a-z]+$"), depth={"type": "integer", "maximum": 5}) | {"required": ["depth"]}
    assert compare(compare.facts(old), compare.facts(new)).relation is Relation.EQUAL


def test_a_condition_that_is_dropped_makes_a_scope_larger(compare):
    schema = inputs(path=text("^[a-z]+$"))
    narrow = compare.facts(schema, needed={"properties": {"path": {"pattern": "^a[a-z]*$"}}})
    wide = compare.facts(schema, needed=True)
    related = compare(narrow, wide)
    assert related.relation is Relation.WIDENED
    assert related.gained == Yes("files:b")


def test_a_condition_may_refer_to_definitions_of_its_own(compare):
    schema = inputs(path={"$ref": "#/$defs/word"}) | {"$defs": {"word": WORD}}
    needed = {
        "properties": {"path": {"$ref": "#/$defs/word"}},
        "$defs": {"word": text("^[a-c]+$")},
        "required": ["path"],
    }
    related = compare(compare.facts(schema), compare.facts(schema, needed=needed))
    assert related.relation is Relation.NARROWED
    assert related.lost == Yes("files:d")


def test_a_scope_that_could_never_be_had_before_does_not_count_as_there(compare):
    pairs = {"type": "array", "items": text("^[a-z]+$"), "minItems": 2}
    related = compare(compare.facts(inputs(path=pairs)), compare.facts(inputs(path={**pairs, "minItems": 1})))
    assert not isinstance(related.gained, No)


@pytest.mark.parametrize(
    ("old", "new", "relation", "witness"),
    [
        ("^/srv/reports/[a-z]+$", "^/srv/reports/[a-c]+$", "narrowed", "files:/srv/reports/d"),
        ("^/srv/reports/[a-z]+$", "^/srv/[a-z]+/[a-z]+$", "equal", None),
        ("^/srv/[a-z/]+$", "^/srv/reports/[a-z]+$", "narrowed", "files:/srv/reports"),
        ("^/srv/reports/[a-z/]+$", "^/srv/reports/[a-z/]{1,20}$", "narrowed", None),
    ],
)
def test_below_roots_it_is_the_normal_form_that_counts(compare, old, new, relation, witness):
    before, after = (compare.facts(inputs(path=text(pattern)), arguments=REPORTS) for pattern in (old, new))
    related = compare(before, after)
    assert related.relation is Relation(relation)
    if witness is not None:
        assert related.lost == Yes(witness)


def test_a_root_that_moves_moves_the_scope(compare):
    schema = inputs(path=text("^/[a-z/]+$"))
    wide = compare.facts(schema, arguments={"/path": ArgumentRule("/path", "path", within=("/srv",))})
    narrow = compare.facts(schema, arguments=REPORTS)
    assert compare(wide, narrow).relation is Relation.NARROWED
    assert compare(narrow, wide).relation is Relation.WIDENED
    assert compare(narrow, compare.facts(schema, arguments=ANY_PATH)).relation is Relation.WIDENED


def test_another_spelling_of_a_scope_that_was_there_is_not_gained(compare):
    crooked = compare.facts(inputs(path=text("^/srv/reports/[.]/[a-z]+$")), arguments=REPORTS)
    straight = compare.facts(inputs(path=text("^/srv/reports/[a-z]+$")), arguments=REPORTS)
    assert not isinstance(compare(crooked, straight).gained, Yes)


def test_a_host_is_compared_whatever_its_case(compare):
    arguments = {"/path": ArgumentRule("/path", "host", within=("*.example",))}
    upper = compare.facts(inputs(path=text("^[A-Z]+[.]EXAMPLE$")), arguments=arguments)
    lower = compare.facts(inputs(path=text("^[a-z]+[.]example$")), arguments=arguments)
    other = compare.facts(inputs(path=text("^[a-z]+[.][a-z]+[.]example$")), arguments=arguments)
    assert not isinstance(compare(upper, lower).gained, Yes)
    assert compare(lower, other).gained == Yes("files:a.a.example")


def test_two_values_are_compared_each_by_itself(compare):
    scope = "repo:{/owner}:{/name}"
    old = compare.facts(inputs(owner=text("^[a-z]+$"), name=text("^[a-z]+$")), needed=True, scope=scope)
    new = compare.facts(inputs(owner=text("^[a-c]+$"), name=text("^[a-z]+$")), needed=True, scope=scope)
    related = compare(old, new, scope)
    assert related.relation is Relation.NARROWED
    assert isinstance(related.lost, Yes)
    assert related.lost.witness.startswith("repo:d:")


def test_a_condition_elsewhere_on_an_argument_is_not_overlooked(arithmetic, compare):
    plain = inputs(path=WORD, mode={"enum": ["r", "w"]})
    writing = {"properties": {"mode": {"const": "w"}}, "required": ["mode"]}
    bound = {**plain, "if": writing, "then": {"properties": {"path": text("^a[a-z]*$")}}}
    about_mode = {**plain, "if": {"required": ["path"]}, "then": {"required": ["mode"]}}
    languages = ScopeLanguages(arithmetic)
    assert languages.values_related("/path", compare.facts(plain), compare.facts(bound)).relation is Relation.UNDECIDED
    assert languages.values_related("/path", compare.facts(plain), compare.facts(about_mode)).relation is Relation.EQUAL


@pytest.mark.parametrize("pattern", [r"^[\w-]+$", r"^(?!x)[a-z]+$", r"^([a-z])\1$"])
def test_what_validators_read_differently_is_undecided(compare, pattern):
    related = compare(compare.facts(inputs(path=text(pattern))), compare.facts(inputs(path=text("^[a-z]+$"))))
    assert isinstance(related.gained, Unknown)
    assert any(blocker.keyword == "pattern" for blocker in related.gained.blockers)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"anyOf": [text("^[a-z]+$"), {"type": "array", "items": {"type": "string"}}]}, "../../etc/passwd"),
        ({"type": "array", "items": {"anyOf": [{"enum": ["a"]}, {"type": "string", "maxLength": 30}]}}, "../../etc/passwd"),
        (text("^docs/"), "docs/.."),
        (text("^docs/[a-z.]+(/[a-z.]+)*$"), "docs/.."),
        ({"type": "string", "maxLength": 2}, ".."),
    ],
)  # fmt: skip
def test_an_attack_is_found_wherever_the_contract_lets_it_through(compare, schema, value):
    facts = compare.facts(inputs(path=schema), needed=True, scope="files:read")
    assert [one.value for one in facts.exposed] == [value]
    assert "path" in facts.exposed[0].witness


def test_a_bounded_argument_is_not_exposed(compare):
    facts = compare.facts(inputs(path=text("^docs/[a-z]+([.][a-z]+)?$")), needed=True, scope="files:read")
    assert facts.exposed == ()
    assert facts.undecided_exposure == ()
