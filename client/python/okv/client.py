"""A connection to one server, with calls that block."""

from __future__ import annotations

import ctypes
import os
import re
import threading
from concurrent.futures import Future
from ctypes import byref, c_size_t, c_void_p
from typing import (Any, Callable, Iterable, Iterator, NamedTuple, Optional, TypeVar, Union,
                    overload)

from . import aside, operations
from ._library import CODES, COUNTERS, Counters, Info, Options, lib
from .arguments import (Key, Ttl, Value, buffer_memory, keys_bytes, number, number_of_32_bits,
                        text_of)
from .errors import Disconnected, Error, error_of
from .flight import Flight
from .operations import NOT_FOUND, TOO_SMALL, Head, Item, Operation, T, Unique
from .options import default_uri, make_options
from .pipeline import Pipeline
from .scan import Scan, full_prefix, item_of, key_of

_WHY_SIZE = 1024
_STAT_SIZE = 16384
_TIMEOUT_MS = 5000  # the default of okv_options.timeout_ms
_TOGETHER = 1024  # gets whose buffers are there at once

_forks = 0


def _note_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_note_fork)


D = TypeVar("D")
Statistic = Union[int, float, str]


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
    uri: str
    epoch: int
    lease_ms: int


def _statistic(name: str, text: str) -> Statistic:
    """An id may have digits only, and is no number."""
    if name == "boot_id" or not re.fullmatch(r"-?\d+(\.\d+)?", text, re.ASCII):
        return text
    return float(text) if "." in text else int(text)


