"""Many operations that are under way together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from . import operations
from ._library import Command, Result
from .arguments import Key, Ttl, Value
from .errors import Error
from .operations import Operation, Unique

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

    def get(self, key: Key, default: Any = None) -> "Pipeline":
        return self._add(operations.Get(key, self._client._value_size, default))

    def get_range(self, key: Key, offset: int, length: int) -> "Pipeline":
        return self._add(operations.GetRange(key, offset, length))

    def head(self, key: Key) -> "Pipeline":
        return self._add(operations.HeadOf(key))

    def exists(self, key: Key) -> "Pipeline":
        return self._add(operations.Exists(key))

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
        ended; without `raises` it takes the place of what its operation would have returned. It
        names the operation: Error.index, command and key."""
        batch, self._batch = self._batch, []
        outcomes = self._run(batch)
        for at, outcome in enumerate(outcomes):
            if isinstance(outcome, Operation):  # with a buffer that is large enough
                try:
                    outcomes[at] = self._client._run(outcome)
                except Error as error:
                    outcomes[at] = error
        for at, outcome in enumerate(outcomes):
            if isinstance(outcome, Error):
                outcome.of_operation(at, batch[at].name, batch[at].key)
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
        with client._turn():
            flight = client._ready()
            flight.operations.update(enumerate(batch))
            for at, result, why in flight.run(commands, len(batch)):
                outcomes[at] = _outcome(batch[at], result, why)
        return outcomes


def _outcome(operation: Operation[Any], result: Result, why: str) -> Any:
    if operation.again(result):
        return operation
    try:
        return operation.take(result, why)
    except Exception as error:
        return error
