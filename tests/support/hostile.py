"""Thread ids and payloads that somebody may have made to do harm, and that people have to look at."""

from __future__ import annotations

THREAD_IDS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "a\"b'c&d;e`f",
    "../../etc/passwd",
    "..",
    "😀 Ünï ✓",
    "invoice\u202egnp.exe",
    "x" * 250,
    "javascript:alert(1)",
    "%2e%2e%2f?#&=;",
    "{{ 7 * 7 }}{% raw x %}",
    "a\tb\r\nSet-Cookie: x=1",
    "\u200f\u200eיא",
)

PAYLOAD = {
    "<b>key</b>": "<script>alert(2)</script>",
    "quote\"'": "</textarea></script><svg onload=alert(3)>",
    "marks": "a\u202eb\u2066c\u200d",
    "long": "w" * 3000,
}
