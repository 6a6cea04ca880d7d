"""TLS in front of a server that has none, as a terminating proxy; and the certificate that it shows."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from pathlib import Path


def certificate(folder: Path) -> tuple[Path, Path]:
    """A new certificate for 127.0.0.1, which is its own authority, and its key."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([*command, *names, "-keyout", key, "-out", cert], check=True, capture_output=True)
    return cert, key


class Terminator:
    """Listens with TLS, and passes on in plain text. refused: connections that didn't speak TLS as they should."""

    def __init__(self, target: tuple[str, int], cert: Path, key: Path):
        self._target, self._server = target, socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(cert, key)
        self.accepted, self.refused = 0, 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        client.settimeout(5)
        try:
            secured = self._context.wrap_socket(client, server_side=True)
        except OSError:
            self.refused += 1
            client.close()
            return
        self.accepted += 1
        secured.settimeout(None)
        upstream = socket.create_connection(self._target)
        threading.Thread(target=_pass_on, args=(upstream, secured), daemon=True).start()
        _pass_on(secured, upstream)


def _pass_on(source: socket.socket, to: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            to.sendall(data)
    except OSError:
        pass
    finally:
        for side in (source, to):
            side.close()
