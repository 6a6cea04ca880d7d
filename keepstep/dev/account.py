"""The account that PostgreSQL runs as, and a place that this account can reach.

PostgreSQL refuses to run as root. Whoever is root therefore lends it another account, for which a directory below
somebody's 0700 home (the data's, or the one that Python's packages are installed in) may well be out of reach.
"""

import os
import pwd
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from keepstep.dev.errors import NoUnprivilegedAccountError

# Tried rather than worked out from modes: all parents, ACLs, mounts and the libraries of the program count.
_REACHES = 'test -w "$1" && "$2" --version >/dev/null 2>&1 && test -r "$3"'


@dataclass(frozen=True, kw_only=True)
class Account:
    """Another account than our own, by number."""

    uid: int
    gid: int

    def reaches(self, *, directory: Path, program: Path | None = None, file: Path | None = None) -> bool:
        """Tell, by trying it as this account, whether it can write the directory, run the program and read the file."""
        paths = [str(path) for path in (directory, program or "true", file or "/dev/null")]
        command = ["/bin/sh", "-c", _REACHES, "sh", *paths]
        try:
            tried = subprocess.run(command, user=self.uid, group=self.gid, extra_groups=[], cwd="/", check=False)
        except (PermissionError, subprocess.SubprocessError) as error:
            raise NoUnprivilegedAccountError(reason=f"changing to the account {self.uid} fails ({error})") from error
        return tried.returncode == 0

    def take(self, path: Path) -> None:
        """Make this account the owner of a file, or of a directory and all that is in it."""
        os.chown(path, self.uid, self.gid)
        for parent, directories, files in os.walk(path):
            for name in (*directories, *files):
                os.chown(Path(parent, name), self.uid, self.gid, follow_symlinks=False)


def account_for(cluster: Path | None = None) -> Account | None:
    """Return the account to run PostgreSQL as; None means our own.

    For root it is the one that the cluster belongs to already, so that a cluster made by an ordinary user stays theirs,
    or else `postgres`, or else `nobody`.
    """
    if os.geteuid() != 0:
        return None
    if cluster and cluster.is_dir() and (owner := cluster.stat()).st_uid != 0:
        return Account(uid=owner.st_uid, gid=owner.st_gid)
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(uid=entry.pw_uid, gid=entry.pw_gid)
    raise NoUnprivilegedAccountError(reason="there is neither an account `postgres` nor an account `nobody`")


def reachable_home(data: Path, account: Account | None) -> Path:
    """Return the directory for the server's files: `data`, or a place outside if the account cannot reach `data`.

    The place outside is written down in `data/moved-to` and found again by the next start; it is not removed with
    `data`. A directory that is not empty keeps its owner and its mode.
    """
    if not data.is_dir() or not any(data.iterdir()):
        data.mkdir(parents=True, exist_ok=True)
        _hand_over(data, account)
    if account is None or account.reaches(directory=data):
        return data
    note = data / "moved-to"
    if note.exists() and account.reaches(directory=(known := Path(note.read_text().strip()))):
        return known
    outside = reachable_directory(account, lasting=True)
    note.write_text(f"{outside}\n")
    return outside


def reachable_directory(account: Account | None, *, lasting: bool) -> Path:
    """Make a new directory that the account can write, in one of the system's temporary directories.

    If it is to be lasting, /var/tmp comes first, because that survives a reboot.
    """
    first, second = ("/var/tmp", tempfile.gettempdir()) if lasting else (tempfile.gettempdir(), "/var/tmp")
    for base in dict.fromkeys((first, second, "/tmp")):
        if not os.access(base, os.W_OK):
            continue
        made = Path(tempfile.mkdtemp(prefix="keepstep-", dir=base))
        _hand_over(made, account)
        if account is None or account.reaches(directory=made):
            return made
        made.rmdir()
    raise NoUnprivilegedAccountError(reason="no temporary directory is open to another account")


def reachable_package(package: Path, account: Account | None, *, home: Path, version: str) -> Path:
    """Return the package directory with PostgreSQL: the given one, or a copy in `home` if the account cannot run it."""
    if account is None:
        return package
    program, catalogue = package / "pginstall" / "bin" / "initdb", package / "pginstall" / "share" / "postgres.bki"
    if account.reaches(directory=home, program=program, file=catalogue):
        return package
    copy = home / f"program-{version}"
    if not copy.is_dir():
        half = home / "program.half"
        shutil.rmtree(half, ignore_errors=True)
        # With the directory beside it, where a Linux wheel keeps the libraries that its programs look for.
        for part in filter(Path.is_dir, (package, package.with_name(f"{package.name}.libs"))):
            shutil.copytree(part, half / part.name, ignore=shutil.ignore_patterns("include", "pgxs", "doc", "*.a"))
        account.take(half)
        half.rename(copy)
    return copy / package.name


def _hand_over(directory: Path, account: Account | None) -> None:
    """Close a directory of ours to everybody but the account."""
    directory.chmod(0o700)
    if account is not None:
        account.take(directory)
