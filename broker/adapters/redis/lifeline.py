"""Become the store's server, tied to the life of the process that asked for it.

Run as a script: `lifeline.py PARENT_PID LOCK_FD PROGRAM ARGUMENT…`.

1. It writes its process id into the locked file that it was handed; the lock stays with it, and so with the server.
2. On Linux it asks the kernel for a SIGKILL when its parent dies: a store without its broker serves nobody, and what it
   has acknowledged is on disk already. (Done here, and not between fork and exec of the broker, since that is no place
   for Python code in a process with threads.) Elsewhere the next broker on the same directory ends the orphan.
3. It replaces itself with the program, and keeps its process id.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    parent, lock, program = int(arguments[0]), int(arguments[1]), arguments[2]
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # it died before we could ask
            return
    os.execv(program, arguments[2:])  # noqa: S606


if __name__ == "__main__":
    main(sys.argv[1:])
