"""Arguments of calls. An exception for what libokv cannot take names the argument."""

from __future__ import annotations

import ctypes
import datetime
import math
import operator
import os
from typing import Any, Iterable, Union

from ._library import TTL_NONE

Key = Union[bytes, bytearray, memoryview, str]
Value = Any  # bytes, str, or whatever has a buffer: bytearray, memoryview, array, numpy.ndarray
Ttl = Union[int, float, datetime.timedelta]


def wrong_type(name: str, kinds: str, value: object) -> TypeError:
    return TypeError(f"okv: {name} is {kinds}, not {type(value).__name__}")


def integer(name: str, value: int) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise wrong_type(name, "an integer", value) from None


def number(name: str, value: int, signed: bool = False) -> int:
    """Of 64 bits: ctypes would cut off the others."""
    value = integer(name, value)
    low = -(1 << 63) if signed else 0
    if not low <= value < low + (1 << 64):
        raise OverflowError(f"okv: {name} is not a {'signed ' * signed}number of 64 bits")
    return value


def number_of_32_bits(name: str, value: int) -> int:
    """Of 32 bits, of which the last one says "none": the library says what is out of its range."""
    value = integer(name, value)
    if not 0 <= value < (1 << 32) - 1:
        raise ValueError(f"okv: {name} is not 0 to 2^32 - 2: {value}")
    return value


def _utf8(name: str, text: str, errors: str = "strict") -> bytes:
    try:
        return text.encode(errors=errors)
    except UnicodeEncodeError as error:
        raise ValueError(f"okv: {name} is no text of Unicode: {error}") from None


def text_of(name: str, text: str) -> bytes:
    """For C, where it ends with a NUL. What the system's names have beside UTF-8 stays."""
    if not isinstance(text, str):
        raise wrong_type(name, "text", text)
    return _without_nul(name, _utf8(name, text, "surrogateescape"))


def path_of(name: str, path: Union[str, bytes, "os.PathLike[Any]"]) -> bytes:
    try:
        return _without_nul(name, os.fsencode(path))
    except TypeError:
        raise wrong_type(name, "a path", path) from None
    except UnicodeEncodeError as error:
        raise ValueError(f"okv: {name} is no path: {error}") from None


def _without_nul(name: str, text: bytes) -> bytes:
    if b"\0" in text:
        raise ValueError(f"okv: {name} has a NUL")
    return text


def key_bytes(key: Key, name: str = "key") -> bytes:
    """Text is UTF-8."""
    if isinstance(key, bytes):
        return key
    if isinstance(key, str):
        return _utf8(name, key)
    return bytes(_view(name, "bytes or text", key))


def keys_bytes(keys: Iterable[Key]) -> list[bytes]:
    """Of several. One key is none: it would be taken for one of each of its characters."""
    if isinstance(keys, (str, bytes, bytearray, memoryview)) or not isinstance(keys, Iterable):
        raise wrong_type("keys", "several keys, as in a list", keys)
    some = list(keys)
    try:
        return [key_bytes(key) for key in some]
    except (TypeError, ValueError):
        return [key_bytes(key, f"keys[{at}]") for at, key in enumerate(some)]


def _view(name: str, kinds: str, memory: Any) -> memoryview:
    try:
        return memoryview(memory)
    except TypeError:
        raise wrong_type(name, kinds, memory) from None


def value_memory(value: Value) -> tuple[Any, int, Any]:
    """A pointer, a length in bytes, and what keeps the memory alive. Only what is neither bytes nor
    writable is copied."""
    if isinstance(value, str):
        value = _utf8("value", value)
    if isinstance(value, bytes):
        return value, len(value), value
    view = _view("value", "bytes, text or an object with a buffer", value)
    if not view.c_contiguous:
        raise ValueError("okv: the memory of a value is not contiguous, in C order")
    if view.readonly or view.nbytes == 0:
        copy = bytes(view)
        return copy, len(copy), copy
    memory = (ctypes.c_char * view.nbytes).from_buffer(value)
    return ctypes.addressof(memory), view.nbytes, memory


def buffer_memory(buffer: Any) -> tuple[int, int, Any]:
    """The same of memory that is written to: a bytearray, a numpy array, a writable mmap."""
    view = _view("buffer", "a writable buffer", buffer)
    if view.readonly or not view.c_contiguous:
        raise ValueError("okv: the buffer is not writable, or not contiguous, in C order")
    if view.nbytes == 0:
        return 0, 0, buffer
    memory = (ctypes.c_char * view.nbytes).from_buffer(buffer)
    return ctypes.addressof(memory), view.nbytes, memory


def ttl_to_ms(ttl: Ttl) -> int:
    """Never rounded down. What ttl_from_ms() of operations gives is as many ms again."""
    if isinstance(ttl, datetime.timedelta):
        return -(-ttl // datetime.timedelta(milliseconds=1))
    try:
        ms = round(ttl * 1000)
        if ms / 1000 != ttl:
            ms = math.ceil(ttl * 1000)
    except TypeError:
        raise wrong_type("ttl", "seconds or a timedelta", ttl) from None
    except (ValueError, OverflowError) as error:  # NaN; infinity
        raise type(error)(f"okv: ttl is no number of seconds: {ttl}") from None
    if number("ttl in ms", ms, signed=True) == TTL_NONE:
        raise OverflowError("okv: ttl is too large a number: None is for ever")
    return ms
