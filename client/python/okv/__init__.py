"""okv: a key-value store whose reads never touch the server's CPU.

    import okv

    with okv.Client("rdma://server") as db:
        db.put("greeting", "hello", ttl=60)
        db.get("greeting")            # b"hello"; None: there is no such item

Values are bytes, text in UTF-8, or any object with a buffer. Keys are bytes or text in UTF-8.
README.md describes pipelines, asyncio, compare-and-swap, and reading into your own memory.
"""

from ._library import lib as _lib
from .aio import AsyncClient
from .client import Client, ConnectionInfo, Registration
from .errors import (Conflict, Denied, Disconnected, Error, Exists, Full, NotFound, ReadOnly,
                     TimedOut, TooLarge, Unknown)
from .operations import Head, Item
from .pipeline import Pipeline

__version__ = _lib.okv_version().decode()

__all__ = [
    "AsyncClient", "Client", "Conflict", "ConnectionInfo", "Denied", "Disconnected", "Error",
    "Exists", "Full", "Head", "Item", "NotFound", "Pipeline", "ReadOnly", "Registration",
    "TimedOut", "TooLarge", "Unknown",
]
