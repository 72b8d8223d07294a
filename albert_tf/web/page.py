"""The page to try the model in a browser: page.html, and its HTTP headers."""

import base64
import hashlib
import importlib.resources
import re

HTML = importlib.resources.files(__package__).joinpath("page.html").read_text("utf-8")
_NONE = "'none'"


def policy(html: str) -> str:
    """A Content-Security-Policy that allows only the page's own scripts and styles.

    They are given by their hashes, so that no text that gets into the page could run as
    a script.
    """
    rules = [f"{kind} {_NONE}" for kind in ("default-src", "base-uri", "form-action")]
    # The icon is an empty data: URL, so that no browser asks for one.
    rules += [f"frame-ancestors {_NONE}", "connect-src 'self'", "img-src data:"]
    for tag in ("script", "style"):
        parts = re.findall(f"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        hashes = [f"'sha256-{_hash(part)}'" for part in parts]
        rules.append(f"{tag}-src {' '.join(hashes) or _NONE}")
    return "; ".join(rules)


def headers(html: str) -> dict[str, str]:
    """The HTTP headers of a page."""
    return {
        "Content-Security-Policy": policy(html),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
    }


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


HEADERS = headers(HTML)
