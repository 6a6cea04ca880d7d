"""The intake's one way out of the process: a POST with a timeout, an idempotency key and two kinds of error."""

import http.client
import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

# A proxy from the environment would only stand between the example and its stub.
_http = urllib.request.build_opener(urllib.request.ProxyHandler({}))

_TRY_AGAIN = frozenset({408, 425, 429})


class Refused(Exception):
    """The API understood and said no (4xx): asking again in the same words can't help."""


class Unavailable(Exception):
    """The API could not be reached or failed (5xx): ask again later, under the same key."""


def post(path: str, body: Mapping[str, Any], *, headers: Mapping[str, str], timeout: float = 20.0) -> dict[str, Any]:
    """Send `body` as JSON and return the JSON object that comes back.

    `headers` are the call's: they carry the idempotency key. `timeout` is in seconds of silence. Raises `Refused` or
    `Unavailable`, with the API's own message.
    """
    request = urllib.request.Request(
        base_url() + path,
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", **headers},
        method="POST",
    )
    try:
        with _http.open(request, timeout=timeout) as response:
            answer = json.load(response)
    except urllib.error.HTTPError as error:
        kind = Unavailable if error.code >= 500 or error.code in _TRY_AGAIN else Refused
        raise kind(f"POST {path}: {error.code}: {_message(error)}") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Unavailable(f"POST {path}: {error}") from error
    if not isinstance(answer, dict):
        raise Unavailable(f"POST {path}: expected a JSON object, got {type(answer).__name__}")
    return answer


def base_url() -> str:
    """Return where the outside APIs are: the one setting of this example."""
    url = os.environ.get("KEEPSTEP_STUB_URL", "")
    if not url:
        raise Unavailable(
            "KEEPSTEP_STUB_URL is not set: run `python -m keepstep.examples.stub_apis` and set it to the URL printed"
        )
    return url.rstrip("/")


def _message(error: urllib.error.HTTPError) -> str:
    """Return the `error` field of the body, or the bare body, or the reason phrase."""
    text = error.read().decode(errors="replace")
    try:
        return str(json.loads(text)["error"])
    except (ValueError, KeyError, TypeError):
        return text or str(error.reason)
