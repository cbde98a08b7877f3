"""The same in an event loop of asyncio."""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import Future
from ctypes import byref, c_size_t
from typing import Any, AsyncIterator, Callable, Iterable, Optional, Union, overload

from . import aside, operations
from ._library import Command, Result, lib
from .arguments import Key, Ttl, Value, keys_bytes, number
from .client import Client, ConnectionInfo, D, Registration, Statistic, document_as_client
from .errors import Disconnected, Error, error_of
from .flight import STUCK
from .operations import TIMED_OUT, UNKNOWN, Head, Item, Operation, T, Unique, is_full
from .scan import Scan, full_prefix, item_of, key_of

_RESULTS = 64  # of one turn of the loop, which has others to serve
_RETRY = 0.001  # seconds, where operations that timed out keep their slots


class AsyncClient(Unique):
    """A handle of libokv that an event loop drives: `async with await AsyncClient.open(uri)`.

    Takes the arguments of Client. Operations of different tasks are in flight together, up to
    `depth`, and those of one turn of the loop go out together. An operation whose task is cancelled
    may go on, unseen, and use its memory: neither change its value nor use its buffer before the
    client is closed.

    scan(), flush(), stat() and delete_prefix() use a second connection, in another thread.
    """

    def __init__(self, client: Client):
        """Of a client that nobody else uses any more. Call it in the loop."""
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._queue: deque[tuple[Operation[Any], asyncio.Future[Any]]] = deque()
        self._running: dict[int, tuple[Operation[Any], asyncio.Future[Any]]] = {}
        self._abandoned: list[Operation[Any]] = []  # whose memory the device may still write to
        self._last_tag = 0
        self._results = (Result * _RESULTS)()
        self._stuck_since: Optional[float] = None  # without a slot, and with nothing running
        self._turn: Optional[asyncio.Handle] = None  # the next call of _progress()
        self._beside: Optional[Future[Client]] = None
        self._lock = asyncio.Lock()  # of _beside, which has a thread for one call only
        self._depth = client.info.depth
        client._check_usable()
        self._fd = lib.okv_fd(client._handle)
        self._loop.add_reader(self._fd, self._progress)

    @classmethod
    async def open(cls, uri: Optional[str] = None, **options: Any) -> "AsyncClient":
        """Connects, while the loop goes on."""
        opened = aside.start(lambda: Client(uri, **options))
        return cls(await asyncio.wrap_future(opened))

    def __repr__(self) -> str:
        return repr(self._client).replace("Client", type(self).__name__, 1)

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection. What is under way ends with Disconnected. Does nothing in a child,
        whose loop has the descriptors of its parent's."""
        if self._client._is_closed or self._client._is_inherited():
            return
        self._loop.remove_reader(self._fd)
        if self._turn:
            self._turn.cancel()
        self._end_all(Disconnected(why="the client was closed"))
        self._client.close()
        self._abandoned.clear()
        if self._beside:
            self._beside.add_done_callback(_close_aside)

    @property
    def info(self) -> ConnectionInfo:
        """What the client is connected to."""
        return self._client.info

    @property
    def counters(self) -> dict[str, int]:
        """What only the client sees, since it was opened, without the second connection."""
        return self._client.counters

    def register(self, buffer: Any) -> Registration:
        """Registers a writable buffer with the device, for get_into(). The loop waits while the
        device pins the memory."""
        return self._client.register(buffer)

    # ---- operations, as those of Client ----

    @overload
    async def get(self, key: Key) -> Optional[bytes]: ...

    @overload
    async def get(self, key: Key, default: D) -> Union[bytes, D]: ...

    async def get(self, key: Key, default: Any = None) -> Any:
        return await self._run(operations.Get(key, self._client._value_size, default))

    async def get_item(self, key: Key) -> Optional[Item]:
        return await self._run(operations.GetItem(key, self._client._value_size))

    async def get_into(self, key: Key, buffer: Any) -> Optional[int]:
        return await self._run(operations.GetInto(key, buffer))

    async def get_range(self, key: Key, offset: int, length: int) -> Optional[bytes]:
        return await self._run(operations.GetRange(key, offset, length))

    async def get_range_into(self, key: Key, offset: int, buffer: Any) -> Optional[int]:
        return await self._run(operations.GetRangeInto(key, offset, buffer))

    async def head(self, key: Key) -> Optional[Head]:
        return await self._run(operations.HeadOf(key))

    async def exists(self, key: Key) -> bool:
        return await self._run(operations.Exists(key))

    async def put(self, key: Key, value: Value, *, ttl: Optional[Ttl] = None,
                  keep_ttl: bool = False, if_absent: bool = False,
                  if_version: Optional[int] = None) -> int:
        return await self._run(
            operations.Put(key, value, ttl, keep_ttl, if_absent, if_version))

    async def cas(self, key: Key, value: Value, version: int, *, ttl: Optional[Ttl] = None,
                  keep_ttl: bool = True) -> int:
        return await self.put(key, value, ttl=ttl, keep_ttl=keep_ttl and ttl is None,
                              if_version=number("version", version))

    async def delete(self, key: Key, *, if_version: Optional[int] = None) -> bool:
        return await self._run(operations.Delete(key, if_version))

    async def incr(self, key: Key, delta: int = 1, *, ttl: Optional[Ttl] = None) -> int:
        return await self._run(operations.Incr(key, delta, ttl))

    async def append(self, key: Key, value: Value) -> int:
        return await self._run(operations.Append(key, value))

    async def touch(self, key: Key, ttl: Optional[Ttl]) -> bool:
        return await self._run(operations.Touch(key, ttl))

    async def get_and_touch(self, key: Key, ttl: Optional[Ttl]) -> Optional[bytes]:
        return await self._run(operations.GetTouch(key, ttl, self._client._value_size))

    async def ping(self) -> None:
        await self._run(operations.Ping())

    async def get_many(self, keys: Iterable[Key]) -> list[Optional[bytes]]:
        names = keys_bytes(keys)
        outcomes = await asyncio.gather(*map(self.get, names), return_exceptions=True)
        values: list[Optional[bytes]] = []
        for at, outcome in enumerate(outcomes):
            if isinstance(outcome, Error):
                raise outcome.of_operation(at, operations.Gets.name, names[at])
            if isinstance(outcome, BaseException):
                raise outcome
            values.append(outcome)
        return values

    # ---- what libokv has as calls that block ----

    async def scan(self, prefix: Key = b"") -> AsyncIterator[Item]:
        scan = Scan(prefix, item_of)
        while not scan.has_ended:
            for item in await self._run_beside(scan.portion):
                yield item

    async def delete_prefix(self, prefix: Key) -> int:
        scan = Scan(full_prefix(prefix), key_of)
        removed = 0
        while not scan.has_ended:
            keys = await self._run_beside(scan.portion)
            removed += sum(await asyncio.gather(*map(self.delete, keys)))
        return removed

    async def flush(self) -> None:
        await self._run_beside(Client.flush)

    async def stat(self) -> dict[str, Statistic]:
        return await self._run_beside(Client.stat)

    async def _run_beside(self, call: Callable[[Client], T]) -> T:
        """In another thread, of a handle that is not the loop's."""
        async with self._lock:
            self._client._check_usable()
            if not self._beside or (self._beside.done() and self._beside.exception()):
                self._beside = aside.start(self._client._another)
            beside = await asyncio.wrap_future(self._beside)
            return await asyncio.wrap_future(aside.start(lambda: call(beside)))

    # ---- the loop ----

    async def _run(self, operation: Operation[T]) -> T:
        self._client._check_usable()
        future: asyncio.Future[T] = self._loop.create_future()
        self._queue.append((operation, future))
        self._go_on()
        return await future

    def _go_on(self) -> None:
        """In the next turn: what comes in this one goes out with it."""
        if not self._turn:
            self._turn = self._loop.call_soon(self._progress)

    def _progress(self) -> None:
        if self._turn:
            self._turn.cancel()
            self._turn = None
        ended = 0
        while True:
            self._submit()
            count = self._poll()
            ended += count
            if ended >= _RESULTS:
                self._go_on()
                return
            if count == 0:
                break
        self._sleep()

    def _sleep(self) -> None:
        """Until the descriptor is readable, or something can be submitted."""
        is_watched = lib.okv_arm(self._client._handle) == 0
        if self._poll():
            self._go_on()
        elif self._queue or (self._running and not is_watched):
            is_full = is_watched and len(self._running) >= self._depth
            if not is_full:
                self._turn = self._loop.call_later(_RETRY, self._progress)

    def _submit(self) -> None:
        while self._queue and self._queue[0][1].done():  # cancelled
            self._queue.popleft()
        count = min(len(self._queue), self._depth - len(self._running))
        if count <= 0:
            return
        commands = (Command * count)()
        for at, (operation, _) in zip(range(count), self._queue):
            operation.command.tag = self._last_tag + 1 + at
            commands[at] = operation.command
        accepted = c_size_t()
        status = lib.okv_submit(self._client._handle, commands, count, byref(accepted))
        for _ in range(accepted.value):
            self._last_tag += 1
            self._running[self._last_tag] = self._queue.popleft()
        if accepted.value:
            self._stuck_since = None
        if status and not is_full(status):
            self._refuse(error_of(status, self._client._flight.why()))
        elif status and not self._running:
            now = self._loop.time()
            self._stuck_since = self._stuck_since or now
            if now - self._stuck_since >= self._client._flight.timeout:
                self._refuse(error_of(TIMED_OUT, STUCK))

    def _refuse(self, error: Error) -> None:
        """The next operation of the queue."""
        _, future = self._queue.popleft()
        _end(future, error)
        self._go_on()

    def _poll(self) -> int:
        count = lib.okv_poll(self._client._handle, self._results, _RESULTS)
        if count < 0:
            self._loop.remove_reader(self._fd)  # which stays readable now
            self._end_all(error_of(count, self._client._flight.why()))
            return 0
        for result in self._results[:count]:
            self._take(result)
        return count

    def _take(self, result: Result) -> None:
        operation, future = self._running.pop(result.tag)
        if result.status == UNKNOWN:
            self._client._flight.keep(operation)
        try:
            if operation.again(result):
                self._queue.append((operation, future))
                return
            outcome = operation.take(result, self._client._flight.explain(result))
        except Exception as error:
            _end(future, error)
        else:
            if not future.done():
                future.set_result(outcome)

    def _end_all(self, error: Error) -> None:
        for _, future in [*self._running.values(), *self._queue]:
            _end(future, error)
        self._abandoned += [operation for operation, _ in self._running.values()]
        self._running.clear()
        self._queue.clear()


def _close_aside(opened: "Future[Client]") -> None:
    """Of a call that is running the loop does not await the end."""
    if opened.exception():
        return
    client = opened.result()
    if client._is_in_use():
        aside.start(client.close)
    else:
        client.close()


def _end(future: "asyncio.Future[Any]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


document_as_client(AsyncClient)
