"""The live page: one HTML file that shows the agent's policy and estimates.

It is assembled from the files in this folder and loads nothing else. Its content security policy
allows only that script and that style, identified by their hashes, and requests to its own server.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources

SCRIPTS = ("basics.js", "curve.js", "policy.js", "page.js")


@cache
def page() -> str:
    """The page as text.

    >>> page()[:15]
    '<!doctype html>'
    """
    return _file("index.html").replace("/* STYLE */", _style()).replace("/* SCRIPT */", _script())


@cache
def content_security_policy() -> str:
    """The header `Content-Security-Policy` to send the page with.

    >>> content_security_policy()[:38]
    "default-src 'none'; style-src 'sha256-"
    """
    return (
        f"default-src 'none'; style-src {_hashed(_style())}; script-src {_hashed(_script())}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )


def _style() -> str:
    return _file("page.css")


def _script() -> str:
    return '"use strict";\n' + "\n".join(_file(name) for name in SCRIPTS)


def _file(name: str) -> str:
    return resources.files("switchmdp.online.page").joinpath(name).read_text(encoding="utf-8")


def _hashed(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
