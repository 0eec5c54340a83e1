"""The tokens that the introspection and revocation vectors name."""

from __future__ import annotations

import base64
import json

import jwt

from broker_parts import Wire, private_key, subject_token, unverified_claims


def make_credential(form: str, live: str, wire: Wire) -> str:
    header, payload, signature = live.split(".")
    match form:
        case "live":
            return live
        case "revoked":
            assert wire.revoke(live).status_code == 200
            return live
        case "forged":  # its claims, jti included, under a key of the forger's, who names ours
            kid = jwt.get_unverified_header(live)["kid"]
            headers = {"kid": kid, "typ": "at+jwt"}
            return jwt.encode(unverified_claims(live), private_key("forger"), "ES256", headers=headers)
        case "unsigned":
            plain = base64.urlsafe_b64encode(json.dumps({"alg": "none", "typ": "at+jwt"}).encode()).decode().rstrip("=")
            return f"{plain}.{payload}."
        case "altered":
            claims = {**unverified_claims(live), "scope": "ticket.create ticket.read"}
            changed = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
            return f"{header}.{changed}.{signature}"
        case "subject":
            return subject_token()
        case _:
            return "xyz"
