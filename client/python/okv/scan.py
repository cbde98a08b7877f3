"""Scans of the whole table, in portions."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_uint64
from typing import TYPE_CHECKING, Any, Callable, Generic

from . import _library
from ._library import VISIT, lib
from .arguments import Key, key_bytes
from .operations import Item, T, ttl_from_ms

if TYPE_CHECKING:
    from .client import Client

_PORTION = 256  # items


def key_of(item: _library.Item) -> bytes:
    return ctypes.string_at(item.key, item.key_length)


def item_of(item: _library.Item) -> Item:
    return Item(key_of(item), ctypes.string_at(item.value, item.value_length), item.version,
                ttl_from_ms(item.ttl_ms))


def full_prefix(prefix: Key) -> bytes:
    """Of what is to be removed: not that of all keys."""
    beginning = key_bytes(prefix, "prefix")
    if not beginning:
        raise ValueError("okv: the prefix is empty: flush() removes every item")
    return beginning


class Scan(Generic[T]):
    """How far one has come. `take` makes what the caller gets of an item of libokv."""

    def __init__(self, prefix: Key, take: Callable[[_library.Item], T]):
        self.has_ended = False
        self._prefix = key_bytes(prefix, "prefix")
        self._take = take
        self._cursor = c_uint64()
        self._before: set[bytes] = set()  # keys of the last portion

    def portion(self, client: "Client") -> list[T]:
        """The next items. Those that share the last one's bucket come again, and are left out."""
        found: dict[bytes, T] = {}
        failed: list[BaseException] = []
        visited = 0

        def visit(_user: Any, pointer: Any) -> int:
            nonlocal visited
            try:
                visited += 1
                key = key_of(pointer.contents)
                if key.startswith(self._prefix):
                    found[key] = self._take(pointer.contents)
                return visited >= _PORTION
            except BaseException as error:  # an interrupt: ctypes would swallow it
                failed.append(error)
                return 1

        with client._use() as handle:
            status = lib.okv_scan_from(handle, byref(self._cursor), VISIT(visit), None)
            if status < 0 and not failed:
                client._check(status)
        if failed:
            raise failed[0]
        before, self._before = self._before, set(found)
        self.has_ended = self._cursor.value == 0
        return [item for key, item in found.items() if key not in before]
