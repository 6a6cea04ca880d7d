"""What the pages about cases have in common: who is asking, what is refused, and what a refusal looks like."""

from __future__ import annotations

import ipaddress
import logging
from base64 import b64decode
from datetime import UTC, datetime
from secrets import token_hex
from types import TracebackType
from typing import Any, NoReturn
from urllib.parse import urlencode, urlsplit

from flower.views import BaseHandler
from sqlalchemy.exc import DBAPIError
from tornado.web import HTTPError, RequestHandler

from keepstep.monitor import shown
from keepstep.monitor.desk import Desk
from keepstep.monitor.folders import version_of
from keepstep.steps.errors import (
    BadCursor,
    BadFilter,
    BadStart,
    CheckpointDamaged,
    DatabaseUnavailable,
    KeepstepError,
    SchemaOutdated,
    UnknownCase,
    UnknownCheckpoint,
)

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""No script, style or picture but Flower's and ours, whatever a stored text says."""

_MISSING = ("42P01", "42703", "3F000")
_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (DatabaseUnavailable, 503),
    (SchemaOutdated, 503),
    (UnknownCase, 404),
    (UnknownCheckpoint, 404),
    (BadFilter, 400),
    (BadCursor, 400),
    (BadStart, 400),
    (CheckpointDamaged, 500),
)

log = logging.getLogger("keepstep.monitor")


class Refused(HTTPError):
    """A refusal with a sentence for the page."""

    def __init__(self, status: int, sentence: str):
        super().__init__(status, "%s", sentence)
        self.sentence = sentence


