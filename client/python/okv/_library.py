"""libokv by ctypes: its structures, constants and calls, as in okv.h.

A test compares all of it with share/okv/okv.json, which the library's own build makes.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import pathlib
import sys
from collections.abc import Iterator
from ctypes import POINTER, c_char_p, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

SONAME = "libokv.so.0.3"

CODES = {
    "OKV_OK": 0, "OKV_ENOTFOUND": -1, "OKV_EINVAL": -2, "OKV_EKEYSIZE": -3, "OKV_EVALUESIZE": -4,
    "OKV_ETOOSMALL": -5, "OKV_EFULL": -6, "OKV_EAGAIN": -7, "OKV_ETIMEDOUT": -8, "OKV_EUNKNOWN": -9,
    "OKV_EDISCONNECTED": -10, "OKV_ESHUTDOWN": -11, "OKV_EPROTO": -12, "OKV_EVERSION": -13,
    "OKV_ECORRUPT": -14, "OKV_EREFUSED": -15, "OKV_ENODEVICE": -16, "OKV_EADDRESS": -17,
    "OKV_EPERM": -18, "OKV_ENOMEM": -19, "OKV_EIO": -20, "OKV_EURI": -21, "OKV_EUNSUPPORTED": -22,
    "OKV_ECREDIT": -23, "OKV_ECONFLICT": -24, "OKV_EEXISTS": -25, "OKV_ENUMBER": -26,
    "OKV_ERENDEZVOUS": -27, "OKV_EOVERFLOW": -28, "OKV_ETTL": -29, "OKV_EDENIED": -30,
    "OKV_EBUCKETFULL": -31, "OKV_EREADONLY": -32, "OKV_ELOST": -33, "OKV_EDISKFULL": -34,
    "OKV_EFEWCOPIES": -35,
}
KINDS = {
    "OKV_GET": 1, "OKV_HEAD": 2, "OKV_PUT": 3, "OKV_DELETE": 4, "OKV_INCR": 5, "OKV_APPEND": 6,
    "OKV_TOUCH": 7, "OKV_PING": 8, "OKV_GET_TOUCH": 9, "OKV_GET_RANGE": 10,
}
FLAGS = {"OKV_IF_ABSENT": 1, "OKV_IF_VERSION": 2, "OKV_WITH_TTL": 4, "OKV_KEEP_TTL": 8}
LIMITS = {
    "OKV_KEY_MAX_BYTES": 1024,
    "OKV_DEPTH_MAX_OPERATIONS": 1024,
    "OKV_TTL_MAX_MS": (1 << 47) - 1,
    "OKV_TTL_NONE": (1 << 63) - 1,
    "OKV_HINTS_NONE": (1 << 32) - 1,
    "OKV_LEVEL_ERROR": 0,
    "OKV_LEVEL_NOTICE": 2,
    "OKV_LEVEL_WARNING": 1,
    "OKV_RECONNECT_NEVER": 1,
    "OKV_RECONNECT_IF_KEPT": 2,
    "OKV_KEEPALIVE_NONE": (1 << 32) - 1,
    "OKV_REPORT_NONE": (1 << 32) - 1,
}
TTL_NONE = LIMITS["OKV_TTL_NONE"]

COUNTERS = (
    "gets", "hits", "misses", "puts", "deletes", "updates", "reads", "read_bytes", "bucket_reads",
    "extent_reads", "directory_reads", "status_reads", "torn_buckets", "torn_extents",
    "wrong_depths", "hints_right", "hints_wrong", "fallbacks", "requests", "request_bytes",
    "rendezvous", "replies", "reply_bytes", "timeouts", "reconnects", "resent", "heartbeats",
)


class Options(ctypes.Structure):
    """struct okv_options"""

    _fields_ = [
        ("connect_timeout_ms", c_uint32),
        ("timeout_ms", c_uint32),
        ("depth", c_uint32),
        ("credits", c_uint32),
        ("hints", c_uint32),
        ("reconnect", c_uint32),
        ("keepalive_ms", c_uint32),
        ("report_ms", c_uint32),
        ("observe", c_uint32),
        ("reserved", c_uint32 * 7),
        ("database", ctypes.c_char * 32),
        ("user", c_char_p),
        ("key_file", c_char_p),
        ("log", ctypes.c_void_p),
        ("log_user", ctypes.c_void_p),
        ("tls_ca", c_char_p),
        ("tls_cert", c_char_p),
        ("tls_key", c_char_p),
        ("tls_server_name", c_char_p),
    ]


class Info(ctypes.Structure):
    """struct okv_info"""

    _fields_ = [
        ("transport", c_char_p),
        ("path", c_char_p),
        ("boot_id", c_uint64),
        ("session_id", c_uint64),
        ("region_bytes", c_uint64),
        ("buckets", c_uint64),
        ("bucket_bytes", c_uint32),
        ("max_value", c_uint32),
        ("credits", c_uint32),
        ("depth", c_uint32),
        ("max_message_value", c_uint32),
        ("one_sided", c_uint32),
        ("uri", c_char_p),
        ("epoch", c_uint64),
        ("lease_ms", c_uint64),
    ]


class Command(ctypes.Structure):
    """struct okv_command"""

    _fields_ = [
        ("kind", c_uint32),
        ("flags", c_uint32),
        ("tag", c_uint64),
        ("key", c_char_p),
        ("key_length", c_size_t),
        ("value", c_char_p),
        ("value_length", c_size_t),
        ("buffer", c_void_p),
        ("buffer_size", c_size_t),
        ("version", c_uint64),
        ("ttl_ms", c_int64),
        ("delta", c_int64),
        ("timeout_ms", c_uint32),
        ("reserved", c_uint32 * 3),
        ("offset", c_uint64),
        ("reserved2", c_uint64 * 2),
    ]


class Result(ctypes.Structure):
    """struct okv_result"""

    _fields_ = [
        ("tag", c_uint64),
        ("status", c_int),
        ("reserved", c_uint32),
        ("length", c_size_t),
        ("version", c_uint64),
        ("number", c_int64),
        ("ttl_ms", c_int64),
        ("reserved2", c_uint64 * 2),
    ]


class Item(ctypes.Structure):
    """struct okv_item"""

    _fields_ = [
        ("key", c_void_p),
        ("key_length", c_size_t),
        ("value", c_void_p),
        ("value_length", c_size_t),
        ("version", c_uint64),
        ("ttl_ms", c_int64),
        ("reserved", c_uint64 * 2),
    ]


class Counters(ctypes.Structure):
    """struct okv_counters"""

    _fields_ = [(name, c_uint64) for name in COUNTERS]


VISIT = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(Item))

_CALLS = {
    "okv_strerror": (c_char_p, [c_int]),
    "okv_errname": (c_char_p, [c_int]),
    "okv_version": (c_char_p, []),
    "okv_transports": (c_char_p, []),
    "okv_open": (c_int, [c_char_p, POINTER(Options), POINTER(c_void_p), c_char_p, c_size_t]),
    "okv_close": (None, [POINTER(c_void_p)]),
    "okv_why": (c_char_p, [c_void_p]),
    "okv_info_sized": (None, [c_void_p, POINTER(Info), c_size_t]),
    "okv_counters_sized": (None, [c_void_p, POINTER(Counters), c_size_t]),
    "okv_submit": (c_int, [c_void_p, c_void_p, c_size_t, POINTER(c_size_t)]),  # part of an array
    "okv_pending": (c_uint32, [c_void_p]),
    "okv_poll": (c_int, [c_void_p, POINTER(Result), c_int]),
    "okv_wait": (c_int, [c_void_p, c_int]),
    "okv_fd": (c_int, [c_void_p]),
    "okv_arm": (c_int, [c_void_p]),
    "okv_flush": (c_int, [c_void_p]),
    "okv_stat": (c_int, [c_void_p, c_char_p, c_size_t, POINTER(c_size_t)]),
    "okv_scan_from": (c_int, [c_void_p, POINTER(c_uint64), VISIT, c_void_p]),
    "okv_register": (c_int, [c_void_p, c_void_p, c_size_t, POINTER(c_void_p)]),
    "okv_unregister": (None, [c_void_p, POINTER(c_void_p)]),
}


def _beside() -> Iterator[str]:
    """Where the library of another prefix than the dynamic linker's is: this package is in a
    virtual environment of that prefix, or is read from PREFIX/share/okv/NAME.whl."""
    prefixes = [pathlib.Path(sys.prefix)]
    wheel = pathlib.Path(__file__).parent.parent
    if wheel.suffix == ".whl":
        prefixes.append(wheel.parent.parent.parent)
    for prefix in prefixes:
        for pattern in f"lib*/{SONAME}", f"lib*/*/{SONAME}":
            yield from map(str, prefix.glob(pattern))


def _find() -> ctypes.CDLL:
    """$OKV_LIBRARY, or what the dynamic linker finds, or what is beside this package."""
    name = os.environ.get("OKV_LIBRARY") or ""
    try:
        return ctypes.CDLL(name or SONAME)
    except OSError as error:
        if name:
            raise ImportError(f"okv: cannot load {name}, which OKV_LIBRARY names: {error}") from error
        for path in _beside():
            return ctypes.CDLL(path)
        raise ImportError(
            f"okv: cannot load {SONAME}: {error}: run ldconfig as root if libokv is installed to "
            f"/usr/local, else set OKV_LIBRARY to PREFIX/lib/{SONAME}"
        ) from error


def _load() -> ctypes.CDLL:
    """A call releases the interpreter's lock."""
    library = _find()
    for call, (result, arguments) in _CALLS.items():
        function = getattr(library, call)
        function.restype = result
        function.argtypes = arguments
    return library


lib = _load()
