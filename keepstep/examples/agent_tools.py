"""The agent's tools: a small shop. They answer from a table, so that the example runs offline and always the same."""

from collections.abc import Callable
from typing import Any

ORDERS = {
    "A-17": {"customer": "C-3", "item": "kettle", "price": 49, "days ago": 12},
    "A-18": {"customer": "C-3", "item": "toaster", "price": 890, "days ago": 400},
}
CUSTOMERS = {"C-3": {"name": "R. Ortiz", "since": 2019, "refunds": 0}}

ASK_FIRST = frozenset({"refund"})
"""Tools that a person has to agree to: what they do can't be undone."""


def look_up_order(order: str, *, key: str) -> str:
    """What is known of an order."""
    return str(_found(ORDERS, "order", order))


def look_up_customer(customer: str, *, key: str) -> str:
    """What is known of a customer."""
    return str(_found(CUSTOMERS, "customer", customer))


def look_up_policy(*, key: str) -> str:
    """The shop's rules for refunds."""
    return "Within 30 days, in full. Later: no refund."


def refund(order: str, amount: float, *, key: str) -> str:
    """Pay a customer back. The key is what a payment provider would be sent, so that it pays once."""
    if amount > float(_found(ORDERS, "order", order)["price"]):
        raise ValueError(f"{amount} is more than order {order} cost")
    return f"paid back {amount} for {order}, receipt R-{key[:8]}"


def _found(table: dict[str, Any], what: str, name: str) -> Any:
    if name not in table:
        raise LookupError(f"there is no {what} {name!r}")
    return table[name]


TOOLS: dict[str, Callable[..., str]] = {
    tool.__name__: tool for tool in (look_up_order, look_up_customer, look_up_policy, refund)
}


def _schema(name: str, required: dict[str, str]) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": {argument: {"type": kind} for argument, kind in required.items()},
        "required": list(required),
    }
    described = {"name": name, "description": TOOLS[name].__doc__, "parameters": parameters}
    return {"type": "function", "function": described}


SCHEMAS = [
    _schema("look_up_order", {"order": "string"}),
    _schema("look_up_customer", {"customer": "string"}),
    _schema("look_up_policy", {}),
    _schema("refund", {"order": "string", "amount": "number"}),
]
"""The tools as a model is told of them."""
