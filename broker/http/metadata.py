"""Authorization server metadata (RFC 8414 §2), checked by Authlib's model at start. No OpenID discovery: not an OpenID provider."""

from __future__ import annotations

from typing import Any

from authlib.oauth2.rfc8414 import AuthorizationServerMetadata

from broker.domain.errors import ConfigurationError
from broker.domain.tokens.exchange_request import DETAIL_TYPE, GRANT_TYPE

AUTH_METHODS = ["private_key_jwt", "client_secret_basic", "client_secret_post"]
ASSERTION_ALGORITHMS = ["ES256", "ES384", "RS256", "PS256", "EdDSA"]


def make_metadata(issuer: str) -> dict[str, Any]:
    """The metadata document of an issuer. Raises `ConfigurationError` where the issuer cannot be one."""
    document: dict[str, Any] = {
        "issuer": issuer,
        "token_endpoint": f"{issuer}/token",
        "jwks_uri": f"{issuer}/jwks.json",
        "introspection_endpoint": f"{issuer}/introspect",
        "revocation_endpoint": f"{issuer}/revoke",
        "response_types_supported": [
            "none"
        ],  # required, and never empty (RFC 8414 §2, §3.2); there is no authorization endpoint
        "grant_types_supported": [GRANT_TYPE],
        "authorization_details_types_supported": [DETAIL_TYPE],
        "service_documentation": f"{issuer}/docs/errors",
    }
    for endpoint in ("token", "introspection", "revocation"):
        document[f"{endpoint}_endpoint_auth_methods_supported"] = AUTH_METHODS
        document[f"{endpoint}_endpoint_auth_signing_alg_values_supported"] = ASSERTION_ALGORITHMS
    # The model knows https only; the loopback issuer of a trial is http.
    checked = dict(document)
    for name, value in checked.items():
        if isinstance(value, str) and value.startswith("http://"):
            checked[name] = "https://" + value.removeprefix("http://")
    try:
        AuthorizationServerMetadata(checked).validate()
    except ValueError as error:
        raise ConfigurationError(f"--issuer {issuer}: {error}") from None
    return document
