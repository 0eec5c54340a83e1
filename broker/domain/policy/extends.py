"""`extends`: a version takes over what it does not restate.

1. `extends` names a version of the same file. Chains are followed; a circle is a problem.
2. `contract` and `digest` are taken over where absent. `arguments`, `scopes` and `tasks` are merged entry by entry.
3. An entry that is restated is restated whole: nothing of the old one remains.
4. `null` takes an entry away. Where there is none to take away, it is a problem: somebody believed there was.
5. `replaces`, `change` and `unrelated` speak about one step and are never taken over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from broker.domain.policy.located import Entry, Located, Problems

MAX_CHAIN: Final = 64
_TAKEN_OVER: Final = ("contract", "digest")
_MERGED: Final = ("arguments", "scopes", "tasks")


def resolve_versions(versions: Located, problems: Problems) -> dict[str, Located]:
    """Every version of a file with what it extends put in; those in a circle are left out."""
    entries = {name: entry for name, entry in versions.entries().items() if entry.value.readable}
    done: dict[str, Located] = {}
    for name in entries:
        _resolve(name, entries, done, (), problems)
    return done


def _resolve(
    name: str, entries: Mapping[str, Entry], done: dict[str, Located], trail: tuple[str, ...], problems: Problems
) -> Located | None:
    if name in done:
        return done[name]
    node = entries[name].value
    parent_name = node.text("extends")
    parent: Located | None = None
    if parent_name is not None:
        place = node.get("extends")
        assert place is not None
        if parent_name in (*trail, name):
            if parent_name == name or not trail or parent_name == trail[0]:
                circle = " → ".join((*trail, name, parent_name))
                problems.report(place, "version.extends", f"{circle} is a circle", mend="let one stand by itself")
            return None
        if len(trail) >= MAX_CHAIN:
            message = f"more than {MAX_CHAIN} versions extend one another"
            problems.report(place, "version.extends", message, mend="state one of them in full")
            return None
        if parent_name not in entries:
            known = ", ".join(sorted(entries))
            message = f'the version "{parent_name}" is not in this file; it has {known}'
            problems.report(place, "version.extends", message, mend="name a version of this file")
            return None
        parent = _resolve(parent_name, entries, done, (*trail, name), problems)
        if parent is None:
            return None
    done[name] = _merged(node, parent, problems)
    return done[name]


def _merged(node: Located, parent: Located | None, problems: Problems) -> Located:
    made = dict(node.entries())
    inherited = parent.entries() if parent is not None else {}
    for key in _TAKEN_OVER:
        if key not in made and key in inherited:
            made[key] = inherited[key]
    for key in _MERGED:
        own = made.get(key)
        if own is not None and own.value.readable:
            below = inherited[key].value.entries() if key in inherited else {}
            made[key] = Entry(own.key, replace(own.value, value=_merged_entries(key, own.value, below, problems)))
        elif own is None and key in inherited:
            made[key] = inherited[key]
    return replace(node, value=made)


def _merged_entries(key: str, own: Located, inherited: Mapping[str, Entry], problems: Problems) -> Mapping[str, Entry]:
    made = dict(inherited)
    for name, entry in own.entries().items():
        if entry.value.value is not None:
            made[name] = entry
        elif name in made:
            del made[name]
        else:
            message = f"null takes {name} out of {key}, but there is none to take away"
            problems.report(entry.key, "version.extends", message, mend="take the line out, or mend the name")
    return made
