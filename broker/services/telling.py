"""Telling what differs: two contracts, two versions, two folders, with the relation of what they accept.

The facts are those that the rules go by; nothing is refused here.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.domain.contracts.contract_changes import classify, contract_changes
from broker.domain.contracts.json_places import line_and_column
from broker.domain.policy.claims import scopes_relation
from broker.domain.policy.differing import (
    Appearing,
    ContractText,
    Differing,
    Step,
    ToldChange,
    ToldGrant,
    steps_between,
)
from broker.domain.policy.findings import Place
from broker.domain.policy.grant_changes import grant_changes
from broker.domain.policy.tree import PolicyTree
from broker.domain.schema.answers import Blocker, Related, Unknown
from broker.domain.schema.change_words import words
from broker.domain.schema.changes import Change
from broker.domain.schema.closure import accepted_inputs, open_inputs
from broker.domain.schema.dialect import SchemaError
from broker.ports.schemas import SchemaArithmetic
from broker.services.checking import PolicyChecker

_LONGEST_LINE = 200


class Telling:
    """Compares; may be used from one thread at a time."""

    def __init__(self, arithmetic: SchemaArithmetic) -> None:
        self._arithmetic = arithmetic
        self._checker = PolicyChecker(arithmetic)

    def contracts(self, old: ContractText, new: ContractText) -> Differing:
        """Two contracts, whatever their tools are called."""
        before, after = old.contract.input_schema, new.contract.input_schema
        try:
            raw = self._arithmetic.relate(open_inputs(before), open_inputs(after))
            closed = self._arithmetic.relate(accepted_inputs(before), accepted_inputs(after))
        except SchemaError as error:
            raw = closed = Related(*[Unknown((Blocker("", "", str(error)),))] * 2)
        changes = contract_changes(old.contract, new.contract)
        told = tuple(ToldChange(change, words(change), _place(change, old, new)) for change in changes)
        return Differing(old.file, new.file, "contracts", raw, closed, classify(changes, closed), told)

    def step(self, step: Step) -> Differing:
        """Two versions, with what they grant."""
        facts = self._checker.step(step.old, step.new)
        return Differing(
            old=_called(step.old_tree, step.old.tool, step.old.version),
            new=_called(step.new_tree, step.new.tool, step.new.version),
            how=step.how,
            raw=self._checker.open_relation(step.old, step.new),
            closed=facts.closed,
            change_class=facts.change_class,
            changes=tuple(ToldChange(change, words(change), _stands(change, step)) for change in facts.changes),
            scopes=scopes_relation(facts),
            grants=tuple(
                ToldGrant(
                    grant,
                    step.old_tree.place(step.old.tool, step.old.version, grant.pointer)
                    if grant.gone
                    else step.new_tree.place(step.new.tool, step.new.version, grant.pointer),
                )
                for grant in grant_changes(facts)
            ),
        )

    def folders(self, old: PolicyTree, new: PolicyTree) -> Iterator[Differing | Appearing]:
        """Two folders: every version that differs, appears or is gone."""
        for found in steps_between(old, new):
            if isinstance(found, Appearing):
                yield found
                continue
            told = self.step(found)
            if told.differs or found.how == "step":
                yield told


def _called(tree: PolicyTree, tool: str, version: str) -> str:
    return f"{tool}@{version} ({tree.label})" if tree.label else f"{tool}@{version}"


def _stands(change: Change, step: Step) -> Place:
    """Where a change stands: in the new contract, or in the old one where it is gone from the new."""
    if change.pointer_new is not None:
        return step.new_tree.contract_place(step.new.tool, step.new.version, change.pointer_new)
    return step.old_tree.contract_place(step.old.tool, step.old.version, change.pointer_old or "")


def _place(change: Change, old: ContractText, new: ContractText) -> Place:
    side, pointer = (new, change.pointer_new) if change.pointer_new is not None else (old, change.pointer_old or "")
    line, column = line_and_column(side.text, pointer)
    source = side.text.splitlines()[line - 1] if line <= len(side.text.splitlines()) else ""
    return Place(side.file, line, column, pointer, source if len(source) <= _LONGEST_LINE else "")
