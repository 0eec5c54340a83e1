"""What schemathesis puts into requests, so that they get past the first check: real tokens and details, now and then.

It runs in schemathesis' own environment and imports nothing of the broker; `run.py` leaves the values in `FUZZ_VALUES`.
"""

from __future__ import annotations

import json
import os
import random

import schemathesis

VALUES: dict[str, list[str]] = json.loads(os.environ["FUZZ_VALUES"])
SHARE = 0.7


@schemathesis.hook
def before_call(context: object, case: schemathesis.Case, kwargs: dict[str, object]) -> None:
    """Replace form parameters by good values, each with its own chance, so that every check is the first to fail sometimes."""
    chance = random.Random(case.id)
    if isinstance(case.body, dict) and case.method == "POST":
        for name, good in VALUES.items():
            if (name in case.body or chance.random() < 0.5) and chance.random() < SHARE:
                case.body[name] = chance.choice(good)
        if chance.random() < SHARE:  # the header authenticates; a second way to do so would be all that is looked at
            case.body = {name: value for name, value in case.body.items() if not name.startswith("client_")}
    for name in ("tool", "version", "command"):
        if name in case.path_parameters and chance.random() < SHARE:
            case.path_parameters[name] = chance.choice(VALUES[f"path {name}"])
