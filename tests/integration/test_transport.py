"""The faults of the broker's client library that keepstep mends."""

from __future__ import annotations

import pytest

from keepstep import Client


def test_a_closed_connection_is_a_connection_error_and_not_the_end_of_the_worker(client: Client) -> None:
    with client._bell.app.connection_for_write() as connection:
        channel = connection.channel()
        connection.transport.client = None  # what Celery leaves behind when it closes a lost connection
        with pytest.raises(connection.connection_errors):
            channel._connparams()
        connection.transport.client = connection


def test_messages_go_through_the_mended_transport(client: Client) -> None:
    assert client._bell.app.connection_for_write().get_transport_cls().__module__ == "keepstep.workers.transport"
