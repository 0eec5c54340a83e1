"""What is said about the scopes of two versions holds for the scopes that the two really mint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product

import pytest
from broker.adapters.schemas.arithmetic import Arithmetic, open_arithmetic
from broker.domain.contracts.contract import parse_contract
from broker.domain.errors import Refusal
from broker.domain.policy.argument_scopes import scopes_with_arguments
from broker.domain.policy.document import ArgumentRule, ScopeRule, TaskRule, VersionPolicy
from broker.domain.schema.answers import No, Yes
from broker.engines.arguments import VersionMatcher
from broker.services.facts import Facts
from broker.services.scope_languages import ScopeLanguages
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

SCOPE = "files:{/path}"
TASK = TaskRule("read", ("mcp",), {}, (SCOPE,), 60)
TEXTS = ["".join(letters) for length in range(3) for letters in product("abc/", repeat=length)]


def shapes(value: str) -> Iterator[object]:
    """The ways in which one value can stand there."""
    for one in (value, *([int(value)] if value.removeprefix("-").isdecimal() else [])):
        yield from (one, [one], [[one]], [[[one]]], [[one], []])


def inputs(values: Iterable[str]) -> Iterator[dict[str, object]]:
    """Every way to give each of the values."""
    for mode in ({}, {"mode": "r"}, {"mode": "w"}, {"mode": ""}):
        for value in values:
            for shape in shapes(value):
                yield {"path": shape, **mode}


_PATTERNS = [
    "^[ab]+$",
    "^a",
    "^[ab/]*$",
    "^(a|bb)$",
    "^/[ab]$",
    "^[^/]{1,2}$",
    r"^(?!a)[ab]+$",
    "^/[ab/]*$",
    "^[a-c]?$",
]
_VALUES = st.recursive(
    st.one_of(
        st.sampled_from(_PATTERNS).map(lambda pattern: {"type": "string", "pattern": pattern}),
        st.sampled_from(_PATTERNS).map(lambda pattern: {"pattern": pattern}),
        st.lists(st.sampled_from([*TEXTS[:9], 1]), min_size=1, max_size=3).map(lambda values: {"enum": values}),
        st.sampled_from([{"type": "string", "maxLength": 1}, {"type": "integer", "maximum": 1}, {}, False]),
    ),
    lambda inner: st.one_of(
        inner.map(lambda schema: {"type": "array", "items": schema}),
        inner.map(lambda schema: {"type": "array", "items": schema, "minItems": 2}),
        st.tuples(st.sampled_from(["anyOf", "oneOf", "allOf"]), inner, inner).map(lambda three: {three[0]: list(three[1:])}),
    ),
    max_leaves=3,
)  # fmt: skip
_MODES = st.sampled_from([{"enum": ["r", "w"]}, {"const": "r"}, {"type": "string", "maxLength": 1}])
_ABOUT_PATH = st.one_of(
    st.just({"required": ["path"]}),
    st.just({"properties": {"mode": {"const": "w"}}, "required": ["mode"]}),
    st.just({"not": {"required": ["mode"]}}),
    _VALUES.map(lambda schema: {"properties": {"path": schema}}),
    st.tuples(_VALUES, _VALUES).map(lambda pair: {"anyOf": [{"properties": {"path": one}} for one in pair]}),
)
_SCHEMAS = st.one_of(
    st.tuples(_VALUES, _MODES).map(lambda pair: {"properties": {"path": pair[0], "mode": pair[1]}}),
    st.tuples(_VALUES, _MODES, _ABOUT_PATH).map(
        lambda three: {"properties": {"path": three[0], "mode": three[1]}, "allOf": [three[2]]}
    ),
    st.tuples(_VALUES, _MODES, _ABOUT_PATH).map(
        lambda three: {
            "properties": {"path": {}, "mode": three[1]},
            "if": three[2],
            "then": {"properties": {"path": three[0]}},
        }
    ),
    st.tuples(_VALUES, _MODES).map(
        lambda pair: {"properties": {"path": {"$ref": "#/$defs/v"}, "mode": pair[1]}, "$defs": {"v": pair[0]}}
    ),
)
_WITH_DEFINITIONS = _VALUES.map(lambda schema: {"properties": {"path": {"$ref": "#/$defs/v"}}, "$defs": {"v": schema}})
_NEEDED = st.one_of(st.just(True), _ABOUT_PATH, _WITH_DEFINITIONS)
_RULES = st.sampled_from(
    [
        None,
        ArgumentRule("/path", "identifier"),
        ArgumentRule("/path", "path"),
        ArgumentRule("/path", "path", within=("/a",)),
    ]
)
_VERSIONS = st.tuples(_SCHEMAS, _NEEDED, _RULES)


@pytest.fixture(scope="module")
def arithmetic() -> Iterator[Arithmetic]:
    made = open_arithmetic(None)
    yield made
    made.close()


def version(number: int, said: tuple[dict, object, ArgumentRule | None]) -> VersionPolicy:
    schema, needed, rule = said
    return VersionPolicy(
        tool="files.read",
        version=str(number),
        audience="https://files.internal",
        contract=parse_contract({"name": "files.read", "inputSchema": {"type": "object", **schema}}),
        arguments={"/path": rule} if rule is not None else {},
        scopes={SCOPE: ScopeRule(SCOPE, ("/path",), needed)},
        tasks={"read": TASK},
        digest=f"sha256:{number:064x}",
    )


def minted(made: VersionPolicy, values: Iterable[str]) -> set[str]:
    """The scopes that inputs with these values are given."""
    matcher = VersionMatcher(made)
    found: set[str] = set()
    for arguments in inputs(values):
        granted = scopes_with_arguments(made, TASK, arguments, matcher.facts(arguments), "files.read/tasks/read")
        if not isinstance(granted, Refusal):
            found |= granted
    return found


@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(_VERSIONS, _VERSIONS)
def test_a_claim_about_scopes_holds_for_what_is_minted(arithmetic, one, other):
    versions = [version(number, said) for number, said in enumerate((one, other))]
    facts = Facts(arithmetic)
    sides = [facts.version(made) for made in versions]
    related = ScopeLanguages(arithmetic).related(SCOPE, sides[0], sides[1])
    for answer, more, less in ((related.lost, *versions), (related.gained, *versions[::-1])):
        event(type(answer).__name__)
        match answer:
            case No():
                # A path may be another spelling of one that is longer: a/ of a.
                values = [*TEXTS, "1", "2", "/a/", "/a/b", "//a", "/a/."]
                assert minted(more, TEXTS) <= minted(less, values), (one, other, answer)
            case Yes(witness):
                assert isinstance(witness, str)
                value = witness.removeprefix("files:")
                assert witness in minted(more, [value, f"{value}/"]), (one, other, answer)
                assert witness not in minted(less, [value, f"{value}/", f"/.{value}"]), (one, other, answer)
