"""Where templates come from: our own folder first, then Flower's, with our links put into two of Flower's pages."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

from tornado.template import BaseLoader, Template

OURS = Path(__file__).parent / "templates"
STATIC = Path(__file__).parent / "static"

_INSERTIONS = {
    # Flower's page -> behind what, which of our templates
    "navbar.html": (r'<ul class="[^"]*\bnavbar-nav\b[^"]*">', "keepstep_tabs.html"),
    "task.html": (r'<div class="detail-actions">', "keepstep_task_link.html"),
}


@cache
def version_of(name: str) -> str:
    """A text that changes with one of our static files, so that browsers keep no old one."""
    return hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]


class Folders(BaseLoader):
    """Loads a page by its name. theirs: the folder of Flower's own templates."""

    def __init__(self, theirs: Path):
        super().__init__()
        self._theirs = theirs

    def resolve_path(self, name: str, parent_path: str | None = None) -> str:  # noqa: ARG002
        """All pages lie side by side."""
        return name

    def _create_template(self, name: str) -> Template:
        return Template(self.text(name), name=name, loader=self)

    def text(self, name: str) -> str:
        """A page's source. Raises FileNotFoundError."""
        own = OURS / name
        if own.is_file():
            return own.read_text(encoding="utf-8")
        text = (self._theirs / name).read_text(encoding="utf-8")
        if name not in _INSERTIONS:
            return text
        behind, what = _INSERTIONS[name]
        return re.sub(behind, lambda found: f'{found[0]}{{% include "{what}" %}}', text, count=1)