class CasesHandler(BaseHandler):
    """The base of all pages about cases."""

    desk: Desk
    current_user: Any

    def initialize(self, desk: Desk) -> None:
        """As the handlers' table gives it."""
        self.desk = desk

    def set_default_headers(self) -> None:
        """No embedding, no caching, no referrer: a page has a customer's data on it."""
        self.set_header("Content-Security-Policy", POLICY)
        self.set_header("X-Frame-Options", "DENY")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Referrer-Policy", "same-origin")
        self.set_header("Cache-Control", "no-store")

    # ------------------------------------------------------------------------------------------------ who is asking
    def prepare(self) -> None:
        """Let in who may come in: a password or a login if Flower asks for one, else only this machine's names."""
        options = self.application.options
        if not (options.basic_auth or options.auth) and not _is_address(self.request.host_name):
            raise Refused(403, "This Flower asks for no password, so it answers under an IP address or localhost only.")
        if not self.current_user:
            if self.request.method in ("GET", "HEAD") and not self._is_of_script:
                self.redirect(f"{self.get_login_url()}?{urlencode({'next': self.request.uri})}")
                return
            raise Refused(403, "Your session has ended, so nothing was done. Sign in again, then send the form anew.")
        if self.request.method == "POST" and options.read_only:
            raise Refused(403, "This Flower is read-only, so nothing was done.")

    def check_xsrf_cookie(self) -> None:
        """Every form carries a token, also where Flower itself would do without: without a password, say."""
        site, origin = self.request.headers.get("Sec-Fetch-Site"), self.request.headers.get("Origin")
        foreign = site not in (None, "same-origin", "none")
        if foreign or (origin and urlsplit(origin).netloc != self.request.host):
            raise Refused(403, "This form comes from another site, so nothing was done.")
        try:
            RequestHandler.check_xsrf_cookie(self)
        except HTTPError:
            raise Refused(
                403, "This form is too old, or wasn't made by this page, so nothing was done. Load the page anew."
            ) from None

    @property
    def signed_in(self) -> str | None:
        """Who signed in, by Flower's means; None where it asks for nobody's name."""
        if self.application.options.basic_auth:
            credentials = b64decode(self.request.headers["Authorization"].split()[1]).decode()
            return credentials.partition(":")[0] or None
        return self.current_user if isinstance(self.current_user, str) else None

    @property
    def actor(self) -> str:
        """Who does it: the one who signed in, else who the form says. Raises Refused if it says nobody."""
        actor = self.signed_in or self.given("actor")
        if not actor:
            raise Refused(400, "Say who you are: the case's history keeps it.")
        return actor

    @property
    def may_write(self) -> bool:
        """Whether there are buttons and forms."""
        return not self.application.options.read_only

    def given(self, name: str, default: str = "") -> str:
        """An argument as it was sent; Flower's own way would hand it over with HTML in it."""
        value = RequestHandler.get_argument(self, name, default)
        return value if isinstance(value, str) else default

    # -------------------------------------------------------------------------------------------------------- pages
    def page(self, name: str, **values: Any) -> None:
        """Render one of our pages."""
        common = {
            "shown": shown,
            "may_write": self.may_write,
            "signed_in": self.signed_in if self._current_user_known() and self.current_user else None,
            "now": shown.iso(datetime.now(UTC)),
            "asset": self.asset,
        }
        self.render(f"keepstep_{name}.html", **common, **values)

    def asset(self, name: str) -> str:
        """The URL of one of our static files."""
        return f"{self.reverse_url('keepstep_static', name)}?v={version_of(name)}"

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """A sentence, and nothing of what is behind it: no traceback, no URL of a server, whatever Flower's --debug."""
        if not self._current_user_known():
            self.current_user = None
        error = kwargs.get("exc_info", (None, None, None))[1]
        status, sentence = _told(status_code, error)
        self.set_status(status)
        if status == 401:
            self.set_header("WWW-Authenticate", 'Basic realm="flower"')
            self.finish("Access denied")
            return
        if status == 503:
            self.set_header("Retry-After", "5")
        if self._is_of_script:
            self.finish({"error": sentence})
            return
        self.page("error", status=status, sentence=sentence)

    def log_exception(
        self, typ: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None:
        """What has a page of its own is a line in the log; anything else is a bug, with its traceback."""
        if isinstance(value, (KeepstepError, HTTPError, DBAPIError)):
            level = logging.WARNING if isinstance(value, (DatabaseUnavailable, DBAPIError)) else logging.INFO
            log.log(level, "%s %s: %s", self.request.method, self.request.path, str(value).splitlines()[0])
        else:
            self._bug = token_hex(4)
            log.error("%s %s: an error of the page", self.request.method, self.request.path,
                      exc_info=(typ, value, tb) if typ and value else None)  # fmt: skip

    @property
    def _is_of_script(self) -> bool:
        """Whether a page's script asks, which wants no page for an answer."""
        return str(self.request.path).endswith("/version")

    def _current_user_known(self) -> bool:
        return hasattr(self, "_current_user")


def _told(status: int, error: BaseException | None) -> tuple[int, str]:
    """The status and the sentence for a page."""
    if isinstance(error, Refused):
        return error.status_code, error.sentence
    if isinstance(error, DBAPIError) and getattr(error.orig, "pgcode", None) in _MISSING:
        return 503, "The database lacks tables that this keepstep needs. Run: keepstep db upgrade"
    if isinstance(error, DatabaseUnavailable):
        return 503, (
            "PostgreSQL can't be reached, or is too busy, so nothing can be shown just now. No case is lost: workers "
            "go on when it is back. The page tries again by itself."
        )
    for kind, code in _STATUS:
        if isinstance(error, kind):
            return code, str(error)
    if isinstance(error, KeepstepError):
        return 409, str(error)
    if status == 404:
        return 404, "There is no such page."
    if isinstance(error, HTTPError) and status < 500:
        return status, "This request can't be understood." if status == 400 else "This isn't allowed."
    return 500, "This page met an error of its own. What happened is in Flower's log; the cases are not affected."


def _is_address(host: str) -> bool:
    """Whether the request names this machine by an address: a page of another site can't do that under its own name."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def no_case() -> NoReturn:
    """There is none, or not any more."""
    raise Refused(404, "There is no such case. It may have gone: ended cases leave after their retention.")
