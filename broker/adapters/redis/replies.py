"""Error replies of the store, as failures that a caller can act on.

| reply                                           | failure                 | since                                 |
|-------------------------------------------------|-------------------------|---------------------------------------|
| FENCED NOGEN BADGEN REGRESSED, function missing | `StoreUnclaimedError`   | not the incarnation that was claimed  |
| OOM                                             | `StoreFullError`        | memory is full; only `issue` says so  |
| NOPERM, ACL failure, NOAUTH, WRONGPASS          | `StoreUnsuitableError`  | an operator must mend the rights      |
| BADFORMAT FOREIGN WRONGTYPE MOVED CROSSSLOT     | `StoreUnsuitableError`  | it holds, or lacks, what it must not  |
| what is no reply of such a server               | `StoreUnsuitableError`  | the URL leads elsewhere               |
| a certificate that is not accepted              | `StoreUnsuitableError`  | another server, or another authority  |
| all others: READONLY, LOADING, MISCONF, BUSY …  | `StoreUnavailableError` | may pass; whether it acted is unknown |

READONLY, MOVED, ASK, TRYAGAIN, CLUSTERDOWN, MASTERDOWN and a missing function are replies of a server that did not act, since it
is not the one to ask: the pipeline asks where the primary is, and repeats the call once (`is_elsewhere`). What is left of MOVED
and ASK then is `StoreUnavailableError` where the primary can be found anew.

Messages name the kind of reply and never repeat it: an error reply can quote keys and arguments.
"""

from __future__ import annotations

import re
import ssl
from typing import Final

from redis.exceptions import (
    AskError,
    AuthenticationError,
    BusyLoadingError,
    ClusterCrossSlotError,
    ClusterDownError,
    InvalidResponse,
    MovedError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as BrokenError

from broker.domain.errors import (
    BrokerError,
    StoreFullError,
    StoreUnavailableError,
    StoreUnclaimedError,
    StoreUnsuitableError,
)

_UNCLAIMED: Final = {
    "FENCED": "the store is another incarnation than the one that was claimed",
    "NOGEN": "the store is empty of any claim: it was flushed, or is new",
    "BADGEN": "the store was claimed anew by another broker",
    "REGRESSED": "the store lost revocations that this broker has seen",
}
_UNSUITABLE: Final = {
    "BADFORMAT": "the store is written in a format that this broker does not know; run the release that wrote it",
    "FOREIGN": "a credential's key holds something else; is the store shared with another application?",
    "WRONGTYPE": "a key of this tenant is of another type; is the store shared with another application?",
}
_CODE: Final = re.compile(r"[A-Z]{2,20}(?= |$)")
_COMMAND: Final = re.compile(r"'([a-z|]{2,30})' command")

RIGHTS: Final = (
    "+info +time +role +wait +cluster|slots +fcall +function|list +function|load "
    "+get +set +del +hget +hset +hdel +hlen +hmget +hgetall +hincrby +hscan +xadd +xread ~{brk:*}*"
)
"""What the store's user must be allowed, as an ACL rule."""


def is_function_missing(error: RedisError) -> bool:
    """Whether the functions are gone (FUNCTION FLUSH, or a primary that never had them)."""
    return "function not found" in str(error).lower()


def is_elsewhere(error: ResponseError) -> bool:
    """Whether the server refused a command, without acting, because it is not the one to ask, or not at present."""
    refusals = ReadOnlyError | AskError | TryAgainError | ClusterDownError | NoScriptError
    return isinstance(error, refusals) or is_function_missing(error)


def failure_of(error: RedisError) -> BrokerError:
    """The failure that an error reply or a broken connection stands for."""
    if isinstance(error, BrokenError) and isinstance(error.__cause__, RedisError):
        error = error.__cause__  # redis-py wraps what went wrong while connecting, such as a refused password
    text = str(error)
    code = _CODE.match(text)
    word = code.group() if code else ""
    if word in _UNCLAIMED:
        return StoreUnclaimedError(_UNCLAIMED[word])
    if word in _UNSUITABLE:
        return StoreUnsuitableError(_UNSUITABLE[word])
    if is_function_missing(error):
        return StoreUnclaimedError("the store has lost the functions of this broker")
    if isinstance(error, OutOfMemoryError):
        return StoreFullError("the store has no memory left for a new credential")
    if isinstance(error, NoPermissionError) or "acl failure" in text.lower() or "can't run this command" in text:
        return missing_right(text)
    if isinstance(error, AuthenticationError) or word in ("NOAUTH", "WRONGPASS"):
        return StoreUnsuitableError("the store refuses the user or password of its URL")
    if isinstance(error, InvalidResponse):
        return StoreUnsuitableError("what answers at the store's address is neither Redis nor Valkey; mend the URL")
    if isinstance(error, MovedError | ClusterCrossSlotError):
        return StoreUnsuitableError(
            "this node of the cluster does not hold the tenant's slot; name the cluster by cluster:// in the store's URL"
        )
    if "cluster support disabled" in text:
        return StoreUnsuitableError("the store is no cluster; name it by redis:// in the store's URL")
    if isinstance(error, BrokenError) and not isinstance(error, BusyLoadingError):
        return _unreachable(error)
    return StoreUnavailableError(f"the store does not act at present ({word or type(error).__name__})")


def _unreachable(error: BrokenError) -> BrokerError:
    """A broken connection; what TLS did not accept does not pass by itself."""
    cause = error.__cause__ or error.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return StoreUnsuitableError(
            f"the store's certificate is not accepted ({cause.verify_message.rstrip('.')}); mend it, or ssl_ca_certs in the "
            "store's URL"
        )
    if isinstance(cause, ssl.SSLError):
        return StoreUnavailableError(f"the store refuses the TLS connection ({cause.reason or 'no reason given'})")
    return StoreUnavailableError("the store cannot be reached")


def missing_right(text: str) -> StoreUnsuitableError:
    """A right that the store's user lacks, as far as the reply names a command."""
    command = _COMMAND.search(text)
    lacking = f"the command {command.group(1)}" if command else "a command or the keys of this tenant"
    return StoreUnsuitableError(f"the store's user may not use {lacking}; it needs: {RIGHTS}")
