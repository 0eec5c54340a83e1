"""`broker policy diff` as text for people, and as JSON.

    db.query@3 → db.query@4   breaking
      inputs: incomparable
        accepted before, refused now: {"mode": "write", …}
      + policies/…:12:7  `timeout` (optional integer) was added

`-`: callers, readers or rights lose; `+`: they gain; `±`: either; `=`: neither; `~`: words alone. Colours: on a terminal only.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import click

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.contracts.contract_changes import ChangeClass
from broker.domain.policy.access import spell_allow
from broker.domain.policy.differing import Appearing, Differing, ToldChange, ToldGrant
from broker.domain.policy.findings import Place
from broker.domain.policy.grant_changes import Direction
from broker.domain.schema.answers import Answer, No, Related, Unknown, Yes
from broker.domain.schema.changes import Change, ChangeKind, Effect
from broker.domain.schema.wording import difference, plain, quoted, sentences

Told: TypeAlias = "Differing | Appearing"

_WITNESS: Final = 300
_WIDTH: Final = 110
_MARK: Final = re.compile(r"\[-|-\]|\{\+|\+\}")
_PIECE: Final = re.compile(r"\[-.*?-\]|\{\+.*?\+\}", re.DOTALL)
_EFFECTS: Final = {
    Effect.NARROWS: ("-", "red"),
    Effect.WIDENS: ("+", "green"),
    Effect.EITHER: ("±", "yellow"),
    Effect.NEITHER: ("=", None),
    Effect.WORDS: ("~", "cyan"),
}
_DIRECTIONS: Final = {
    Direction.MORE: ("+", "green"),
    Direction.LESS: ("-", "red"),
    Direction.OTHER: ("±", "yellow"),
    Direction.UNKNOWN: ("?", "magenta"),
}
_WORDED: Final = (ChangeKind.DESCRIPTION_CHANGED,)
_MEANINGS: Final = {
    ChangeClass.NONE: "nothing that a caller, a reader or a model could tell",
    ChangeClass.SEMANTIC_ONLY: "words alone changed; a model does what they say, so somebody has to read them",
    ChangeClass.BREAKING: "what callers or readers count on may be refused or missing",
    ChangeClass.RENAMED: "the same under another name; who knows the old one is refused, or stops calling without an error",
    ChangeClass.PROSE_BECAME_STRUCTURE: "a rule of the description is a constraint now: a model that took it for advice is refused",
    ChangeClass.COMPATIBLE: "no input is lost",
}


def as_text(told: Sequence[Told]) -> str:
    """Everything that differs, for people."""
    blocks = ["\n".join(_appearing(one) if isinstance(one, Appearing) else _differing(one)) for one in told]
    return "\n\n".join(blocks) if blocks else "nothing differs"


def as_json(told: Sequence[Told]) -> JsonObject:
    """Everything that differs, for programs."""
    return {
        "format": 1,
        "differs": any(isinstance(one, Appearing) or one.differs for one in told),
        "compared": [_json_appearing(one) if isinstance(one, Appearing) else _json_differing(one) for one in told],
    }


def _differing(told: Differing) -> Iterator[str]:
    how = " (edited in place)" if told.how == "edited" else ""
    yield click.style(f"{told.old} → {told.new}{how}", bold=True)
    yield f"  class: {told.change_class.value} ({_MEANINGS[told.change_class]})"
    yield from _relation("inputs", told.closed)
    if told.raw.relation is not told.closed.relation:
        yield from _relation("inputs, names that are not listed let through", told.raw)
    if told.scopes:
        yield f"  scopes: {told.scopes}"
    if not told.differs:
        yield "  nothing differs"
    if told.changes:
        yield "  contract:"
    for one in told.changes:
        yield from _change(one)
    for about, title in (
        ("audience", "audience"), ("scope", "scopes"), ("task", "tasks"), ("argument", "arguments")
    ):  # fmt: skip
        grants = [one for one in told.grants if one.grant.about == about]
        if grants:
            yield f"  {title}:"
        for grant in grants:
            yield from _grant(grant)


def _relation(title: str, related: Related) -> Iterator[str]:
    yield f"  {title}: {related.relation.value}"
    for answer, shows in (
        (related.lost, "accepted before, refused now"),
        (related.gained, "refused before, accepted now"),
    ):
        match answer:
            case Yes(witness):
                yield f"    {shows}: {quoted(witness, _WITNESS)}"
            case Unknown(blockers):
                yield f"    {shows}: could not be decided"
                for blocker in blockers[:3]:
                    yield f"      {plain(str(blocker) if blocker.keyword else blocker.why, _WITNESS)}"
            case No():
                pass


def _change(told: ToldChange) -> Iterator[str]:
    effect = told.change.effect
    if told.change.output:  # what a tool gives: its readers lose where more values may come
        effect = {Effect.NARROWS: Effect.WIDENS, Effect.WIDENS: Effect.NARROWS}.get(effect, effect)
    sign, colour = _EFFECTS[effect]
    yield f"  {click.style(sign, fg=colour)} {_spelled(told.place)}: {told.words}"
    change = told.change
    if change.kind in _WORDED and isinstance(change.before, str) and isinstance(change.after, str):
        yield from _reworded(change.before, change.after)


def _reworded(before: str, after: str) -> Iterator[str]:
    """The sentences that changed, with what went and what came in place."""
    marks = {"same": ("", ""), "gone": ("[-", "-]"), "new": ("{+", "+}")}
    text = ""
    for piece in difference(before, after):
        # A line that ends stays one; whatever else a terminal would act on is spelled out.
        shown = "\n".join(plain(line, len(line) + 1) for line in piece.text.split("\n"))
        text += f"{marks[piece.part][0]}{shown}{marks[piece.part][1]}"
    open_mark = ""
    for sentence in sentences(text):
        told = bool(open_mark or _MARK.search(sentence))
        marked = _MARK.findall(sentence)
        open_mark = open_mark if not marked else marked[-1] if marked[-1] in ("[-", "{+") else ""
        if told:
            lines = textwrap.wrap(sentence, _WIDTH, break_long_words=False, break_on_hyphens=False)
            yield from (f"      {line}" for line in _coloured("\n".join(lines)).split("\n"))


def _coloured(text: str) -> str:
    """The marked pieces in colours, each line by itself."""

    def styled(found: re.Match[str]) -> str:
        colour = "red" if found[0].startswith("[-") else "green"
        return "\n".join(click.style(line, fg=colour) for line in found[0].split("\n"))

    return _PIECE.sub(styled, text)


def _grant(told: ToldGrant) -> Iterator[str]:
    grant = told.grant
    sign, colour = _DIRECTIONS[grant.direction]
    yield f"  {click.style(sign, fg=colour)} {_spelled(told.place)}: {plain(grant.name, 120)} {plain(grant.what, 400)}"
    if grant.shows:
        yield f"      {grant.shows}: {quoted(grant.witness, _WITNESS)}"


def _appearing(told: Appearing) -> Iterator[str]:
    version = told.version
    what = "is gone" if told.gone else "is new, and follows no other"
    yield click.style(f"{version.tool}@{version.version} {what}", bold=True)
    sign, colour = ("-", "red") if told.gone else ("+", "green")
    yield f"  {click.style(sign, fg=colour)} {_spelled(told.place)}"
    for task in version.tasks.values():
        scopes = ", ".join(task.scopes) or "no scope"
        yield f"  {click.style(sign, fg=colour)} task {task.task}: {spell_allow(task)}, {task.ttl_seconds} s, {scopes}"


def _spelled(place: Place) -> str:
    return plain(str(place), 400)


def _json_differing(told: Differing) -> JsonObject:
    return {
        "old": told.old,
        "new": told.new,
        "how": told.how,
        "class": told.change_class.value,
        "inputs": _json_related(told.closed),
        "inputs_open": _json_related(told.raw),
        "scopes": told.scopes or None,
        "changes": [_json_change(one.change, one) for one in told.changes],
        "grants": [
            {
                "about": one.grant.about,
                "name": one.grant.name,
                "what": one.grant.what,
                "direction": one.grant.direction.value,
                "place": _json_place(one.place),
                **({"witness": one.grant.witness, "shows": one.grant.shows} if one.grant.shows else {}),
            }
            for one in told.grants
        ],
    }


def _json_change(change: Change, told: ToldChange) -> JsonObject:
    return {
        "kind": change.kind.value,
        "effect": change.effect.value,
        "part": change.part,
        "words": told.words,
        "pointer_old": change.pointer_old,
        "pointer_new": change.pointer_new,
        "before": change.before,
        "after": change.after,
        "said_before": change.prose or None,
        "place": _json_place(told.place),
    }


def _json_appearing(told: Appearing) -> JsonObject:
    return {
        "old" if told.gone else "new": f"{told.version.tool}@{told.version.version}",
        "how": "gone" if told.gone else "new",
        "place": _json_place(told.place),
    }


def _json_related(related: Related) -> JsonObject:
    return {
        "relation": related.relation.value,
        "lost": _json_answer(related.lost),
        "gained": _json_answer(related.gained),
    }


def _json_answer(answer: Answer) -> JsonValue:
    match answer:
        case Yes(witness):
            return {"answer": "yes", "witness": witness}
        case No(by):
            return {"answer": "no", "by": by}
        case Unknown(blockers):
            return {"answer": "unknown", "why": [str(blocker) for blocker in blockers]}


def _json_place(place: Place) -> JsonObject:
    return {
        "file": place.file,
        "line": place.line,
        "column": place.column,
        "pointer": place.pointer,
        "tree": place.tree,
    }
