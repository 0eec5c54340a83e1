"""Changes from one schema to another: what there is to say of them.

| kinds                                | said of                                                                   |
|--------------------------------------|-----------------------------------------------------------------------------|
| `property-…`, `required-…`           | the names that an object has, and those that have to be there                 |
| `type-…`, `enum-…`, `const-…`        | which values there are                                                        |
| `pattern-…`, `upper-…`, `lower-…`, … | what a value has to be like                                                   |
| `unknown-…`                          | names that the schema does not list                                           |
| `branch-…`, `constraint-…`           | `anyOf`, `oneOf`, `allOf`, and keywords that hold a schema                     |
| `title-…`, `description-…`, …        | words: no validator reads them (`format` and `default` are among them)         |

1. A change says by itself whether it narrows what is accepted, widens it, may do either (inside `oneOf`, `not`, `if`), does
   neither in the closed view, or is about words alone. What the whole step does is the relation's to say, not the list's.
2. Pointers lead to where it stands; None on the side where it does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeAlias

from broker.domain.canonical import JsonValue

Part: TypeAlias = Literal["input", "output", "tool"]


class ChangeKind(StrEnum):
    """What kind of change it is; a kind may be added, never renamed or given another meaning."""

    PROPERTY_ADDED_OPTIONAL = "property-added-optional"
    PROPERTY_ADDED_REQUIRED = "property-added-required"
    PROPERTY_REMOVED = "property-removed"
    PROPERTY_RENAMED = "property-renamed"
    REQUIRED_ADDED = "required-added"
    REQUIRED_REMOVED = "required-removed"
    TYPE_CHANGED = "type-changed"
    ENUM_ADDED = "enum-added"
    ENUM_REMOVED = "enum-removed"
    ENUM_VALUES_ADDED = "enum-values-added"
    ENUM_VALUES_REMOVED = "enum-values-removed"
    CONST_CHANGED = "const-changed"
    PATTERN_ADDED = "pattern-added"
    PATTERN_CHANGED = "pattern-changed"
    PATTERN_REMOVED = "pattern-removed"
    UPPER_BOUND_TIGHTENED = "upper-bound-tightened"
    UPPER_BOUND_LOOSENED = "upper-bound-loosened"
    LOWER_BOUND_TIGHTENED = "lower-bound-tightened"
    LOWER_BOUND_LOOSENED = "lower-bound-loosened"
    MULTIPLE_CHANGED = "multiple-changed"
    UNIQUE_REQUIRED = "unique-items-required"
    UNIQUE_LIFTED = "unique-items-lifted"
    UNKNOWN_REFUSED = "unknown-names-refused"
    UNKNOWN_ACCEPTED = "unknown-names-accepted"
    DEPENDENCY_ADDED = "dependency-added"
    DEPENDENCY_REMOVED = "dependency-removed"
    BRANCH_ADDED = "branch-added"
    BRANCH_REMOVED = "branch-removed"
    CONSTRAINT_ADDED = "constraint-added"
    CONSTRAINT_CHANGED = "constraint-changed"
    CONSTRAINT_REMOVED = "constraint-removed"
    NOT_COMPARED = "not-compared"
    DIALECT_CHANGED = "dialect-changed"
    FORMAT_CHANGED = "format-changed"
    DEFAULT_ADDED = "default-added"
    DEFAULT_CHANGED = "default-changed"
    DEFAULT_REMOVED = "default-removed"
    TITLE_CHANGED = "title-changed"
    DESCRIPTION_CHANGED = "description-changed"
    EXAMPLES_CHANGED = "examples-changed"
    ANNOTATION_CHANGED = "annotation-changed"
    TOOL_RENAMED = "tool-renamed"
    OUTPUT_ADDED = "output-schema-added"
    OUTPUT_REMOVED = "output-schema-removed"


class Effect(StrEnum):
    """What a change does by itself to what is accepted (rule 1)."""

    NARROWS = "narrows"
    WIDENS = "widens"
    EITHER = "either"
    NEITHER = "neither"
    WORDS = "words"


@dataclass(frozen=True, slots=True)
class Change:
    """One change.

    where:  the value it is about, such as `filter.mode` or `tags[]`; empty is the whole object.
    aside:  which part of its schema, such as `option 2`; empty where it is the schema itself.
    before, after: what stands at the pointers, or what is left of it and what is new (values of an enum).
    detail: the keyword, or what a property was or is, such as `optional integer`.
    prose:  the words of the old contract that had already said so; empty where none did.
    part:   whether it is about what a tool takes, what it gives, or the tool itself.
    """

    kind: ChangeKind
    pointer_old: str | None
    pointer_new: str | None
    before: JsonValue = None
    after: JsonValue = None
    effect: Effect = Effect.WORDS
    where: str = ""
    aside: str = ""
    detail: str = ""
    prose: str = ""
    part: Part = "input"

    @property
    def output(self) -> bool:
        """Whether it is about what a tool gives."""
        return self.part == "output"

    @property
    def narrows(self) -> bool:
        """Whether the change by itself may make the tool accept less."""
        return self.part == "input" and self.effect in (Effect.NARROWS, Effect.EITHER)

    @property
    def widens(self) -> bool:
        """Whether the change by itself may make the tool accept more, or give what it did not."""
        return self.effect in (Effect.WIDENS, Effect.EITHER)
