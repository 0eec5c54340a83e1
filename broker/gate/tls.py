"""What TLS connections of a gate trust: read once, since reading it takes longer than everything else a client is made of."""

from __future__ import annotations

import ssl
from functools import cache

import httpx2


@cache
def tls_context(*, trust_env: bool) -> ssl.SSLContext:
    """The usual authorities; trust_env: or those that SSL_CERT_FILE and SSL_CERT_DIR name."""
    return httpx2.create_ssl_context(trust_env=trust_env)
