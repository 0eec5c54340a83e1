"""Work that takes long, aside from the event loop, one piece after the other.

1. Requests go on meanwhile: the work has a thread of its own, which hands the interpreter on often.
2. A broker that ends does not wait for it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


class Aside:
    """One for whatever may be done by one thread at a time."""

    def __init__(self) -> None:
        self._turn = threading.Lock()

    async def run(self, work: Callable[[], Result]) -> Result:
        """What the work returns or raises. Breaking the wait off does not break the work off."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Result] = loop.create_future()

        def settle(result: Result | None, error: BaseException | None) -> None:
            if done.done():
                return
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(result)  # type: ignore[arg-type]

        def run() -> None:
            with self._turn:
                try:
                    outcome: tuple[Result | None, BaseException | None] = (work(), None)
                except BaseException as error:  # whoever waits for it is told
                    outcome = (None, error)
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, *outcome)

        threading.Thread(target=run, name="aside", daemon=True).start()
        return await done
