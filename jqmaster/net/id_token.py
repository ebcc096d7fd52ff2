"""Check OpenID Connect ID tokens: their signer, audience, login and expiry."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from joserfc import jws, jwt
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key

from jqmaster.errors import UnauthorizedError

# Accept only signatures with a key that only the provider has. So `none`, and HMAC with the client's secret, are
# not accepted.
ALGORITHMS: Final = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519",
)  # fmt: skip
# Maximum difference between the clocks of the provider and this machine.
CLOCK_SKEW_S: Final = 60
# Maximum age of an ID token. The provider creates a token for the present login, so an older token is a copy.
MAX_AGE_S: Final = 600


class UnknownKeyError(Exception):
    """The token is signed with a key that is not among the known keys."""


class _Registry(jws.JWSRegistry):
    # Allow long headers, because some providers include certificates.
    max_header_length = 8192


def import_keys(document: Mapping[str, Any]) -> list[Key]:
    """Return the keys of a JWKS document that can verify signatures. An entry that cannot be read is left out."""
    found: list[Key] = []
    entries = document.get("keys")
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict) or entry.get("use", "sig") != "sig" or entry.get("kty") == "oct":
            continue
        try:
            found.append(JWKRegistry.import_key(entry))
        except (JoseError, ValueError, TypeError, KeyError, RecursionError):
            continue
    return found


def verify(
    token: str,
    keys: Sequence[Key],
    *,
    issuer: str,
    client_id: str,
    nonce: str,
    now_s: int,
) -> dict[str, Any]:
    """Return the claims of a valid ID token. Raise UnknownKeyError, or an UnauthorizedError that names the fault."""
    try:
        header = jws.extract_compact(token.encode()).headers()
        key = _key_of(header, keys)
        # Turn off the strict check. It refuses unknown headers, but RFC 7515 requires that they are ignored.
        registry = _Registry(algorithms=ALGORITHMS, strict_check_header=False)
        claims = jwt.decode(token, key, algorithms=list(ALGORITHMS), registry=registry).claims
        jwt.JWTClaimsRegistry(
            now=now_s,
            leeway=CLOCK_SKEW_S,
            iss={"essential": True, "value": issuer},
            sub={"essential": True},
            aud={"essential": True, "value": client_id},
            exp={"essential": True},
            iat={"essential": True},
            nonce={"essential": True, "value": nonce},
        ).validate(claims)
    except JoseError as exc:
        raise _refused(str(exc)) from None
    except (ValueError, TypeError, KeyError, RecursionError):
        raise _refused("it cannot be read") from None
    audience = claims["aud"]
    if isinstance(audience, list) and len(audience) > 1 and claims.get("azp") != client_id:
        raise _refused("it is for several clients, and azp does not name this one")
    if claims.get("azp", client_id) != client_id:
        raise _refused("azp names another client")
    if claims["iat"] < now_s - MAX_AGE_S - CLOCK_SKEW_S:
        raise _refused("it was issued too long ago")
    return claims


def _key_of(header: Mapping[str, Any], keys: Sequence[Key]) -> Key:
    if header.get("alg") not in ALGORITHMS:
        raise _refused(f"the algorithm {str(header.get('alg'))[:20]} is not accepted")
    kid = header.get("kid")
    fitting = [key for key in keys if kid is None or key.kid == kid]
    if not fitting:
        raise UnknownKeyError
    if len(fitting) > 1:
        raise _refused("it does not say which of several keys signed it")
    return fitting[0]


def _refused(why: str) -> UnauthorizedError:
    return UnauthorizedError(f"the ID token is not valid: {why[:200]}", code="id_token_invalid")
