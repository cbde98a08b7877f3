"""Scans of the whole table, in portions."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_uint64, c_void_p
from typing import TYPE_CHECKING, Any, Callable, Generic

from . import _library
from ._library import VISIT, lib
from .arguments import Key, key_bytes
from .operations import Item, T, ttl_from_ms

if TYPE_CHECKING:
    from .client import Client

_PORTION = 1024  # items
_PORTION_BYTES = 64 << 20  # of values: then it ends, too


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
        found: list[T] = []
        failed: list[BaseException] = []
        visited: set[bytes] = set()
        new = taken = 0

        def visit(_user: Any, pointer: Any) -> int:
            nonlocal new, taken
            try:
                item = pointer.contents
                key = key_of(item)
                if key in self._before or key in visited:
                    visited.add(key)
                    return self.has_ended
                visited.add(key)
                new += 1
                if key.startswith(self._prefix):
                    found.append(self._take(item))
                    taken += item.value_length
                return self.has_ended or new >= _PORTION or taken >= _PORTION_BYTES
            except BaseException as error:  # an interrupt: ctypes would swallow it
                failed.append(error)
                return 1

        def read(handle: c_void_p) -> None:
            status = lib.okv_scan_from(handle, byref(self._cursor), VISIT(visit), None)
            if status < 0 and not failed:
                client._check(status)

        try:
            client._use_aside(read)
        except BaseException:
            self.has_ended = True  # of an interrupt: the rest is for nobody
            raise
        if failed:
            raise failed[0]
        self._before = visited
        self.has_ended = self._cursor.value == 0
        return found
