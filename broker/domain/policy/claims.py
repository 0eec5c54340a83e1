"""What an author says of a step, held against what is so.

| rule            | refused when                                                                       |
|-----------------|------------------------------------------------------------------------------------|
| `change.claim`  | `change:` says something else of inputs, scopes or class than is computed              |
| `words.changed` | only words changed, and `change: {class: semantic only}` does not acknowledge it      |
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.domain.contracts.contract_changes import ChangeClass
from broker.domain.policy.facts import StepFacts
from broker.domain.policy.findings import Finding, RuleId, Severity
from broker.domain.policy.lockstep import reductions
from broker.domain.policy.templates import binds
from broker.domain.policy.tree import PolicyTree
from broker.domain.policy.undecided import undecided
from broker.domain.schema.answers import Relation, Unknown, Yes
from broker.domain.schema.change_words import words

_SHOWN = 6


def scopes_relation(step: StepFacts) -> str:
    """What became of all that the version grants: `equal`, `reduced`, `widened`, `incomparable` or `undecided`."""
    reduced, unknown = reductions(step)
    new_terms = step.new.granted - step.old.granted
    grown = [term for term in new_terms if not any(binds(scope, term) for scope in step.old.granted)]
    widened = bool(grown) or any(isinstance(related.gained, Yes) for related in step.languages.values())
    unsure = bool(unknown) or any(isinstance(related.gained, Unknown) for related in step.languages.values())
    if reduced and widened:
        return "incomparable"
    if unsure:
        return "undecided"
    return "reduced" if reduced else "widened" if widened else "equal"


def check_claims(step: StepFacts, tree: PolicyTree) -> Iterator[Finding]:
    """What the author says that is not so, and what has to be acknowledged."""
    new = step.new.version
    claim = new.change
    computed = (
        ("inputs", claim.inputs if claim else None, step.closed.relation.value),
        ("scopes", claim.scopes if claim else None, scopes_relation(step)),
        ("class", claim.class_ if claim else None, step.change_class.value),
    )
    for name, said, found in computed:
        if said is None or said == found:
            continue
        if found == Relation.UNDECIDED:
            answer = next((one for one in (step.closed.lost, step.closed.gained) if isinstance(one, Unknown)), None)
            if name == "inputs" and answer is not None:
                asked = f"whether the inputs are {said}, as the author says"
                yield undecided(new, tree, pointer=f"/change/{name}", key=name, asked=asked, answer=answer)
                continue
        yield _claim(step, tree, name, said, found)
    acknowledged = claim is not None and claim.class_ == ChangeClass.SEMANTIC_ONLY
    if step.change_class is ChangeClass.SEMANTIC_ONLY and not acknowledged:
        yield _words(step, tree)


def _claim(step: StepFacts, tree: PolicyTree, name: str, said: str, found: str) -> Finding:
    new = step.new.version
    witness = None
    shows = ""
    if name == "inputs":
        for answer, words_ in (
            (step.closed.lost, "accepted before, refused now"),
            (step.closed.gained, "refused before, accepted now"),
        ):
            if isinstance(answer, Yes) and witness is None:
                witness, shows = answer.witness, words_
    return Finding(
        rule=RuleId.CHANGE_CLAIM,
        severity=Severity.REFUSED,
        tool=new.tool,
        version=new.version,
        key=name,
        place=tree.place(new.tool, new.version, f"/change/{name}"),
        what=f"change says of the {name}: {said}; computed: {found}",
        why="reviewers read it first, so it has to be so",
        mend=f"write {name}: {found}, or leave it out; `broker policy diff` shows why",
        witness=witness,
        has_witness=bool(shows),
        shows=shows,
    )


def _words(step: StepFacts, tree: PolicyTree) -> Finding:
    new = step.new.version
    said = [words(change) for change in step.changes]
    more = f"; and {len(said) - _SHOWN} more" if len(said) > _SHOWN else ""
    first = step.changes[0] if step.changes else None
    place = tree.contract_place(new.tool, new.version, (first.pointer_new or "") if first else "")
    return Finding(
        rule=RuleId.WORDS_CHANGED,
        severity=Severity.REFUSED,
        tool=new.tool,
        version=new.version,
        key="words",
        place=tree.place(new.tool, new.version, "/contract"),
        what=f"only words changed: {'; '.join(said[:_SHOWN])}{more}",
        why="a model does what the words say, and no validator reads them",
        mend="read them as a model would, then acknowledge it: change: {class: semantic only}",
        related=((place, "the first of them"),),
    )
