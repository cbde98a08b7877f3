"""Many operations that are under way together."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_size_t, c_void_p
from typing import TYPE_CHECKING, Any, Optional

from . import operations
from ._library import Command, lib
from .arguments import Key, Ttl, Value
from .errors import Error, error_of
from .operations import Operation, Unique, is_full

if TYPE_CHECKING:
    from .client import Client


class Pipeline(Unique):
    """Operations that are run together by execute(). They may take effect in any order: put what
    depends on another into a later pipeline."""

    def __init__(self, client: "Client"):
        self._client = client
        self._batch: list[Operation[Any]] = []

    def __len__(self) -> int:
        return len(self._batch)

    def _add(self, operation: Operation[Any]) -> "Pipeline":
        self._batch.append(operation)
        return self

    def get(self, key: Key) -> "Pipeline":
        return self._add(operations.Get(key, self._client._value_size))

    def get_range(self, key: Key, offset: int, length: int) -> "Pipeline":
        return self._add(operations.GetRange(key, offset, length))

    def head(self, key: Key) -> "Pipeline":
        return self._add(operations.HeadOf(key))

    def put(self, key: Key, value: Value, *, ttl: Optional[Ttl] = None, keep_ttl: bool = False,
            if_absent: bool = False, if_version: Optional[int] = None) -> "Pipeline":
        return self._add(operations.Put(key, value, ttl, keep_ttl, if_absent, if_version))

    def delete(self, key: Key, *, if_version: Optional[int] = None) -> "Pipeline":
        return self._add(operations.Delete(key, if_version))

    def incr(self, key: Key, delta: int = 1, *, ttl: Optional[Ttl] = None) -> "Pipeline":
        return self._add(operations.Incr(key, delta, ttl))

    def append(self, key: Key, value: Value) -> "Pipeline":
        return self._add(operations.Append(key, value))

    def touch(self, key: Key, ttl: Optional[Ttl]) -> "Pipeline":
        return self._add(operations.Touch(key, ttl))

    def get_and_touch(self, key: Key, ttl: Optional[Ttl]) -> "Pipeline":
        return self._add(operations.GetTouch(key, ttl, self._client._value_size))

    def execute(self, *, raises: bool = True) -> list[Any]:
        """What each operation returned, in their order. The first exception is raised when all have
        ended; without `raises` it takes the place of what its operation would have returned."""
        batch, self._batch = self._batch, []
        outcomes = self._run(batch)
        for at, outcome in enumerate(outcomes):
            if isinstance(outcome, Operation):  # with a buffer that is large enough
                try:
                    outcomes[at] = self._client._run(outcome)
                except Error as error:
                    outcomes[at] = error
        failed = next((each for each in outcomes if isinstance(each, Exception)), None)
        if raises and failed:
            raise failed
        return outcomes

    def _run(self, batch: list[Operation[Any]]) -> list[Any]:
        """What each operation returned, or its exception; or itself, if it is to run again."""
        client = self._client
        outcomes: list[Any] = [None] * len(batch)
        commands = (Command * len(batch))()
        for at, operation in enumerate(batch):
            commands[at] = operation.command
            commands[at].tag = at
        with client._use() as handle:
            begun = ended = 0
            while ended < len(batch):
                failure = None
                if begun < len(batch):
                    begun, failure = self._submit(handle, batch, commands, begun)
                if failure:
                    outcomes[begun - 1] = failure
                    ended += 1
                    continue
                for tag, outcome in client._poll():
                    outcomes[tag] = outcome
                    ended += 1
        return outcomes

    def _submit(self, handle: c_void_p, batch: list[Operation[Any]], commands: Any,
                begun: int) -> tuple[int, Optional[Error]]:
        """Submits what there is room for. Returns how many have begun, and why the last of them
        failed at once."""
        client = self._client
        accepted = c_size_t()
        end = min(begun + client._depth, len(batch))
        for tag in range(begun, end):  # before, as an interrupt may come behind the call
            client._running[tag] = batch[tag]
        status = lib.okv_submit(handle, _from(commands, begun), end - begun, byref(accepted))
        begun += accepted.value
        for tag in range(begun, end):
            del client._running[tag]
        if status and not is_full(status):
            return begun + 1, error_of(status, client._why())
        return begun, None


def _from(commands: Any, index: int) -> Any:
    return ctypes.cast(ctypes.byref(commands, index * ctypes.sizeof(Command)),
                       ctypes.POINTER(Command))
