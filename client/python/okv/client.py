"""A connection to one server, with calls that block."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from ctypes import byref, c_size_t, c_void_p
from typing import Any, Iterable, Iterator, NamedTuple, Optional

from . import operations
from ._library import CODES, COUNTERS, Command, Counters, Info, Options, Result, lib
from .arguments import (Key, Ttl, Value, buffer_memory, keys_bytes, number, number_of_32_bits,
                        text_of)
from .errors import Disconnected, error_of
from .operations import TOO_SMALL, UNKNOWN, Head, Item, Operation, T, Unique
from .options import default_uri, make_options
from .pipeline import Pipeline
from .scan import Scan, full_prefix, item_of, key_of

_WHY_SIZE = 1024
_STAT_SIZE = 16384
_TOGETHER = 1024  # gets whose buffers are there at once

_forks = 0


def _note_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_note_fork)


class ConnectionInfo(NamedTuple):
    """What a client is connected to: struct okv_info of okv.h."""

    transport: str
    path: str
    boot_id: int
    session_id: int
    region_bytes: int
    buckets: int
    bucket_bytes: int
    max_value: int
    credits: int
    depth: int
    max_message_value: int
    one_sided: bool


class Client(Unique):
    """A handle of libokv. Threads may share it, but then wait for each other: give each its own.

    `uri` is as in okv.h; the default is $OKV_SERVER, else the well-known socket on this host, as
    for the program okv. Times are in seconds, above 0: `timeout` is the deadline of each operation
    (5), `connect_timeout` that of opening (3), `keepalive` the time within which a dead host is
    detected (3; 0 sends no heartbeats), `report` the interval at which counters are reported to the
    server (10; 0: never). Up to `depth` operations of a pipeline are in flight at once (32).
    `value_size` is the size of the buffer that a get begins with: a longer value takes a second
    READ. `reconnect` is "always", "if_kept" (fail if the server has lost its items) or "never".
    `tls_ca`, `tls_cert`, `tls_key` (PEM files) and `tls_server_name` are for tcps://, as in okv.h.
    After a fork a child opens its own client.
    """

    def __init__(self, uri: Optional[str] = None, *, database: Optional[str] = None,
                 user: Optional[str] = None, key_file: Optional[str] = None,
                 timeout: Optional[float] = None, connect_timeout: Optional[float] = None,
                 depth: int = 0, credits: int = 0, hints: Optional[int] = None,
                 reconnect: str = "always", keepalive: Optional[float] = None,
                 report: Optional[float] = None, value_size: int = 4096,
                 tls_ca: Optional[str] = None, tls_cert: Optional[str] = None,
                 tls_key: Optional[str] = None, tls_server_name: Optional[str] = None):
        tls = {"tls_ca": tls_ca, "tls_cert": tls_cert, "tls_key": tls_key,
               "tls_server_name": tls_server_name}
        options = make_options(database, user, key_file, timeout, connect_timeout, depth, credits,
                               hints, reconnect, keepalive, report, tls)
        self._open(uri or os.environ.get("OKV_SERVER") or default_uri(), options,
                   number_of_32_bits("value_size", value_size))

    def _open(self, uri: str, options: Options, value_size: int) -> None:
        self._opened = uri, options, value_size
        self._handle = c_void_p()
        self._forks = _forks
        self._lock = threading.Lock()
        self._value_size = value_size
        self._kept: list[tuple[int, Any]] = []  # values that the server may still READ, and since
        self._running: dict[int, Operation[Any]] = {}  # of a pipeline, by tag
        self._registrations: set[Registration] = set()
        why = ctypes.create_string_buffer(_WHY_SIZE)
        status = lib.okv_open(text_of("uri", uri), byref(options), byref(self._handle), why, _WHY_SIZE)
        if status:
            raise error_of(status, why.value.decode(errors="replace"))
        self._depth = self.info.depth

    def _another(self) -> "Client":
        """One with a connection of its own, opened as this one."""
        client = Client.__new__(Client)
        client._open(*self._opened)
        return client

    # ---- its life ----

    def close(self) -> None:
        """Waits until no other thread is in a call, then ends the connection. Does nothing to a
        client that is closed already, or was inherited from the parent process."""
        if self._is_inherited():
            return
        with self._lock:
            if self._handle:
                lib.okv_close(byref(self._handle))
            self._handle = c_void_p()
            self._kept.clear()
            self._running.clear()
            self._registrations.clear()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()

    def _is_inherited(self) -> bool:
        """From the parent process."""
        return self._forks != _forks

    def _check_usable(self) -> None:
        if self._is_inherited():
            raise Disconnected(why="the client is the parent's: open another one after a fork")
        if not self._handle:
            raise Disconnected(why="the client is closed")

    @contextlib.contextmanager
    def _use(self) -> Iterator[c_void_p]:
        """The handle, for this thread alone."""
        self._check_usable()  # in a child the lock may be held by a thread that is not there
        with self._lock:
            self._check_usable()
            while self._running:  # of a pipeline that was interrupted: nobody waits for them
                self._poll()
            yield self._handle

    def _why(self) -> str:
        return lib.okv_why(self._handle).decode(errors="replace")

    def _check(self, status: int) -> None:
        if status:
            raise error_of(status, self._why())

    # ---- one operation ----

    def _keep(self, operation: Operation[Any]) -> None:
        """After an unknown outcome the server may READ a long value as long as there is the same
        connection."""
        counters, info = Counters(), Info()
        lib.okv_counters_sized(self._handle, byref(counters), ctypes.sizeof(counters))
        lib.okv_info_sized(self._handle, byref(info), ctypes.sizeof(info))
        now = counters.reconnects
        self._kept = [(since, kept) for since, kept in self._kept if since == now]
        if operation.command.value_length + operation.command.key_length > info.max_message_value:
            self._kept.append((now, operation.memory))

    def _run(self, operation: Operation[T]) -> T:
        result = Result()
        with self._use() as handle:
            lib.okv_call(handle, byref(operation.command), byref(result))
            while operation.again(result):
                lib.okv_call(handle, byref(operation.command), byref(result))
            why = self._why() if result.status else ""
            if result.status == UNKNOWN:
                self._keep(operation)
        return operation.take(result, why)

    def get(self, key: Key) -> Optional[bytes]:
        """The value, or None."""
        return self._run(operations.Get(key, self._value_size))

    def get_item(self, key: Key) -> Optional[Item]:
        """The value with its version and time to live, or None."""
        return self._run(operations.GetItem(key, self._value_size))

    def get_into(self, key: Key, buffer: Any) -> Optional[int]:
        """Reads the value into a writable buffer, such as a numpy array, and returns its length in
        bytes, or None. TooLarge: the buffer is smaller. A buffer of register() takes a long value
        straight from the device."""
        return self._run(operations.GetInto(key, buffer))

    def get_range(self, key: Key, offset: int, length: int) -> Optional[bytes]:
        """At most `length` bytes of the value, from `offset` on, or None. Of a long value usually
        only these are fetched."""
        return self._run(operations.GetRange(key, offset, length))

    def get_range_into(self, key: Key, offset: int, buffer: Any) -> Optional[int]:
        """Reads the value from `offset` on into a writable buffer, as much as fits, and returns how
        many bytes, or None."""
        return self._run(operations.GetRangeInto(key, offset, buffer))

    def head(self, key: Key) -> Optional[Head]:
        """Length, version and time to live, or None."""
        return self._run(operations.HeadOf(key))

    def put(self, key: Key, value: Value, *, ttl: Optional[Ttl] = None, keep_ttl: bool = False,
            if_absent: bool = False, if_version: Optional[int] = None) -> int:
        """Stores a value and returns its version. `ttl`: seconds, or a timedelta. With `keep_ttl`
        the item expires when it would have, else without `ttl` never. Raises Exists with
        `if_absent`; Conflict and NotFound with `if_version`."""
        return self._run(operations.Put(key, value, ttl, keep_ttl, if_absent, if_version))

    def cas(self, key: Key, value: Value, version: int, *, ttl: Optional[Ttl] = None,
            keep_ttl: bool = True) -> int:
        """Stores a value if the item has this version, and keeps its time to live unless `ttl` is
        another: see put()."""
        return self.put(key, value, ttl=ttl, keep_ttl=keep_ttl and ttl is None,
                        if_version=number("version", version))

    def delete(self, key: Key, *, if_version: Optional[int] = None) -> bool:
        """Whether the item was there. Raises Conflict with `if_version`."""
        return self._run(operations.Delete(key, if_version))

    def incr(self, key: Key, delta: int = 1, *, ttl: Optional[Ttl] = None) -> int:
        """Adds to a decimal number, or to 0, and returns the sum. `ttl` is for an item that this
        call creates. A number with leading zeros is none: OKV_ENUMBER."""
        return self._run(operations.Incr(key, delta, ttl))

    def append(self, key: Key, value: Value) -> int:
        """Appends to a value, or stores it, and returns the length of the whole."""
        return self._run(operations.Append(key, value))

    def touch(self, key: Key, ttl: Optional[Ttl]) -> bool:
        """Sets the time to live of an item; None: for ever. Returns whether the item is there."""
        return self._run(operations.Touch(key, ttl))

    def get_and_touch(self, key: Key, ttl: Optional[Ttl]) -> Optional[bytes]:
        """Returns the value, or None, and sets the item's time to live (`ttl` None: for ever). The
        value has to fit a message (info.max_message_value). Takes one request, or two if the value
        is longer than `value_size`."""
        return self._run(operations.GetTouch(key, ttl, self._value_size))

    def ping(self) -> None:
        """One request and its answer."""
        self._run(operations.Ping())

    def __contains__(self, key: Key) -> bool:
        return self.head(key) is not None

    # ---- many ----

    def get_many(self, keys: Iterable[Key]) -> list[Optional[bytes]]:
        """The values of keys, in their order, None where there is none. Their READs go out
        together."""
        wanted = keys_bytes(keys)
        values: list[Optional[bytes]] = []
        for begin in range(0, len(wanted), _TOGETHER):
            values += self._get_together(wanted[begin : begin + _TOGETHER])
        return values

    def _get_together(self, names: list[bytes]) -> list[Optional[bytes]]:
        size = self._value_size
        memory = ctypes.create_string_buffer(size * len(names))
        at = ctypes.addressof(memory)
        commands = (Command * len(names))()
        for command, name in zip(commands, names):
            command.kind = operations.Get.kind
            command.key = name
            command.key_length = len(name)
            command.buffer = at
            command.buffer_size = size
            at += size
        results = (Result * len(names))()
        with self._use() as handle:
            self._check(lib.okv_call_many(handle, commands, results, len(names)))
            why = self._why()
        return [self._value_of(*each, why) for each in zip(names, commands, results)]

    def _value_of(self, key: bytes, command: Command, result: Result,
                  why: str) -> Optional[bytes]:
        if result.status == 0:
            return ctypes.string_at(command.buffer, result.length)
        if result.status == TOO_SMALL:
            return self._run(operations.Get(key, result.length))
        return operations.Get(key, 0).take(result, why)

    def pipeline(self) -> Pipeline:
        """For many operations that are under way together."""
        return Pipeline(self)

    def _poll(self) -> list[tuple[int, Any]]:
        """Waits a little for results. Returns tags and outcomes."""
        results = (Result * 64)()
        count = lib.okv_poll(self._handle, results, len(results))
        if count < 0:
            raise error_of(count, self._why())
        if count == 0:
            lib.okv_wait(self._handle, 1)
        return [(result.tag, self._outcome(self._running.pop(result.tag), result))
                for result in results[:count]]

    def _outcome(self, operation: Operation[Any], result: Result) -> Any:
        if result.status == UNKNOWN:
            self._keep(operation)
        if result.status == TOO_SMALL and operation.again(result):
            return operation
        try:
            return operation.take(result)
        except Exception as error:
            return error

    # ---- the whole table ----

    def scan(self, prefix: Key = b"") -> Iterator[Item]:
        """Yields all items whose keys begin with the prefix; reads the whole table for them. An
        item that is there from beginning to end comes exactly once."""
        scan = Scan(prefix, item_of)
        while not scan.has_ended:
            yield from scan.portion(self)

    def delete_prefix(self, prefix: Key) -> int:
        """Removes the items whose keys begin with the prefix, and returns how many; all the table
        is read for them. Those that are put meanwhile may stay. An empty prefix is an error: see
        flush()."""
        scan = Scan(full_prefix(prefix), key_of)
        removed = 0
        while not scan.has_ended:
            batch = self.pipeline()
            for key in scan.portion(self):
                batch.delete(key)
            removed += sum(batch.execute())
        return removed

    def flush(self) -> None:
        """Removes every item. It takes the right admin."""
        with self._use() as handle:
            self._check(lib.okv_flush(handle))

    # ---- what there is to see ----

    def stat(self) -> dict[str, str]:
        """The server's statistics. Raises Error when they are no text."""
        size = _STAT_SIZE
        length = c_size_t()
        with self._use() as handle:
            while True:
                text = ctypes.create_string_buffer(size)
                status = lib.okv_stat(handle, text, size, byref(length))
                if status != TOO_SMALL:
                    break
                size = length.value + _STAT_SIZE
            self._check(status)
        try:
            lines = text.value.decode().split("\n")
        except UnicodeDecodeError:
            raise error_of(CODES["OKV_EPROTO"], "the server's statistics are no text") from None
        pairs = (line.partition(" ") for line in lines if line)
        return {name: value for name, _, value in pairs}

    @property
    def info(self) -> ConnectionInfo:
        """What the client is connected to."""
        info = Info()
        with self._use() as handle:
            lib.okv_info_sized(handle, byref(info), ctypes.sizeof(info))
            fields = {name: getattr(info, name) for name in ConnectionInfo._fields}
        fields["transport"] = fields["transport"].decode()
        fields["path"] = fields["path"].decode(errors="replace")
        fields["one_sided"] = bool(info.one_sided)
        return ConnectionInfo(**fields)

    @property
    def counters(self) -> dict[str, int]:
        """What only the client sees, since it was opened: gets, hits, READs, fallbacks, …"""
        counters = Counters()
        with self._use() as handle:
            lib.okv_counters_sized(handle, byref(counters), ctypes.sizeof(counters))
        return {name: getattr(counters, name) for name in COUNTERS}

    # ---- memory ----

    def register(self, buffer: Any) -> "Registration":
        """Registers a writable buffer with the device, for get_into()."""
        return Registration(self, buffer)


class Registration(Unique):
    """Memory registered with the device until close(), or until its client is closed. It is kept
    alive until then. Close it only when no get reads into it."""

    def __init__(self, client: Client, buffer: Any):
        self._client = client
        self._memory = c_void_p()
        address, length, self._kept = buffer_memory(buffer)
        with client._use() as handle:
            client._check(lib.okv_register(handle, address, length, byref(self._memory)))
            client._registrations.add(self)

    def close(self) -> None:
        """Gives the memory back, and lets its owner change its size again."""
        client = self._client
        if not client._is_inherited():
            with client._lock:
                if self in client._registrations:
                    lib.okv_unregister(client._handle, byref(self._memory))
                    client._registrations.remove(self)
        self._kept = None

    def __enter__(self) -> "Registration":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def document_as_client(other: type) -> None:
    """Its methods of the same names do the same."""
    for name, method in vars(other).items():
        if not name.startswith("_") and callable(method) and not method.__doc__:
            method.__doc__ = getattr(Client, name).__doc__


document_as_client(Pipeline)
