"""Ports on the loopback interface."""

import random
import socket

LOOPBACK = "127.0.0.1"

# Below the range that systems give to outgoing connections (from 32768 on Linux, 49152 on macOS). A client that keeps
# reconnecting while its server is down would otherwise, sooner or later, be given the server's own port and hold it.
_CANDIDATES = range(15_000, 32_000)


def is_free(port: int) -> bool:
    """Tell whether a server could listen on this port now; True is no reservation."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the servers do it themselves: connections of a dead server that are still winding down do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def free_port() -> int:
    """Pick a port that is free now, at random, so that two owners starting together seldom pick the same one."""
    return next(port for port in random.sample(_CANDIDATES, k=len(_CANDIDATES)) if is_free(port))
