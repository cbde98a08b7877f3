"""Exceptions: one for each result that a program may want to tell from others."""

from __future__ import annotations

from typing import Any, Optional

from ._library import CODES, lib


_KEY_SHOWN = 64  # bytes


class Error(Exception):
    """A call that failed. `code` is a number of okv.h, `name` its name, as "OKV_EFULL". Of many
    operations, as in a pipeline, it is about the one at `index`: its `command`, as "put", and its
    `key`; else these are None."""

    index: Optional[int] = None
    command: Optional[str] = None
    key: Optional[bytes] = None

    def __init__(self, code: int, why: str = "", version: int = 0):
        self.code = code
        self.why = why
        self.name = lib.okv_errname(code).decode()
        self.version = version
        text = lib.okv_strerror(code).decode()
        super().__init__(f"{self.name}: {text}" + (f" ({why})" if why else ""))

    def of_operation(self, index: int, command: str, key: bytes) -> Error:
        """The same, which now says which of many operations it is about."""
        self.index, self.command, self.key = index, command, key
        return self

    def __str__(self) -> str:
        text = super().__str__()
        if self.key is None:
            return text
        more = "..." * (len(self.key) > _KEY_SHOWN)
        return f"[{self.index}] {self.command}({self.key[:_KEY_SHOWN]!r}{more}): {text}"

    def __reduce__(self) -> Any:
        """For other processes."""
        return type(self), (self.code, self.why, self.version), vars(self)


class NotFound(Error):
    """There is no such item, in a call that needs one."""


class Conflict(Error):
    """The item has another version than the one required: `version`."""


class Exists(Error):
    """The key is there already, in this `version`."""


class TimedOut(Error, TimeoutError):
    """The deadline passed, and nothing was changed."""


class Unknown(Error):
    """No answer came: the write may have happened or not."""


class Disconnected(Error, ConnectionError):
    """There is no connection and none can be made, or the server has lost its items."""

    def __init__(self, code: int = CODES["OKV_EDISCONNECTED"], why: str = "", version: int = 0):
        super().__init__(code, why, version)


class Denied(Error, PermissionError):
    """The user may not do this, or one side does not know the other."""


class Full(Error):
    """The server has no room for the item."""


class ReadOnly(Error):
    """The server's disk takes no writes."""


class TooLarge(Error, ValueError):
    """A key, a value or a time to live is out of its limits, or a value does not fit its buffer."""


_CLASSES = {
    "OKV_ENOTFOUND": NotFound,
    "OKV_ECONFLICT": Conflict,
    "OKV_EEXISTS": Exists,
    "OKV_ETIMEDOUT": TimedOut,
    "OKV_EUNKNOWN": Unknown,
    "OKV_EDISCONNECTED": Disconnected,
    "OKV_ESHUTDOWN": Disconnected,
    "OKV_EREFUSED": Disconnected,
    "OKV_EADDRESS": Disconnected,
    "OKV_ELOST": Disconnected,
    "OKV_EDENIED": Denied,
    "OKV_EPERM": Denied,
    "OKV_EFULL": Full,
    "OKV_EBUCKETFULL": Full,
    "OKV_EREADONLY": ReadOnly,
    "OKV_EDISKFULL": ReadOnly,
    "OKV_EFEWCOPIES": ReadOnly,
    "OKV_EKEYSIZE": TooLarge,
    "OKV_EVALUESIZE": TooLarge,
    "OKV_ETTL": TooLarge,
    "OKV_ETOOSMALL": TooLarge,
}
_BY_CODE = {CODES[name]: each for name, each in _CLASSES.items()}


def error_of(code: int, why: str = "", version: int = 0) -> Error:
    """The exception for a code."""
    return _BY_CODE.get(code, Error)(code, why, version)
