"""Operations: what each sends, and what its result is in Python. They are run one by one by a
Client, together by a Pipeline, and by an event loop in an AsyncClient."""

from __future__ import annotations

import ctypes
import math
from typing import Any, Generic, NamedTuple, Optional, TypeVar

from ._library import CODES, FLAGS, KINDS, TTL_NONE, Command, Result
from .arguments import Key, Ttl, Value, buffer_memory, key_bytes, number, ttl_to_ms, value_memory
from .errors import error_of

T = TypeVar("T")

NOT_FOUND = CODES["OKV_ENOTFOUND"]
TOO_SMALL = CODES["OKV_ETOOSMALL"]
TIMED_OUT = CODES["OKV_ETIMEDOUT"]
UNKNOWN = CODES["OKV_EUNKNOWN"]


def is_full(status: int) -> bool:
    """Of a submission: results are to be polled first."""
    return status == CODES["OKV_EAGAIN"]


class Unique:
    """What belongs to one connection: the end of a copy would be its end."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"okv: a {type(self).__name__} belongs to a connection, and is neither "
                        "copied nor pickled: open another client")


class Item(NamedTuple):
    """An item. `ttl`: seconds that it has to live; None: it does not expire; NaN: unknown."""

    key: bytes
    value: bytes
    version: int
    ttl: Optional[float]


class Head(NamedTuple):
    """What is known of an item without its value: its length in bytes, and as in Item."""

    length: int
    version: int
    ttl: Optional[float]


def ttl_from_ms(ttl_ms: int) -> Optional[float]:
    """None: for ever. NaN: the server did not say."""
    if ttl_ms == TTL_NONE:
        return None
    return ttl_ms / 1000 if ttl_ms else math.nan


class Operation(Generic[T]):
    """A command, with the memory that it needs until its result is there. Its outcome is a T."""

    kind = 0
    name = ""  # of the method

    def __init__(self, key: Key):
        self.key = key_bytes(key)
        self.command = Command(kind=self.kind, key=self.key, key_length=len(self.key))
        self.memory: Any = None

    def set_value(self, value: Value) -> None:
        self.command.value, self.command.value_length, self.memory = value_memory(value)

    def again(self, result: Result) -> bool:
        """Whether it is to be run once more, with a larger buffer."""
        return False

    def take(self, result: Result, why: str = "") -> T:
        """What the caller gets, or an exception."""
        if result.status == 0:
            return self.succeed(result)
        return self.fail(result, why)

    def succeed(self, result: Result) -> T:
        raise NotImplementedError

    def fail(self, result: Result, why: str) -> T:
        raise error_of(result.status, why, result.version)


class Lookup(Operation[Optional[T]]):
    """A miss is an answer: None, or what is to stand for it."""

    missing: Any = None

    def fail(self, result: Result, why: str) -> Optional[T]:
        return self.missing if result.status == NOT_FOUND else super().fail(result, why)


class Buffered(Lookup[T]):
    """A get whose buffer grows to what the value takes."""

    kind = KINDS["OKV_GET"]

    def __init__(self, key: Key, size: int):
        super().__init__(key)
        self.set_buffer(size)

    def set_buffer(self, size: int) -> None:
        self.memory = ctypes.create_string_buffer(size)
        self.command.buffer = ctypes.addressof(self.memory)
        self.command.buffer_size = size

    def again(self, result: Result) -> bool:
        if result.status != TOO_SMALL:
            return False
        self.set_buffer(result.length)
        return True


class Get(Buffered[bytes]):
    name = "get"

    def __init__(self, key: Key, size: int, default: Any = None):
        super().__init__(key, size)
        self.missing = default

    def succeed(self, result: Result) -> bytes:
        return ctypes.string_at(self.memory, result.length)


class Gets(Operation[None]):
    """Many gets, with their buffers in one memory."""

    name = "get_many"

    def __init__(self, keys: list[bytes], size: int):
        self.command = Command()
        self.commands = (Command * len(keys))()
        buffers = ctypes.create_string_buffer(size * len(keys))
        self.memory = buffers, keys
        at = ctypes.addressof(buffers)
        for tag, (command, key) in enumerate(zip(self.commands, keys)):
            command.kind = Get.kind
            command.tag = tag
            command.key = key
            command.key_length = len(key)
            command.buffer = at
            command.buffer_size = size
            at += size


class GetItem(Buffered[Item]):
    def succeed(self, result: Result) -> Item:
        value = ctypes.string_at(self.memory, result.length)
        return Item(self.key, value, result.version, ttl_from_ms(result.ttl_ms))


class GetInto(Lookup[int]):
    kind = KINDS["OKV_GET"]

    def __init__(self, key: Key, buffer: Any):
        super().__init__(key)
        self.command.buffer, self.command.buffer_size, self.memory = buffer_memory(buffer)

    def succeed(self, result: Result) -> int:
        return result.length


class GetRangeInto(GetInto):
    kind = KINDS["OKV_GET_RANGE"]

    def __init__(self, key: Key, offset: int, buffer: Any):
        super().__init__(key, buffer)
        self.command.offset = number("offset", offset)

    def succeed(self, result: Result) -> int:
        """The bytes that are in the buffer now."""
        there = max(result.length - self.command.offset, 0)
        return min(there, self.command.buffer_size)


class GetRange(Lookup[bytes]):
    name = "get_range"
    kind = KINDS["OKV_GET_RANGE"]

    def __init__(self, key: Key, offset: int, length: int):
        super().__init__(key)
        self.part = GetRangeInto(key, offset, bytearray(number("length", length)))
        self.command, self.memory = self.part.command, self.part.memory

    def succeed(self, result: Result) -> bytes:
        return ctypes.string_at(self.command.buffer, self.part.succeed(result))


class HeadOf(Lookup[Head]):
    name = "head"
    kind = KINDS["OKV_HEAD"]

    def succeed(self, result: Result) -> Head:
        return Head(result.length, result.version, ttl_from_ms(result.ttl_ms))


class Put(Operation[int]):
    name = "put"
    kind = KINDS["OKV_PUT"]

    def __init__(self, key: Key, value: Value, ttl: Optional[Ttl], keep_ttl: bool,
                 if_absent: bool, if_version: Optional[int]):
        super().__init__(key)
        self.set_value(value)
        command = self.command
        if ttl is not None:
            command.flags |= FLAGS["OKV_WITH_TTL"]
            command.ttl_ms = ttl_to_ms(ttl)
        if keep_ttl:
            command.flags |= FLAGS["OKV_KEEP_TTL"]
        if if_absent:
            command.flags |= FLAGS["OKV_IF_ABSENT"]
        if if_version is not None:
            command.flags |= FLAGS["OKV_IF_VERSION"]
            command.version = number("if_version", if_version)

    def succeed(self, result: Result) -> int:
        return result.version


class Whether(Operation[bool]):
    """Of an item that has to be there: whether it was."""

    def succeed(self, result: Result) -> bool:
        return True

    def fail(self, result: Result, why: str) -> bool:
        return False if result.status == NOT_FOUND else super().fail(result, why)


class Exists(Whether):
    name = "exists"
    kind = KINDS["OKV_HEAD"]


class Delete(Whether):
    name = "delete"
    kind = KINDS["OKV_DELETE"]

    def __init__(self, key: Key, if_version: Optional[int]):
        super().__init__(key)
        if if_version is not None:
            self.command.flags = FLAGS["OKV_IF_VERSION"]
            self.command.version = number("if_version", if_version)


class Incr(Operation[int]):
    name = "incr"
    kind = KINDS["OKV_INCR"]

    def __init__(self, key: Key, delta: int, ttl: Optional[Ttl]):
        super().__init__(key)
        self.command.delta = number("delta", delta, signed=True)
        if ttl is not None:
            self.command.flags = FLAGS["OKV_WITH_TTL"]
            self.command.ttl_ms = ttl_to_ms(ttl)

    def succeed(self, result: Result) -> int:
        return result.number


class Append(Operation[int]):
    name = "append"
    kind = KINDS["OKV_APPEND"]

    def __init__(self, key: Key, value: Value):
        super().__init__(key)
        self.set_value(value)

    def succeed(self, result: Result) -> int:
        return result.length


def _new_ttl_ms(ttl: Optional[Ttl]) -> int:
    return TTL_NONE if ttl is None else ttl_to_ms(ttl)


class Touch(Whether):
    name = "touch"
    kind = KINDS["OKV_TOUCH"]

    def __init__(self, key: Key, ttl: Optional[Ttl]):
        super().__init__(key)
        self.command.ttl_ms = _new_ttl_ms(ttl)


class GetTouch(Get):
    name = "get_and_touch"
    kind = KINDS["OKV_GET_TOUCH"]

    def __init__(self, key: Key, ttl: Optional[Ttl], size: int):
        super().__init__(key, size)
        self.command.ttl_ms = _new_ttl_ms(ttl)


class Ping(Operation[None]):
    kind = KINDS["OKV_PING"]

    def __init__(self) -> None:
        self.command = Command(kind=self.kind)
        self.memory = None

    def succeed(self, result: Result) -> None:
        return None
