"""`keepstep metrics`: the exporter for Prometheus."""

from __future__ import annotations

import signal
import threading

import click

from keepstep.cli import session
from keepstep.steps.errors import BadSetting

PORT = 9809


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0 takes any free one.")
@click.option("--address", metavar="HOST", default="127.0.0.1", show_default=True, help="Metrics have no password.")
def metrics(port: int, address: str) -> None:
    """Serve metrics for Prometheus at /metrics, until Ctrl-C; needs keepstep[metrics].

    All of them are read from PostgreSQL and the broker, so one such process is enough for all workers.
    """
    try:
        from prometheus_client import CollectorRegistry, start_http_server
    except ImportError:
        raise BadSetting("prometheus-client is missing. Install the extra: pip install 'keepstep[metrics]'") from None
    from keepstep.monitor.metrics import Exporter

    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    with session.open_client() as client:
        exporter = Exporter(client)
        exporter.start()
        registry = CollectorRegistry()
        registry.register(exporter)
        try:
            server, _ = start_http_server(port, address, registry)
        except OSError as error:
            raise BadSetting(f"can't listen on {address}:{port}: {error.strerror}. Choose another --port.") from error
        click.echo(f"metrics: http://{address}:{server.server_port}/metrics", err=True)
        over.wait()
        server.shutdown()
        exporter.stop()
