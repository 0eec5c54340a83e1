"""`python -m tests.journeys.demo`: exit code 0 only if every step of the story did what it should."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from rich.console import Console

from .processes import ROOT, Processes, RunningProcess
from .stage import Stage, set_stage, start_all, wait_all
from .telling import WIDTH, Teller

INTERRUPTED = 130


def perform(folder: Path, teller: Teller) -> int:
    """Set a stage in a new folder, play the story on it, and end every process; the exit code."""
    began = time.perf_counter()
    teller.title("Mayfly: credentials that live for one tool call and die with the tool's version")
    teller.say("Starting an identity provider, the broker with its store, an MCP server and two APIs behind it …")
    stage = set_stage(folder)
    with Processes(folder / "logs") as processes:
        started = start_all(stage, processes)
        from .story import tell_story  # the MCP clients take seconds to import: time in which the processes start

        wait_all(started)
        _introduce(teller, stage, [process for process, _ in started], seconds=time.perf_counter() - began)
        return asyncio.run(tell_story(stage, teller))


def _introduce(teller: Teller, stage: Stage, started: Sequence[RunningProcess], *, seconds: float) -> None:
    teller.panel(
        f"running after {seconds:.1f} s",
        [
            ("idp", f"{stage.idp}   issuer of the people's tokens"),
            ("broker", f"{stage.broker}   issuer of the credentials, with an embedded Valkey"),
            ("mcp", f"{stage.mcp}   db.query 3 and 4, files.read 1, behind the gate"),
            ("database", f"{stage.database}   accepts credentials for https://db.internal"),
            ("files", f"{stage.files}   accepts credentials for https://files.internal"),
            ("processes", ", ".join(f"{process.name} {process.pid}" for process in started)),
        ],
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.journeys.demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="keep the folder with logs and data also after success")
    keep: bool = parser.parse_args().keep
    signal.signal(signal.SIGTERM, _interrupt)
    console = Console(highlight=False)
    console.width = min(WIDTH, console.width) if console.is_terminal else WIDTH
    folder = ROOT / ".demo" / f"run-{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)  # of a run long ago that had this pid
    teller = Teller(console)
    try:
        code = perform(folder, teller)
    except KeyboardInterrupt:
        teller.failed("interrupted; every process was ended")
        code = INTERRUPTED
    except Exception as error:  # the stage could not be set: no trace, but what to look at
        teller.failed(f"{type(error).__name__}: {error}")
        code = 1
    if code == 0 and not keep:
        shutil.rmtree(folder)
    else:
        teller.say(f"Logs, policies and data of this run: {folder}")
    return code


def _interrupt(number: int, frame: FrameType | None) -> None:
    """SIGTERM ends the demo as Ctrl-C does, so that no process is left behind."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
