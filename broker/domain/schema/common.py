"""Whether one value is accepted by several schemas.

1. One of the first values that come to mind is accepted by every validator: yes, with the smallest such value.
2. The prover shows that there is none: no (`cover`).
3. It shows that once what patterns imply has been written down: no (`languages`).
4. A longer search, with strings that tell the patterns apart: yes.
5. Unknown, with the hard keywords.

Each schema is compiled by itself, so a reference in one never leads into another, and `unevaluatedProperties` sees what
stands beside it in its own schema alone. A no has to hold in every reading of the patterns, a yes in each that accepts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.schema.answers import Answer, Blocker, No, Unknown, Yes
from broker.domain.schema.bare import bare
from broker.domain.schema.blockers import blockers_of, unportable_blockers
from broker.domain.schema.dialect import SchemaError
from broker.domain.schema.implied import with_implied
from broker.domain.schema.plain import plain_values
from broker.domain.schema.proof import Accepts, Tools
from broker.domain.schema.readings import Readings, readings
from broker.domain.schema.relate import unreadable
from broker.domain.schema.telling import telling_strings
from broker.domain.schema.witness import candidates, shrink

FEW: Final = 3_000
MANY: Final = 20_000


def common(schemas: Sequence[JsonObject], tools: Tools) -> Answer:
    """Whether all the schemas accept one value; the witness is such a value."""
    made: list[JsonObject] = []
    accepting: list[Accepts] = []
    for schema in schemas:
        try:
            made.append(bare(schema))
        except SchemaError as error:
            return unreadable(str(error))
        accepts = tools.compiled(schema)
        if isinstance(accepts, Blocker):
            return Unknown((accepts,))
        accepting.append(accepts)
    read = readings(made)
    found = _search(read, accepting, tools, limits=())
    if found is not None:
        return found
    proof, stopped = _proof(read, tools)
    if proof is not None:
        return proof
    found = _search(read, accepting, tools, limits=(FEW, MANY))
    if found is not None:
        return found
    blockers = [Blocker("", "", stopped)] if stopped else []
    blockers.extend(unportable_blockers(schemas, read.loose))
    blockers.extend(blockers_of(schemas))
    return Unknown(tuple(blockers) or (Blocker("", "", "neither a proof nor a common value was found"),))


def _proof(read: Readings, tools: Tools) -> tuple[No | None, str]:
    stopped = ""
    ways: list[tuple[str, list[Sequence[JsonObject]]]] = [("cover", [reading.schemas for reading in read.all])]
    implied = [with_implied(reading.schemas) for reading in read.all]
    if any(schemas is not None for schemas in implied):
        ways.append(("languages", [more or reading.schemas for more, reading in zip(implied, read.all, strict=True)]))
    for by, all_readings in ways:
        if stopped:
            break  # what was too much once is not less with more written down
        for schemas in all_readings:
            empty, why = tools.empty(schemas)
            stopped = stopped or why
            if not empty:
                break
        else:
            return No(by), ""
    return None, stopped


def _search(read: Readings, accepting: Sequence[Accepts], tools: Tools, *, limits: Sequence[int]) -> Yes | None:
    """A value that all accept: plain ones, then the search with each budget in turn."""
    every = list(accepting)
    for reading in read.all[1:]:
        for schema in reading.schemas if reading.accepting else ():
            accepts = tools.compiled(schema)
            if isinstance(accepts, Blocker):
                return None
            every.append(accepts)

    def holds(value: JsonValue) -> bool:
        return all(accepts(value) for accepts in every) and read.allows(value)

    schemas = read.all[0].schemas
    strings = telling_strings(schemas) if limits else ()
    for values in (
        plain_values(schemas),
        *(candidates(schemas, strings=strings, limit=limit) for limit in limits),
    ):
        found = _first(values, holds)
        if found is not None:
            return Yes(shrink(found[0], holds))
    return None


def _first(values: Iterable[JsonValue], holds: Accepts) -> tuple[JsonValue] | None:
    return next(((value,) for value in values if holds(value)), None)
