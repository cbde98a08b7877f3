"""Calls that block as a whole, in a thread of their own. Python handles signals in the main thread
only, and not while that is in a call of libokv."""

from __future__ import annotations

import _thread  # a thread of threading costs three times as much
import threading
from concurrent.futures import Future, wait
from typing import Callable, TypeVar

T = TypeVar("T")

_WAIT = 0.1  # seconds


def start(call: Callable[[], T]) -> "Future[T]":
    """Its result is the call's. The interpreter does not wait for the thread when it ends."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    _thread.start_new_thread(run, ())
    return future


def is_needed() -> bool:
    """Other threads may block: the main one then runs the handlers."""
    return threading.get_ident() == threading.main_thread().ident


def await_result(future: "Future[T]") -> T:
    """What the handler of a signal raises ends the wait for the call, but not the call. A signal
    that comes just before a wait does not end it: none is long."""
    while not future.done():
        wait((future,), _WAIT)
    return future.result()


def run(call: Callable[[], T]) -> T:
    """What the call returns."""
    return await_result(start(call)) if is_needed() else call()
