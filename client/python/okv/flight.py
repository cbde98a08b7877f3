"""Operations in flight on a handle, whose user waits for them where signals are handled."""

from __future__ import annotations

import ctypes
import re
import time
from ctypes import byref, c_size_t, c_void_p
from typing import Any, Callable, Iterator, Optional, Union

from ._library import Command, Counters, Info, Result, lib
from .errors import error_of
from .operations import NOT_FOUND, TIMED_OUT, TOO_SMALL, UNKNOWN, Operation, is_full

_WAIT_MS = 100  # in libokv: a signal is handled after at most this time
_RETRY_MS = 1  # while operations that timed out have all slots, of whose end no wait hears
_RESULTS = 64  # at once
STUCK = "operations that timed out have all slots until their answers come"
_COMMAND_SIZE = ctypes.sizeof(Command)
_PLACE = re.compile(r"^okv_(submit: commands\[\d+\]\.|poll: )")


class Flight:
    """Used by one thread at a time, as the handle is. `timeout`: of an operation, seconds."""

    def __init__(self, handle: c_void_p, depth: int, timeout: float):
        # By tag: what run() runs, and after an interrupt what nobody waits for.
        self.operations: dict[int, Operation[Any]] = {}
        self.afterwards: list[Callable[[], None]] = []  # for when nothing is in flight
        self._handle = handle
        self._depth = depth
        self.timeout = timeout
        self._begun = 0  # tags below it may be in flight
        self._kept: list[tuple[int, Any]] = []  # values that the server may still READ, and since
        self._results = (Result * _RESULTS)()
        self._accepted = c_size_t()

    def why(self) -> str:
        """Of a command that was refused, or of a failed result that was polled."""
        return _PLACE.sub("", lib.okv_why(self._handle).decode(errors="replace"))

    def explain(self, result: Result) -> str:
        return "" if result.status in (0, NOT_FOUND, TOO_SMALL) else self.why()

    def run(self, commands: Union[Command, "ctypes.Array[Command]"],
            count: int) -> Iterator[tuple[int, Result, str]]:
        """Runs commands whose tags are their places, and yields the place, the result and the
        sentence of each that has ended. A result is valid until the next one. The operations of
        the commands, or one for all, are in `operations`."""
        self._begun = begun = ended = 0
        stuck_since: Optional[float] = None
        accepted = self._accepted
        while ended < count:
            if begun < count:
                some = min(self._depth, count - begun)
                self._begun = begun + some  # before, as an interrupt may come behind the call
                status = lib.okv_submit(self._handle, byref(commands, begun * _COMMAND_SIZE), some,
                                        byref(accepted))
                begun += accepted.value
                if accepted.value:
                    stuck_since = None
                if status and not is_full(status):
                    yield self._refuse(begun, status, self.why())
                    begun += 1
                    ended += 1
                    continue
            results = self._poll()
            for result in results:
                yield result.tag, result, self.explain(result)
            ended += len(results)
            if results:
                continue
            if ended < begun:
                lib.okv_wait(self._handle, _WAIT_MS)
                continue
            now = time.monotonic()
            stuck_since = stuck_since or now
            if now - stuck_since < self.timeout:
                lib.okv_wait(self._handle, _RETRY_MS)
                continue
            yield self._refuse(begun, TIMED_OUT, STUCK)
            begun += 1
            ended += 1

    def _refuse(self, tag: int, status: int, why: str) -> tuple[int, Result, str]:
        self.operations.pop(tag, None)
        return tag, Result(tag=tag, status=status), why

    def _poll(self) -> list[Result]:
        """The results that there are now. A value that the server may still READ is kept."""
        got: int = lib.okv_poll(self._handle, self._results, _RESULTS)
        if got < 0:
            raise error_of(got, self.why())
        results = self._results[:got]
        for result in results:
            operation = self.operations.pop(result.tag, None)
            if operation and result.status == UNKNOWN:
                self.keep(operation)
        return results

    def settle(self) -> None:
        """Waits for what an interrupt has left in flight. Of an operation whose result came to
        nobody it is not known whether the server may still READ its value."""
        while lib.okv_pending(self._handle):
            if not self._poll():
                lib.okv_wait(self._handle, _WAIT_MS)
        for tag, operation in self.operations.items():
            if tag < self._begun:
                self.keep(operation)
        self.operations.clear()
        afterwards, self.afterwards = self.afterwards, []
        for call in afterwards:
            call()

    def keep(self, operation: Operation[Any]) -> None:
        """After an unknown outcome the server may READ a long value as long as there is the same
        connection."""
        counters, info = Counters(), Info()
        lib.okv_counters_sized(self._handle, byref(counters), ctypes.sizeof(counters))
        lib.okv_info_sized(self._handle, byref(info), ctypes.sizeof(info))
        now = counters.reconnects
        self._kept = [(since, kept) for since, kept in self._kept if since == now]
        if operation.command.value_length + operation.command.key_length > info.max_message_value:
            self._kept.append((now, operation.memory))

    def forget(self) -> None:
        """The handle is closed."""
        self.operations.clear()
        self.afterwards.clear()
        self._kept.clear()
