"""What each outside API answers: pure functions of the request, so that two runs of one application agree."""

import hashlib
from collections.abc import Callable
from typing import Any

Body = dict[str, Any]

SLOW_ENDPOINT = "/registry/extracts"


class Refusal(Exception):
    """A request that this API will not serve: the HTTP status and the reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


def answer(endpoint: str, body: Body) -> Body:
    """Return the answer of `endpoint`; raise `Refusal` for an unknown path or a request that names no application."""
    if endpoint not in ANSWERS:
        raise Refusal(404, f"there is no endpoint {endpoint}")
    if not isinstance(body.get("application"), str) or not body["application"]:
        raise Refusal(400, f"{endpoint}: the body names no application")
    return ANSWERS[endpoint](body)


def _number(low: int, high: int, *seed: str) -> int:
    """Return a number from low to high that is always the same for the same seed."""
    digest = hashlib.sha256("/".join(seed).encode()).digest()
    return low + int.from_bytes(digest[:8], "big") % (high - low + 1)


def _reference(prefix: str, body: Body, *more: str) -> str:
    return f"{prefix}-{_number(100_000, 999_999, prefix, body['application'], *more)}"


def _text(body: Body, name: str) -> str:
    if not isinstance(body.get(name), str):
        raise Refusal(400, f"the body lacks the text field {name!r}")
    return str(body[name])


def _register(body: Body) -> Body:
    return {"registration": _reference("REG", body)}


def _open_vault(body: Body) -> Body:
    return {"session": _reference("VAULT", body)}


def _copy(body: Body) -> Body:
    name = _text(body, "document")
    ref = f"vault://{body['application']}/{name}"
    return {"name": name, "ref": ref, "pages": _number(1, 12, ref), "sha256": hashlib.sha256(ref.encode()).hexdigest()}


def _classify(body: Body) -> Body:
    refs = body.get("documents")
    if not isinstance(refs, list):
        raise Refusal(400, "the body lacks the list 'documents'")
    names = [str(ref).rsplit("/", 1)[-1] for ref in refs]
    return {"kinds": {name: name.rstrip("_0123456789") for name in names}}


def _extract(body: Body) -> Body:
    case, section = str(body["application"]), _text(body, "section")
    applicant = _reference("PERSON", body)
    months = [f"month-{i}" for i in range(3)]
    found: dict[str, Body] = {
        "identity": {"passport": _reference("PASS", body), "address": _reference("ADDR", body)},
        "income": {"monthly_net": [_number(4_200, 5_200, case, section, month) for month in months]},
        "spending": {"monthly": [_number(1_300, 1_900, case, section, month) for month in months]},
        "property": {"title": _reference("TITLE", body), "valuation": _number(290_000, 360_000, case, section)},
    }
    if section not in found:
        raise Refusal(400, f"unknown section {section!r}: use one of {', '.join(found)}")
    return {"applicant": applicant, **found[section]}


def _identity(body: Body) -> Body:
    return {"reference": _reference("IDV", body), "verified": True}


def _credit(body: Body) -> Body:
    case = str(body["application"])
    return {
        "reference": _reference("CRD", body),
        "rating": _number(580, 820, case),
        "monthly_debt": _number(0, 450, case),
    }


def _sanctions(body: Body) -> Body:
    return {"reference": _reference("SAN", body), "hits": 0}


def _order(body: Body) -> Body:
    return {"order": _reference("ORDER", body, _text(body, "title"))}


def _registry_extract(body: Body) -> Body:
    order = _text(body, "order")
    return {"reference": _reference("EXTRACT", body, order), "owner_confirmed": True, "charges": _number(0, 1, order)}


def _offer(body: Body) -> Body:
    return {"offer": _reference("OFFER", body)}


def _record(body: Body) -> Body:
    return {"record": _reference("REC", body)}


def _notification(body: Body) -> Body:
    return {"message": _reference("MSG", body, _text(body, "to"))}


def _close_vault(body: Body) -> Body:
    return {"closed": True}


ANSWERS: dict[str, Callable[[Body], Body]] = {
    "/applications": _register,
    "/vault/sessions": _open_vault,
    "/vault/copies": _copy,
    "/vault/closures": _close_vault,
    "/documents/classify": _classify,
    "/documents/extract": _extract,
    "/identity": _identity,
    "/credit": _credit,
    "/sanctions": _sanctions,
    "/registry/orders": _order,
    SLOW_ENDPOINT: _registry_extract,
    "/offers": _offer,
    "/records": _record,
    "/notifications": _notification,
}
