"""What the rules look at: answers about one version, and about the step from one version to the next.

Pure values. Who fills them in has asked the validator and the prover; an answer is a yes with a witness, a no with a proof,
or unknown with what stood in the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from broker.domain.canonical import JsonObject
from broker.domain.contracts.contract_changes import ChangeClass
from broker.domain.policy.document import VersionPolicy
from broker.domain.schema.answers import Answer, Related
from broker.domain.schema.changes import Change


@dataclass(frozen=True, slots=True)
class Exposed:
    """A string argument that is a permission and that nothing bounds.

    because: `declared`, `name` or `use`. value: an attack of its kind. witness: accepted arguments that hold it.
    """

    pointer: str
    kind: str
    because: str
    value: str
    witness: JsonObject


@dataclass(frozen=True, slots=True)
class CarriedValue:
    """Whether a value that a template names can be one that a scope cannot carry; the witness is an argument object."""

    template: str
    pointer: str
    answer: Answer


@dataclass(frozen=True, slots=True)
class VersionFacts:
    """One version by itself.

    accepted:   the schema of what it accepts (the closed view); None where its contract has no one reading.
    reach:      for each of its scopes, whether an accepted input needs it; the witness is such an input.
    anything:   whether the contract's own schema accepts every object.
    undecided_exposure: permission arguments of which it could not be decided whether they are bounded, and why.
    """

    version: VersionPolicy
    accepted: JsonObject | None
    reach: Mapping[str, Answer]
    anything: bool
    exposed: tuple[Exposed, ...]
    undecided_exposure: tuple[tuple[str, Answer], ...]
    carried: tuple[CarriedValue, ...]

    @property
    def granted(self) -> frozenset[str]:
        """The templates of all scopes that some task grants."""
        return frozenset(scope for task in self.version.tasks.values() for scope in task.scopes)


@dataclass(frozen=True, slots=True)
class Moved:
    """An argument that is a permission, and whether what it may be has changed.

    because: why it is a permission. answer: a yes whose witness is a value that one version takes and the other does not.
    what:    in words, such as `is required now`.
    """

    pointer: str
    because: str
    what: str
    answer: Answer


@dataclass(frozen=True, slots=True)
class StepFacts:
    """From one version to its successor.

    closed:      the relation of the inputs as the gate accepts them.
    cut:         for each scope that the old version granted and the new one does not, nor binds: whether an input that
                 the new one accepts still needs it, by the old condition.
    bound:       for each scope that the new version binds, by the same text and placeholders: whether an accepted input that
                 needed the old scope needs none of those.
    conditions:  for each scope of both: inputs that both accept, which needed it and no longer do (lost), or the reverse; for
                 each scope that binds one, inputs that need it and did not need the one that it binds (gained).
    languages:   for each template that both grant: whether the scopes that it can become are fewer or more; the witness is
                 such a scope.
    moved:       the arguments that are permissions and have changed, or of which that is unknown; only looked at where inputs
                 and scopes moved apart.
    """

    old: VersionFacts
    new: VersionFacts
    closed: Related
    changes: tuple[Change, ...]
    change_class: ChangeClass
    cut: Mapping[str, Answer]
    bound: Mapping[str, Answer]
    conditions: Mapping[str, Related]
    languages: Mapping[str, Related]
    moved: tuple[Moved, ...]
