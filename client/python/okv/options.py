"""What a client is opened with: where its server is, and struct okv_options."""

from __future__ import annotations

import os
from typing import Optional

from ._library import LIMITS, Options
from .arguments import number_of_32_bits, path_of, text_of, wrong_type

_RECONNECT = {
    "always": 0,
    "if_kept": LIMITS["OKV_RECONNECT_IF_KEPT"],
    "never": LIMITS["OKV_RECONNECT_NEVER"],
}
_SERVICE_SOCKET = "/run/okv/okv.sock"


def default_uri() -> str:
    """That of the program okv: the user's own socket, or a service's."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.geteuid() == 0:
        path = "/run/okv.sock"
    elif runtime.startswith("/"):
        path = f"{runtime}/okv.sock"
    else:
        path = f"/tmp/okv-{os.geteuid()}.sock"
    if not os.path.exists(path) and os.path.exists(_SERVICE_SOCKET):
        path = _SERVICE_SOCKET
    return f"local://{path}"


def milliseconds(name: str, seconds: Optional[float]) -> int:
    if seconds is None:
        return 0
    try:
        is_possible = 0 < seconds < 1 << 32
    except TypeError:
        raise wrong_type(name, "a number of seconds", seconds) from None
    if not is_possible:
        raise ValueError(f"okv: {name} is not above 0 s, or too long: {seconds}")
    return number_of_32_bits(f"{name} in ms", max(1, round(seconds * 1000)))


def _database(name: str) -> bytes:
    text = text_of("database", name)
    if len(text) >= Options.database.size:
        raise ValueError(f"okv: database has more than {Options.database.size - 1} bytes: {name}")
    return text


def make_options(database: Optional[str], user: Optional[str], key_file: Optional[str],
                 timeout: Optional[float], connect_timeout: Optional[float], depth: int,
                 credits: int, hints: Optional[int], reconnect: str, keepalive: Optional[float],
                 report: Optional[float], tls: dict[str, Optional[str]]) -> Options:
    options = Options(timeout_ms=milliseconds("timeout", timeout),
                      connect_timeout_ms=milliseconds("connect_timeout", connect_timeout),
                      depth=number_of_32_bits("depth", depth),
                      credits=number_of_32_bits("credits", credits),
                      keepalive_ms=LIMITS["OKV_KEEPALIVE_NONE"] if keepalive == 0
                      else milliseconds("keepalive", keepalive),
                      report_ms=LIMITS["OKV_REPORT_NONE"] if report == 0
                      else milliseconds("report", report))
    if hints is not None:
        options.hints = number_of_32_bits("hints", hints) or LIMITS["OKV_HINTS_NONE"]
    if text_of("reconnect", reconnect).decode() not in _RECONNECT:
        raise ValueError(f"okv: reconnect is one of {', '.join(_RECONNECT)}: {reconnect}")
    options.reconnect = _RECONNECT[reconnect]
    if database is not None:
        options.database = _database(database)
    if user is not None:
        options.user = text_of("user", user)
    if key_file is not None:
        options.key_file = path_of("key_file", key_file)
    for name, value in tls.items():
        if value is not None:
            setattr(options, name, path_of(name, value))
    if (user is None) != (key_file is None):
        raise ValueError("okv: user needs key_file, or OKV_KEY_FILE" if user is not None
                         else "okv: key_file needs user, or OKV_USER")
    return options
