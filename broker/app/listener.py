"""The address that is listened on."""

from __future__ import annotations

import errno
import socket

from broker.app.settings import Settings
from broker.domain.errors import ConfigurationError


def listen(settings: Settings) -> socket.socket:
    """Take the address; nobody is accepted yet. Raises `ConfigurationError`."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        mend = "end what listens there, or name another --port" if error.errno == errno.EADDRINUSE else "name another"
        raise ConfigurationError(f"--host {settings.host} --port {settings.port}: {error.strerror}; {mend}") from None
    return listener