class Client(Unique):
    """A handle of libokv. Threads may share it, but then wait for each other: give each its own.

    `uri` is as in okv.h; the default is $OKV_SERVER, else the well-known socket on this host, as
    for the program okv. So is what $OKV_DATABASE, $OKV_USER, $OKV_KEY_FILE and $OKV_TLS_CA are for:
    `database`, `user`, `key_file` and `tls_ca` where these are not given. Times are in seconds, above 0: `timeout` is the deadline of each operation
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
        database = database or os.environ.get("OKV_DATABASE") or None
        user = user or os.environ.get("OKV_USER") or None
        key_file = key_file or os.environ.get("OKV_KEY_FILE") or None
        tls = {"tls_ca": tls_ca, "tls_cert": tls_cert, "tls_key": tls_key,
               "tls_server_name": tls_server_name}
        options = make_options(database, user, key_file, timeout, connect_timeout, depth, credits,
                               hints, reconnect, keepalive, report, tls)
        self._open(uri or os.environ.get("OKV_SERVER") or default_uri(), options,
                   number_of_32_bits("value_size", value_size))

    def _open(self, uri: str, options: Options, value_size: int) -> None:
        self._opened = uri, options, value_size
        self._handle = c_void_p()
        self._is_closed = False
        self._forks = _forks
        self._lock = threading.RLock()  # it knows its owner; nobody takes it twice
        self._interrupted: Optional[Future[Any]] = None  # a call that still has the handle
        self._value_size = value_size
        self._registrations: set[Registration] = set()
        why = ctypes.create_string_buffer(_WHY_SIZE)
        name = text_of("uri", uri)
        status = aside.run(lambda: lib.okv_open(name, byref(options), byref(self._handle), why,
                                                _WHY_SIZE))
        if status:
            raise error_of(status, why.value.decode(errors="replace"))
        info = Info()
        lib.okv_info_sized(self._handle, byref(info), ctypes.sizeof(info))
        self._depth: int = info.depth
        self._flight = Flight(self._handle, self._depth,
                              (options.timeout_ms or _TIMEOUT_MS) / 1000)

    def _another(self) -> "Client":
        """One with a connection of its own, opened as this one."""
        client = Client.__new__(Client)
        client._open(*self._opened)
        return client

    # ---- its life ----

    def close(self) -> None:
        """Waits until no other thread is in a call, then ends the connection; operations that an
        interrupt has left under way end without a result. A scan(), stat() or flush() that was
        interrupted may still have the connection, which then ends behind it; so does that of a call
        which the signal handler that closes the client interrupts. Does nothing to a client that is
        closed already, or was inherited from the parent process."""
        if not self._is_inherited():
            self._is_closed = True
            self._when_free(self._free)

    def _free(self) -> None:
        if self._handle:
            lib.okv_close(byref(self._handle))
        self._handle = c_void_p()
        self._registrations.clear()
        if hasattr(self, "_flight"):  # not where opening was interrupted
            self._flight.forget()

    def _when_free(self, call: Callable[[], None]) -> None:
        """Makes the call with the lock, behind an interrupted call without waiting for that."""

        def locked() -> None:
            with self._lock:
                call()

        if self._is_interrupted() or self._interrupted and not self._interrupted.done():
            aside.start(locked)
        else:
            locked()

    def __repr__(self) -> str:
        state = ", closed" * (self._is_closed or self._is_inherited())
        return f"<okv.{type(self).__name__} {self._opened[0]}{state}>"

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
        if self._is_closed:
            raise Disconnected(why="the client is closed")

    def _is_interrupted(self) -> bool:
        """By who asks: the handler of a signal runs in the thread whose call it interrupts."""
        return self._lock._is_owned()  # type: ignore[attr-defined]

    def _is_in_use(self) -> bool:
        is_free = self._lock.acquire(blocking=False)
        if is_free:
            self._lock.release()
        return not is_free

    def _turn(self) -> threading.RLock:
        """To hold while this thread uses the client, which begins with _ready()."""
        self._check_usable()  # in a child the lock may be held by a thread that is not there
        if self._is_interrupted():
            raise RuntimeError("okv: the client is in the call that this signal handler interrupts: "
                               "give the handler a client of its own, or let it close() this one")
        return self._lock

    def _ready(self) -> Flight:
        """With nothing in flight."""
        self._check_usable()
        if self._flight.operations:
            self._flight.settle()
        return self._flight

    def _use_aside(self, call: Callable[[c_void_p], T]) -> T:
        """What the call, which blocks, makes of the handle."""

        def use() -> T:
            with self._turn():
                self._ready()
                return call(self._handle)

        if not aside.is_needed():
            return use()
        future = aside.start(use)
        try:
            return aside.await_result(future)
        finally:
            self._interrupted = None if future.done() else future

    def _check(self, status: int) -> None:
        if status:
            raise error_of(status, self._flight.why())

    # ---- one operation ----

    def _run(self, operation: Operation[T]) -> T:
        with self._turn():
            flight = self._ready()
            while True:
                flight.operations[0] = operation
                for _, result, why in flight.run(operation.command, 1):
                    if not operation.again(result):
                        return operation.take(result, why)

    @overload
    def get(self, key: Key) -> Optional[bytes]: ...

    @overload
    def get(self, key: Key, default: D) -> Union[bytes, D]: ...

    def get(self, key: Key, default: Any = None) -> Any:
        """The value, or `default` if there is no such item."""
        return self._run(operations.Get(key, self._value_size, default))

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

    def exists(self, key: Key) -> bool:
        """Whether there is such an item; `key in client` is the same."""
        return self._run(operations.Exists(key))

    def __contains__(self, key: Key) -> bool:
        return self.exists(key)

    # ---- many ----

    def get_many(self, keys: Iterable[Key]) -> list[Optional[bytes]]:
        """The values of keys, in their order, None where there is none. Their READs go out
        together."""
        wanted = keys_bytes(keys)
        values: list[Optional[bytes]] = []
        for begin in range(0, len(wanted), _TOGETHER):
            values += self._get_together(wanted[begin : begin + _TOGETHER], begin)
        return values

    def _get_together(self, names: list[bytes], begin: int) -> list[Optional[bytes]]:
        """Those from the index `begin` on."""
        gets = operations.Gets(names, self._value_size)
        values: list[Optional[bytes]] = [None] * len(names)
        longer: list[tuple[int, int]] = []
        failed: dict[int, Error] = {}
        with self._turn():
            flight = self._ready()
            flight.operations[-1] = gets
            for at, result, why in flight.run(gets.commands, len(names)):
                if result.status == 0:
                    values[at] = ctypes.string_at(gets.commands[at].buffer, result.length)
                elif result.status == TOO_SMALL:
                    longer.append((at, result.length))
                elif result.status != NOT_FOUND:
                    failed[at] = error_of(result.status, why)
            flight.operations.clear()
        for at, length in longer:
            try:
                values[at] = self._run(operations.Get(names[at], length))
            except Error as error:
                failed[at] = error
        if failed:
            at = min(failed)
            raise failed[at].of_operation(begin + at, gets.name, names[at])
        return values

    def pipeline(self) -> Pipeline:
        """For many operations that are under way together."""
        return Pipeline(self)

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
        self._use_aside(lambda handle: self._check(lib.okv_flush(handle)))

    # ---- what there is to see ----

    def stat(self) -> dict[str, Statistic]:
        """The server's statistics: numbers, and text such as `boot_id` and `version`. Raises Error
        when they are no text."""
        try:
            lines = self._use_aside(self._statistics).decode().split("\n")
        except UnicodeDecodeError:
            raise error_of(CODES["OKV_EPROTO"], "the server's statistics are no text") from None
        pairs = (line.partition(" ") for line in lines if line)
        return {name: _statistic(name, value) for name, _, value in pairs}

    def _statistics(self, handle: c_void_p) -> bytes:
        size = _STAT_SIZE
        length = c_size_t()
        while True:
            text = ctypes.create_string_buffer(size)
            status = lib.okv_stat(handle, text, size, byref(length))
            if status != TOO_SMALL:
                self._check(status)
                return text.value
            size = length.value + _STAT_SIZE

    @property
    def info(self) -> ConnectionInfo:
        """What the client is connected to."""
        info = Info()
        with self._turn():
            self._ready()
            lib.okv_info_sized(self._handle, byref(info), ctypes.sizeof(info))
            fields = {name: getattr(info, name) for name in ConnectionInfo._fields}
        fields["transport"] = fields["transport"].decode()
        fields["path"] = fields["path"].decode(errors="replace")
        fields["uri"] = fields["uri"].decode(errors="replace")
        fields["one_sided"] = bool(info.one_sided)
        return ConnectionInfo(**fields)

    @property
    def counters(self) -> dict[str, int]:
        """What only the client sees, since it was opened: gets, hits, READs, fallbacks, …"""
        counters = Counters()
        with self._turn():
            self._ready()
            lib.okv_counters_sized(self._handle, byref(counters), ctypes.sizeof(counters))
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
        with client._turn():
            client._ready()
            client._check(lib.okv_register(client._handle, address, length, byref(self._memory)))
            client._registrations.add(self)

    def close(self) -> None:
        """Gives the memory back, and lets its owner change its size again. A get into it that was
        interrupted may be under way: the memory then stays registered until the client's next call,
        or until the client is closed."""
        client = self._client
        if client._is_inherited():
            self._kept = None
        else:
            client._when_free(self._free)

    def _free(self) -> None:
        client = self._client
        if client._handle and client._flight.operations:
            client._flight.afterwards.append(self._free)
            return
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
