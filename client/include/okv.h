/*
 * okv: a key-value store whose reads never touch the server's CPU.
 *
 * okv_open() makes a handle: a connection to one server, which reconnects by itself. A get is a
 * one-sided read of the server's table, and the client verifies what it has read. A put or delete
 * is a message that the server applies and answers.
 *
 * Threads. A handle belongs to one thread at a time; use one handle per thread. The library starts
 * no threads for its work (over local://, closing a connection may start a short-lived one),
 * installs no signal handlers, never prints and never exits.
 *
 * Fork. A child opens handles of its own. It may close its parent's: that frees memory, and leaves
 * the connection to the parent. Fork only while no other thread is in a call of this library. A
 * child does its parent's handles no harm (over rdma:// since Linux 5.12). Over all but local://,
 * a parent that dies stays connected until its children have ended. A child cannot open handles
 * over ofi:// with verbs, nor with rdma://discover/NAME.
 *
 * Refused calls. A call does nothing and returns OKV_EINVAL when another thread is in a call on the
 * handle, when it is made by a callback of a call on the handle, and in a child when it is on a
 * handle of its parent; okv_why() then names the thread or the process, until the next call of this
 * thread that has a code. Of calls without one, okv_info() and okv_counters() give zeros and empty
 * names, okv_pending() 0; okv_unregister() and okv_close() leave the pointer as it is, except
 * okv_close() in a child. Of two threads that call at the same moment one is served. A child is
 * recognized since Linux 4.14.
 *
 * NULL. Calls on a NULL handle return OKV_EINVAL. With a NULL handle okv_close() and
 * okv_unregister() do nothing. Do not pass NULL to okv_why(), okv_info(), okv_counters(),
 * okv_pending(), okv_fd() or okv_arm().
 *
 * Results. Functions return OKV_OK (0) or one of the negative codes below. A miss, OKV_ENOTFOUND,
 * is an answer as good as a hit. OKV_EUNKNOWN is the only result of a write that leaves open
 * whether the write happened.
 *
 * Blocking. Calls that can block say so, and for how long. okv_submit_*, okv_poll and okv_arm never
 * block, except in these cases while a handle reconnects. Name resolution: a handle reconnects to
 * the address that it last had; after 10 s of failures, and every 10 s from then on, it resolves
 * the host name again. (A name that stands for a link-local IPv6 address is resolved each time.)
 * Discovery: with rdma://discover/NAME each attempt searches, as okv_open() does. Memory
 * registration: memory given to okv_register() is registered again, which takes a while for many
 * GB. Endpoints: over ofi:// each attempt opens one.
 *
 * A lost connection. When the server ends, dies or cannot be reached, the handle reconnects, within
 * the calls that use it. Operations wait meanwhile, each until its own deadline. Gets, pings and
 * writes that had not been sent then go on. A write that had been sent is sent again if the server
 * still remembers which of this handle's writes it has applied. By default it remembers them for a
 * minute, with --data also across a restart, and applies none twice. If it does not remember, the
 * write ends with OKV_EUNKNOWN. A server without --data is empty after a restart; a handle with
 * OKV_RECONNECT_IF_KEPT then fails (okv_info.boot_id).
 *
 * Failure of a handle. A handle fails for good when the server breaks the protocol, speaks another
 * version, cannot serve this client at all, says that the user's key or last right was taken away,
 * or rejects the user over tcps://: every later call returns the reason (OKV_EPROTO, OKV_EVERSION,
 * OKV_EUNSUPPORTED or OKV_EDENIED), and okv_why() explains it. With OKV_RECONNECT_NEVER it also
 * fails when the connection ends (OKV_EDISCONNECTED, OKV_ESHUTDOWN, OKV_ETIMEDOUT, OKV_EIO), and
 * with OKV_RECONNECT_IF_KEPT when the server has lost the items (OKV_ELOST). Lists of errors call
 * this "the handle's failure". Close such a handle.
 *
 * Growth. A program works with any library of the same soname, older or newer than its okv.h.
 * okv_options, okv_put_options and okv_command keep their size: a new field takes the place of a
 * reserved one, and zero means that it is not used. Initialize them with {0}. A reserved field that
 * is not zero is OKV_EINVAL: an older library refuses what it does not know. okv_result,
 * okv_item_info and okv_item also keep their size; fields that the library does not know are zero.
 * okv_info and okv_counters grow at the end: the caller says how much of them it knows (the inline
 * okv_info() and okv_counters() do), and fields that the library does not know are zero. Functions,
 * codes, flags and kinds may be added, but never change. share/okv/okv.json has the numbers and
 * offsets for other languages.
 */
#ifndef OKV_H
#define OKV_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
/* In C a structure may have the name of a function. GCC tells C++ programs that this hides its
 * constructor. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif

#define OKV_API __attribute__((visibility("default")))

/* ---- result codes ------------------------------------------------------- */

enum {
    OKV_OK = 0,              /* success */
    OKV_ENOTFOUND = -1,      /* the key is not in the table */
    OKV_EINVAL = -2,         /* an argument is outside its documented range */
    OKV_EKEYSIZE = -3,       /* the key is not 1 to 1024 bytes long */
    OKV_EVALUESIZE = -4,     /* the value is larger than the server accepts */
    OKV_ETOOSMALL = -5,      /* the buffer is smaller than the value */
    OKV_EFULL = -6,          /* the server's region has no room for this item */
    OKV_EAGAIN = -7,         /* no free slot or registration, or operations in flight */
    OKV_ETIMEDOUT = -8,      /* the deadline passed; nothing was changed */
    OKV_EUNKNOWN = -9,       /* no answer came: the write may have happened */
    OKV_EDISCONNECTED = -10, /* the connection was lost in this call, or for good */
    OKV_ESHUTDOWN = -11,     /* the server said that it is shutting down */
    OKV_EPROTO = -12,        /* the server sent something malformed */
    OKV_EVERSION = -13,      /* the server speaks another protocol version */
    OKV_ECORRUPT = -14,      /* an image failed its checks on every attempt */
    OKV_EREFUSED = -15,      /* no server there, or it refused */
    OKV_ENODEVICE = -16,     /* no usable RDMA device */
    OKV_EADDRESS = -17,      /* the address cannot be resolved or used */
    OKV_EPERM = -18,         /* a permission or resource limit is in the way */
    OKV_ENOMEM = -19,        /* out of memory */
    OKV_EIO = -20,           /* a call to the system or the device failed */
    OKV_EURI = -21,          /* the URI is not one that okv understands */
    OKV_EUNSUPPORTED = -22,  /* the server or the device does not support this */
    OKV_ECREDIT = -23,       /* used between server and transport; no call returns it */
    OKV_ECONFLICT = -24,     /* the item has another version than the one required */
    OKV_EEXISTS = -25,       /* the key is in the table already */
    OKV_ENUMBER = -26,       /* okv_incr(): the value is not a decimal integer of 64 bits */
    OKV_ERENDEZVOUS = -27,   /* the server could not read the value from this process */
    OKV_EOVERFLOW = -28,     /* okv_incr(): the result does not fit a signed 64-bit integer */
    OKV_ETTL = -29,          /* the time to live is not 1 ms to OKV_TTL_MAX_MS */
    OKV_EDENIED = -30,       /* the user may not do this, or one side does not know the other */
    OKV_EBUCKETFULL = -31,   /* the key's bucket has no room for the item; other keys have */
    OKV_EREADONLY = -32,     /* the database takes no writes: its log failed */
    OKV_ELOST = -33,         /* the server restarted without the items that it had */
    OKV_EDISKFULL = -34,     /* the database takes no writes until its disk has space */
    OKV_EFEWCOPIES = -35     /* the database takes no writes: too few of its copies are in sync */
};

/* Returns one sentence for a code; static, never NULL. Any thread. */
OKV_API const char *okv_strerror(int code);
/* Returns the code's name, "OKV_ENOTFOUND"; static, never NULL. Any thread. */
OKV_API const char *okv_errname(int code);

/* Returns the version of the library, "0.3.0"; static. Any thread. */
OKV_API const char *okv_version(void);
/* Returns the URI schemes that the library can open on this host, such as "rdma, ofi, tcp, local";
 * static. Loads libfabric, where okv has it, as okv_open() does for ofi://. Any thread. */
OKV_API const char *okv_transports(void);

/* ---- opening and closing ------------------------------------------------ */

typedef struct okv okv;

/* Largest okv_options.depth. */
#define OKV_DEPTH_MAX_OPERATIONS 1024

/* The type of okv_options.log: a callback that gets a sentence about the handle's connection.
 * `text` is valid during the call, `level` is OKV_LEVEL_ERROR, OKV_LEVEL_WARNING or
 * OKV_LEVEL_NOTICE. It runs on the thread that uses the handle, within a call of the library, and
 * must make no call on this handle. The reason why okv_open() failed is only in its `why`. */
typedef void okv_log_function(void *user, int level, const char *text);
/* The handle has failed for good. */
#define OKV_LEVEL_ERROR 0
/* The connection was lost, or an attempt to reconnect failed; only some attempts are reported. */
#define OKV_LEVEL_WARNING 1
/* A connection was made; the text names its path (okv_info.path). */
#define OKV_LEVEL_NOTICE 2

/* How a handle behaves. Zero in a field means its default, here in parentheses. */
struct okv_options {
    uint32_t connect_timeout_ms; /* okv_open() gives up after this (3000) */
    uint32_t timeout_ms;         /* deadline of each operation, waiting for a connection
                                    included (5000) */
    uint32_t depth;              /* operations in flight at once, 1 to 1024 (32) */
    uint32_t credits;            /* requests to have outstanding, 1 to 1024; the server may grant
                                    fewer (16) */
    uint32_t hints;              /* large items whose place is remembered, up to 2^20; rounded up
                                    to a power of two, at least 8; 17 bytes each (8192) */
    uint32_t reconnect;          /* 0: reconnects when the connection is lost */
    uint32_t keepalive_ms;       /* a dead server host or network is detected within this time, 200
                                    to 600000 (3000); over ofi:// with net, tcp or efa it is 3000 */
    uint32_t report_ms;          /* how often to report its counters to the server, 100 to 600000;
                                    they are reported once more on closing (10000) */
    uint32_t observe;            /* 1: also connects to a copy of the database (docs/cluster.md);
                                    only okv_ping(), okv_stat() and okv_admin() may be called (0) */
    uint32_t reserved[7];        /* zero */
    char database[32];           /* used when the URI names none ("default") */
    const char *user;            /* whom to authenticate as, if the server has users; requires a
                                    key_file (NULL) */
    const char *key_file;        /* has the key of `user`; read again when the server refuses that
                                    key (NULL) */
    okv_log_function *log;       /* called when something happens to the connection (NULL) */
    void *log_user;              /* its first argument */
    /* Over tcps://, unless the URI has them; PEM files, which each attempt to connect reads. */
    const char *tls_ca;          /* CA certificates to trust (the file that OKV_TLS_CA names in the
                                    environment, or what the system trusts) */
    const char *tls_cert;        /* a certificate to show to the server; requires tls_key (NULL) */
    const char *tls_key;         /* the key of tls_cert (NULL) */
    const char *tls_server_name; /* the name that the server's certificate must match (the URI's
                                    host) */
};
/* okv_options.hints: remember none. */
#define OKV_HINTS_NONE UINT32_MAX
/* okv_options.reconnect: a handle whose connection is lost fails for good. */
#define OKV_RECONNECT_NEVER 1
/* It reconnects only if the server still has the items, as one with --data does; otherwise the
 * handle fails with OKV_ELOST. After a restore or a salvage it reconnects, too, and finds the items
 * that this brought back. */
#define OKV_RECONNECT_IF_KEPT 2
/* okv_options.keepalive_ms: no heartbeats; only transport and deadlines detect a dead server. */
#define OKV_KEEPALIVE_NONE UINT32_MAX
/* okv_options.report_ms: no reports. */
#define OKV_REPORT_NONE UINT32_MAX

/*
 * Connects to the server at `uri`:
 *   rdma://HOST[:PORT][?source=ADDRESS]                  an RDMA device
 *   rdma://discover/NAME[?group=GROUP][&source=ADDRESS]  the server that announces this name;
 *                                                        tcp and tcps have the same
 *   ofi://HOST[:PORT][?provider=NAME][&source=ADDRESS]   a fabric of libfabric
 *   tcp://HOST[:PORT][?source=ADDRESS]                   TCP
 *   tcps://HOST[:PORT][?ca=FILE][&server-name=NAME]      TCP with TLS 1.3
 *   local:///PATH                                        shared memory with a server on this host
 *   okv://SERVER[,SERVER...]/NAME[?transport=TRANSPORT]  the cluster NAME
 * Each also takes ?database=NAME, and rdma ?device=NAME[&port=N][&gid=INDEX], the local device to
 * use, and ?tos=N, the traffic class of its packets. The default PORT is 7471, of tcps 7472. okv
 * uses what the URI names, or fails: it never falls back to another transport. okv-uri(7) has the
 * details.
 *
 * Of a cluster, up to 16 servers may be named, each by HOST[:PORT] or by the path of its Unix
 * socket. Hosts are reached by tcp or by TRANSPORT: tcps, rdma or ofi; its options follow. They are
 * asked in turn until one is the primary, and again when a connection is lost; a copy leads to the
 * primary, even to one that is not named. okv_info.uri is the one that the handle has.
 *
 * `options` may be NULL. On success *out is the handle, which keeps up to four registered buffers
 * for long values. On failure *out is NULL and, when `why` is not NULL, a sentence with cause and
 * fix is written there (cut to `why_size` bytes). The library keeps copies of `uri`, `options` and
 * the strings in them.
 *
 * Blocks up to connect_timeout_ms, over rdma at most about 4.5 s; that long, too, while no server
 * of a cluster is the primary. Resolving a host name adds what the system's resolver takes. A
 * search for NAME takes up to 1 s of that time, and over rdma adds up to 1 s for each RDMA
 * interface that cannot join the group. Errors, of a cluster those of the last attempt: OKV_EINVAL
 * (`out` or `uri` NULL, an option out of range, a key file that is missing or has no key),
 * OKV_EURI, OKV_EADDRESS, OKV_ENODEVICE, OKV_EREFUSED (nothing listens there, the server is full or
 * has no such database), OKV_EDENIED (user and key do not match, or have a right in no such
 * database; the server could not prove that it knows the key; over local:// it does not serve this
 * uid), OKV_ETIMEDOUT, OKV_EVERSION, OKV_ESHUTDOWN, OKV_EUNSUPPORTED (an iWARP device, or a feature
 * that device or server lacks), OKV_EPERM (permissions of the socket, the limit on locked memory, a
 * key file that others may read or change), OKV_EDISCONNECTED (the connection was lost while
 * opening), OKV_EPROTO, OKV_EIO, OKV_ENOMEM.
 */
OKV_API int okv_open(const char *uri, const struct okv_options *options, okv **out, char *why,
                     size_t why_size);

/* Ends the connection, frees the handle and what it has registered, and sets *handle to NULL;
 * accepts NULL and a pointer to NULL. Operations still in flight are dropped without a result:
 * writes among them may or may not happen, and their memory is the caller's again. Sends the server
 * a goodbye, and waits up to 20 ms until its device has it; the server's process takes no part. */
OKV_API void okv_close(okv **handle);

/*
 * Returns a sentence about the handle, or "" when there is nothing to say. The text belongs to the
 * handle: it changes as the handle's state does, and is valid until okv_close(). That of a refused
 * call belongs to the thread and is valid until its next call.
 *
 * After a call that was refused for its arguments, with OKV_EINVAL, OKV_EKEYSIZE, OKV_EVALUESIZE or
 * OKV_ETTL, it names the argument and what is wrong with it, and after OKV_EFULL what to do:
 *   okv_put_with: flags: OKV_IF_ABSENT and OKV_IF_VERSION exclude each other
 *   okv_submit: commands[3].key_length: 0 is not 1 to 1024
 * After OKV_EDENIED on a connection that stays, it names the right that the last denied request
 * lacked:
 *   user alice lacks the right write in database default
 * After okv_call_many() it is about the first command whose result has such a code, and after
 * okv_poll() about the first result with OKV_EFULL or OKV_EDENIED. The next call clears the
 * sentence, unless it only looks: okv_info(), okv_counters(), okv_pending(), okv_fd().
 *
 * Otherwise it says why the handle is not connected and how the last attempt to connect failed, or
 * why the handle has failed for good. It is "" while the handle is connected.
 */
OKV_API const char *okv_why(const okv *handle);

/* What the handle is connected to. */
struct okv_info {
    const char *transport; /* "rdma", "ofi", "tcp" or "local"; valid until okv_close() */
    const char *path;    /* for people: device, port, GID, MTU, provider, or the socket; as above */
    uint64_t boot_id;    /* identifies this run of the server: each run has another table, with the
                            same items if it has --data, otherwise empty */
    uint64_t session_id; /* the server's name for this connection */
    uint64_t region_bytes;      /* of the database, with index and items */
    uint64_t buckets;           /* of the index, as far as this handle has seen */
    uint32_t bucket_bytes;      /* what one READ of a get fetches */
    uint32_t max_value;         /* bytes */
    uint32_t credits;           /* requests that may be outstanding at once */
    uint32_t depth;             /* operations that may be in flight at once */
    uint32_t max_message_value; /* bytes of the longest append or ping; the server READs the value
                                   of a longer put */
    uint32_t one_sided; /* 1: gets work even while the server's process is stopped; 0: that process
                           serves them, as over TCP */
    const char *uri;    /* of the server, without options; valid until okv_close() */
    uint64_t epoch;     /* of a cluster's primary; 0: the server is alone */
    uint64_t lease_ms;  /* for which gets may still trust this primary; 0: not until its lease is
                           renewed, or the server is alone */
};

/* okv_info() describes the current connection, or the last one. okv_info_sized() fills in `size`
 * bytes of *out: the fields that it knows, and zeros beyond them. */
OKV_API void okv_info_sized(const okv *handle, struct okv_info *out, size_t size);
static inline void okv_info(const okv *handle, struct okv_info *out)
{
    okv_info_sized(handle, out, sizeof *out);
}

/* ---- synchronous calls -------------------------------------------------- */

/*
 * Synchronous calls. They block until the answer comes, at most for timeout_ms. Keys are 1 to
 * OKV_KEY_MAX_BYTES bytes of any content. An operation that timed out keeps its slot until its
 * READs and its reply have come back, or its connection has ended. Calls may be mixed with
 * asynchronous operations on the handle, whose results stay for okv_poll(). Operations of one
 * handle that are in flight together may take effect in any order.
 *
 * Versions. Every change to an item gives it a new version. The versions of a key only rise, and
 * none comes again while the server lives.
 *
 * Memory after a time-out. Key, value and buffer are the caller's again when the call has returned
 * or the result has been polled, with two exceptions, which cannot be called back. After
 * OKV_ETIMEDOUT of a get into memory given to okv_register(), the device may still write to the
 * buffer. After OKV_EUNKNOWN of a put whose value was too long for a message, the server may still
 * READ the value and store what is there by then. Both end with okv_close(), or when the handle has
 * made another connection (okv_counters.reconnects), but not when the handle merely fails; until
 * then leave the memory mapped, and registered if it was.
 *
 * Errors of all calls: OKV_EINVAL (NULL where memory is needed, a call that is refused),
 * OKV_ETIMEDOUT (no answer, connection or operation slot in time; nothing was changed), OKV_EDENIED
 * (the same, and the last attempt to connect was denied), the handle's failure. Errors of all
 * writes: those of all calls, OKV_EKEYSIZE, OKV_EUNKNOWN (the write may have happened: it was sent
 * and no answer came, the server that it was sent to is gone, or that server's log failed),
 * OKV_ECORRUPT (the server found the item's bucket damaged), OKV_EDENIED (the user may not write,
 * or the last attempt to connect was denied), OKV_EREADONLY, OKV_EDISKFULL, OKV_EFEWCOPIES,
 * OKV_EUNSUPPORTED (the server does not know the operation).
 */

/* Largest key, bytes. The largest value is the server's: okv_info.max_value. */
#define OKV_KEY_MAX_BYTES 1024

/*
 * Reads the value of a key into buffer[0..size). On OKV_OK *length is the value's size and *version
 * (may be NULL) its version. On OKV_ETOOSMALL *length is the size needed. `buffer` may be NULL when
 * `size` is 0. What the buffer holds after an error is undefined.
 *
 * Takes one RDMA READ when the item is stored inline, and two when it is in an extent; they go out
 * together if this handle has read the item before. okv_register() says when the value comes
 * straight into the buffer; otherwise it is copied. Errors: those of all calls, OKV_EKEYSIZE,
 * OKV_ENOTFOUND, OKV_ETOOSMALL, OKV_ECORRUPT, OKV_EUNSUPPORTED (the get fell back to the server,
 * which does not answer gets), OKV_EPROTO (the table makes no sense at this key; the handle stays
 * usable, unless okv_why() has a sentence), OKV_ENOMEM, OKV_EPERM (the limit on locked memory is
 * below the buffer of a long value), OKV_EIO (that buffer cannot be registered).
 */
OKV_API int okv_get(okv *handle, const void *key, size_t key_length, void *buffer, size_t size,
                    size_t *length, uint64_t *version);

/* Reads a part of a value: its bytes from `offset` on, as many as there are and as fit into
 * buffer[0..size). *length (may be NULL) is the size of the whole value; the part has min(size,
 * *length - offset) bytes, or none if `offset` is not below *length. Two parts are of the same
 * value if their *version is the same. An inline value takes one READ. Of a value above some 16 KiB
 * only the part is READ, and no checksum covers it: READs of its bucket before and after show that
 * the item has not changed. When the bucket keeps changing, or the item is in an overflow page, the
 * whole value is READ, as a shorter one always is. Errors: those of all calls, OKV_EKEYSIZE,
 * OKV_ENOTFOUND, OKV_ECORRUPT, OKV_EUNSUPPORTED, OKV_EPROTO, OKV_ENOMEM, OKV_EPERM, OKV_EIO (all as
 * for okv_get()). */
OKV_API int okv_get_range(okv *handle, const void *key, size_t key_length, uint64_t offset,
                          void *buffer, size_t size, size_t *length, uint64_t *version);

/* An item without its value. */
struct okv_item_info {
    size_t length;        /* of the value, bytes */
    uint64_t version;     /* not 0 */
    int64_t ttl_ms;       /* how long it will live, or somewhat more, as in struct okv_result;
                             OKV_TTL_NONE: until it is deleted; 0: unknown */
    uint64_t reserved[3]; /* zero */
};

/* Looks an item up without fetching its value: is it there, and in which version? `info` may be
 * NULL. Errors: those of all calls, OKV_EKEYSIZE, OKV_ENOTFOUND, OKV_ECORRUPT, OKV_EUNSUPPORTED
 * (the server was asked and does not answer gets), OKV_EPROTO (as for okv_get()). */
OKV_API int okv_head(okv *handle, const void *key, size_t key_length, struct okv_item_info *info);

/* Stores a value of 0 to okv_info.max_value bytes under a key, replacing what was there; the item
 * does not expire. On OKV_OK *version (may be NULL) is the item's new version. A value too long for
 * a message is READ by the server out of `value`, or out of a copy when `value` cannot be
 * registered, as in a mapping without PROT_WRITE. Errors: those of all writes, OKV_EVALUESIZE,
 * OKV_EFULL, OKV_EBUCKETFULL, OKV_ERENDEZVOUS, OKV_EPERM (the limit on locked memory is in the
 * way), OKV_ENOMEM, OKV_EIO (neither value nor copy can be registered). */
OKV_API int okv_put(okv *handle, const void *key, size_t key_length, const void *value,
                    size_t value_length, uint64_t *version);

/* Longest time to live, ms: some 4,459 years. */
#define OKV_TTL_MAX_MS ((INT64_C(1) << 47) - 1)

enum {
    OKV_IF_ABSENT = 1,  /* put: only if the key is not there; else OKV_EEXISTS */
    OKV_IF_VERSION = 2, /* put, delete: only if the item has `version`; else OKV_ECONFLICT,
                           or OKV_ENOTFOUND when it is not there */
    /* Put, or incr of a missing key: the item expires after ttl_ms on the server's clock, and not
     * before ttl_ms have passed since the call began. Readers know that clock to about 0.1 s and
     * may see the item that much longer: a get may still find an item for which a delete returned
     * OKV_ENOTFOUND. */
    OKV_WITH_TTL = 4,
    /* Put: the item keeps the expiry that it has. A key that is not there gets an item that does
     * not expire. */
    OKV_KEEP_TTL = 8
};

struct okv_put_options {
    uint32_t flags;        /* of the ones above; the first two exclude each other, and
                              so do the last two */
    uint32_t reserved;     /* zero */
    uint64_t version;      /* OKV_IF_VERSION: not 0; else 0 */
    int64_t ttl_ms;        /* OKV_WITH_TTL: 1 to OKV_TTL_MAX_MS; else 0 */
    uint64_t reserved2[5]; /* zero */
};

/* Stores a value as okv_put() does, on a condition or with a time to live, or both. On
 * OKV_ECONFLICT and OKV_EEXISTS *version is the item's current version. A lock made with
 * OKV_IF_ABSENT belongs in a database that does not evict it: one with --full refuse, or without a
 * time to live with --full evict-expiring of okv-server(1). Errors: those of okv_put(),
 * OKV_EINVAL (NULL where memory is needed, options that are unknown or contradict each other),
 * OKV_EEXISTS, OKV_ECONFLICT, OKV_ENOTFOUND (with OKV_IF_VERSION: the key is not in the table),
 * OKV_ETTL. */
OKV_API int okv_put_with(okv *handle, const void *key, size_t key_length, const void *value,
                         size_t value_length, const struct okv_put_options *options,
                         uint64_t *version);

/* Removes a key. Errors: those of all writes, OKV_ENOTFOUND. */
OKV_API int okv_delete(okv *handle, const void *key, size_t key_length);
/* Removes a key if it has this version, which is not 0. Errors: those of okv_delete(),
 * OKV_ECONFLICT. */
OKV_API int okv_delete_if(okv *handle, const void *key, size_t key_length, uint64_t version);

/* okv_incr() adds `delta` to the decimal integer in the value, or to 0 when the key is not there.
 * The integer has an optional '-' and up to 19 digits, as okv_incr() writes it: 7, not 007 or +7,
 * and 0, not -0. *result (may be NULL) is the sum, which is the new value. An item
 * that was there keeps its expiry; one that okv_incr_ttl() creates expires after ttl_ms, 1 to
 * OKV_TTL_MAX_MS. After any error but OKV_EUNKNOWN the item is unchanged. A counter belongs in a
 * database that does not evict it, as a lock does (okv_put_with()), or it begins at 0 again.
 * Errors: those of all writes, OKV_ENUMBER, OKV_EOVERFLOW, OKV_EVALUESIZE (the sum has more digits
 * than a value may have bytes), OKV_EFULL, OKV_EBUCKETFULL, OKV_ETTL (okv_incr_ttl(): ttl_ms is out
 * of range). */
OKV_API int okv_incr(okv *handle, const void *key, size_t key_length, int64_t delta,
                     int64_t *result, uint64_t *version);
OKV_API int okv_incr_ttl(okv *handle, const void *key, size_t key_length, int64_t delta,
                         int64_t ttl_ms, int64_t *result, uint64_t *version);

/* Appends to a value, or stores it when the key is not there. *length (may be NULL) is set to the
 * length of the whole. The appended part may be as long as okv_info.max_message_value, the whole as
 * long as okv_info.max_value. The item keeps its expiry. The server begins an append again whenever
 * another write has replaced a long value meanwhile. Errors: those of all writes, OKV_EVALUESIZE
 * (the part or the whole is too long), OKV_EFULL, OKV_EBUCKETFULL. */
OKV_API int okv_append(okv *handle, const void *key, size_t key_length, const void *value,
                       size_t value_length, size_t *length, uint64_t *version);

/* okv_touch: the item lives until it is deleted. */
#define OKV_TTL_NONE INT64_MAX

/* Lets an item expire `ttl_ms` from now, or never (OKV_TTL_NONE). Its version changes. Errors:
 * those of all writes, OKV_ENOTFOUND, OKV_ETTL, OKV_EFULL, OKV_EBUCKETFULL. */
OKV_API int okv_touch(okv *handle, const void *key, size_t key_length, int64_t ttl_ms,
                      uint64_t *version);

/* Gets a value and sets when its item expires, in one request that the server's CPU serves: no
 * other write comes between. After OKV_ETOOSMALL the new expiry is in force. Errors: those of
 * okv_touch(), OKV_ETOOSMALL, OKV_EVALUESIZE (the value does not fit a message, as one of up to
 * okv_info.max_message_value bytes does: nothing was changed), OKV_EUNKNOWN (also when the request
 * was sent again and the item had changed or expired since it was first applied: the value of that
 * time is gone). */
OKV_API int okv_get_touch(okv *handle, const void *key, size_t key_length, int64_t ttl_ms,
                          void *buffer, size_t size, size_t *length, uint64_t *version);

/* Removes every item that is there when the call begins; those put meanwhile may be removed too.
 * Blocks as long as it takes, each of its steps for timeout_ms at most. After OKV_EUNKNOWN and
 * OKV_ECORRUPT some items may be gone, or all: call it again, on another handle if this one failed.
 * After other errors nothing was removed. Errors: those of all calls, OKV_EUNKNOWN (a step had no
 * answer, or one failed after others had been done), OKV_ECORRUPT (the server found a damaged
 * bucket), OKV_EDENIED (it requires the right admin), OKV_EUNSUPPORTED. */
OKV_API int okv_flush(okv *handle);

/* Sends one request, which the server's CPU answers, and waits for the answer. Errors: those of all
 * calls, OKV_EUNSUPPORTED. */
OKV_API int okv_ping(okv *handle);

/* Writes the server's statistics as text, one "name value" a line, into buffer[0..size) with a NUL;
 * okv(1) explains them. *length is its length without the NUL. Errors: those of all calls,
 * OKV_EUNSUPPORTED, OKV_ETOOSMALL (*length says what is needed, without the NUL). */
OKV_API int okv_stat(okv *handle, char *buffer, size_t size, size_t *length);

/* An item that a scan shows; the memory is valid during the call of `visit`. */
struct okv_item {
    const void *key;      /* not terminated */
    size_t key_length;    /* bytes */
    const void *value;    /* not terminated */
    size_t value_length;  /* bytes */
    uint64_t version;     /* not 0 */
    int64_t ttl_ms;       /* as in struct okv_result; OKV_TTL_NONE: it does not expire */
    uint64_t reserved[2]; /* zero */
};

/*
 * Calls `visit` for every item in the table, read one-sided. An item that is there from the
 * beginning of the scan to its end is visited exactly once, however the table grows or shrinks
 * meanwhile; one that is put or deleted during the scan may be visited or not. Each item is shown
 * as it was at some moment of the scan. `visit` must not use the handle. If it returns a value
 * other than 0, the scan ends. Returns OKV_OK, that value, or a code.
 *
 * Blocks as long as it takes; each READ in it may take timeout_ms. A scan whose connection is lost
 * has ended: the next call connects again. Errors: OKV_EINVAL (`visit` NULL), OKV_EAGAIN
 * (operations are in flight on the handle), OKV_ETIMEDOUT (a READ took timeout_ms, or there was no
 * connection for as long), OKV_EDENIED (there was none, as the last attempt was denied),
 * OKV_EDISCONNECTED (the connection was lost meanwhile), OKV_ECORRUPT (a bucket failed its checks
 * for timeout_ms), OKV_EPROTO (the table makes no sense; the handle stays usable, unless okv_why()
 * has a sentence), OKV_ENOMEM, OKV_EPERM (the limit on locked memory is in the way), OKV_EIO (its
 * buffers cannot be registered), the handle's failure.
 */
typedef int okv_visit(void *user, const struct okv_item *item);
OKV_API int okv_scan(okv *handle, okv_visit *visit, void *user);
/* Scans in portions: begin with *cursor 0; a `visit` that returns other than 0 ends the portion,
 * and the next call goes on from *cursor, where the items that share the last one's bucket may come
 * once more. *cursor is 0 again after the last item. A cursor is good for any handle to the same
 * start of the server: another start has another table (okv_info.boot_id). Errors: those of
 * okv_scan(), OKV_EINVAL (`visit` or `cursor` NULL, not a cursor, or one of another boot; one such
 * cursor in 2048 goes undetected). */
OKV_API int okv_scan_from(okv *handle, uint64_t *cursor, okv_visit *visit, void *user);

/* ---- asynchronous calls ------------------------------------------------- */

enum okv_kind {
    OKV_GET = 1,    /* as okv_get() */
    OKV_HEAD = 2,   /* as okv_head() */
    OKV_PUT = 3,    /* as okv_put_with() */
    OKV_DELETE = 4, /* as okv_delete() */
    OKV_INCR = 5,   /* as okv_incr() */
    OKV_APPEND = 6, /* as okv_append() */
    OKV_TOUCH = 7,  /* as okv_touch() */
    OKV_PING = 8, /* may have a value of up to okv_info.max_message_value, which the server drops */
    OKV_GET_TOUCH = 9, /* as okv_get_touch() */
    OKV_GET_RANGE = 10 /* as okv_get_range() */
};

/* One operation; what its kind does not use is zero. */
struct okv_command {
    uint32_t kind;         /* enum okv_kind */
    uint32_t flags;        /* put: OKV_IF_ABSENT, OKV_IF_VERSION, OKV_WITH_TTL, OKV_KEEP_TTL;
                              delete: OKV_IF_VERSION; incr: OKV_WITH_TTL */
    uint64_t tag;          /* yours; comes back with the result */
    const void *key;       /* all but ping */
    size_t key_length;     /* bytes */
    const void *value;     /* put, append, ping */
    size_t value_length;   /* bytes */
    void *buffer;          /* get, get_touch, get_range */
    size_t buffer_size;    /* bytes */
    uint64_t version;      /* OKV_IF_VERSION: not 0 */
    int64_t ttl_ms;        /* touch, get_touch, OKV_WITH_TTL */
    int64_t delta;         /* incr */
    uint32_t timeout_ms;   /* its deadline; 0: the handle's timeout_ms, so the shortest is 1 */
    uint32_t reserved[3];  /* zero */
    uint64_t offset;       /* get_range: bytes */
    uint64_t reserved2[2]; /* zero */
};

/* Submits commands in order. okv_poll() returns their results in the order in which they end. The
 * commands themselves may be reused at once; key, value and buffer stay yours to keep alive and
 * unchanged until the result has been polled or the handle closed. All READs go out with one
 * doorbell. Returns OKV_OK when all were accepted, else the reason why commands[*accepted] was not.
 * The first *accepted commands (`accepted` may be NULL) will have results, the others none. Errors:
 * OKV_EINVAL (NULL, a field that the kind does not use is not zero), OKV_EKEYSIZE, OKV_EVALUESIZE,
 * OKV_ETTL, OKV_EAGAIN (as many operations are in flight as the handle's depth: poll first),
 * OKV_ENOMEM, the handle's failure. */
OKV_API int okv_submit(okv *handle, const struct okv_command *commands, size_t count,
                       size_t *accepted);
/* okv_submit_get() and the others are shorthands for one command. */
OKV_API int okv_submit_get(okv *handle, const void *key, size_t key_length, void *buffer,
                           size_t size, uint64_t tag);
OKV_API int okv_submit_put(okv *handle, const void *key, size_t key_length, const void *value,
                           size_t value_length, uint64_t tag);
OKV_API int okv_submit_delete(okv *handle, const void *key, size_t key_length, uint64_t tag);
OKV_API int okv_submit_ping(okv *handle, uint64_t tag);

/* How an operation ended: `status` is what the synchronous call returns. */
struct okv_result {
    uint64_t tag;      /* of the command */
    int status;        /* a code */
    uint32_t reserved; /* zero */
    size_t length;     /* of the whole value: get, head, append, get_touch, get_range; also with
                          OKV_ETOOSMALL */
    uint64_t version;  /* of the item, as the synchronous call gives it; else 0 */
    int64_t number;    /* incr: the result */
    int64_t ttl_ms;    /* get, head, get_range: the time left to live, never too low and up to about
                          0.1 s too high, so it may exceed what the item was given, but not
                          OKV_TTL_MAX_MS; or OKV_TTL_NONE; 0: unknown, as the server answered
                          instead (okv_counters.fallbacks) */
    uint64_t reserved2[2]; /* zero */
};

/* Moves operations on and writes up to `max` results, without blocking. Returns how many, 0 when
 * none has ended, or a code. Errors: OKV_EINVAL (NULL, max below 1), the handle's failure (no
 * result is left: operations that were in flight have theirs delivered first). */
OKV_API int okv_poll(okv *handle, struct okv_result *results, int max);

/* Counts operations that were submitted and whose results were not polled yet. */
OKV_API uint32_t okv_pending(const okv *handle);

/* okv_fd() is for event loops: it becomes readable when an armed handle has something to do (an
 * event, a deadline, a step of reconnecting), and sometimes for nothing. In each turn of the loop
 * call okv_poll() once, then look at the other descriptors. Sleep there only if okv_poll() returned
 * no result both before and after okv_arm(). Do not poll until no result is left: where new
 * operations begin as others end, there always is one, and the other descriptors starve. The
 * descriptor is the same from okv_open() to okv_close(), which closes it. Returns: okv_fd() the
 * descriptor, okv_arm() OKV_OK or a code. Errors: OKV_EIO or OKV_ENOMEM (the connection cannot be
 * watched: call okv_poll() without sleeping on the descriptor for long), the handle's failure. */
OKV_API int okv_fd(const okv *handle);
OKV_API int okv_arm(okv *handle);

/* Blocks until okv_poll() has a result or a failure to return, or for `timeout_ms`. Errors:
 * OKV_ETIMEDOUT, OKV_EINVAL (NULL, a negative time). */
OKV_API int okv_wait(okv *handle, int timeout_ms);

/* Runs one command and waits for its result; *result is filled on every return but OKV_EINVAL for
 * NULL. Returns result->status. Errors: OKV_EINVAL (NULL, a field that the kind does not use is not
 * zero), what the synchronous call of this kind returns. */
OKV_API int okv_call(okv *handle, const struct okv_command *command, struct okv_result *result);

/*
 * Runs commands of any kinds at once: commands[0..count) have their results in results[0..count),
 * in the same order, whatever their tags. Any count is allowed. Up to the handle's depth are in
 * flight at a time, and their READs go out with one doorbell. They may take effect in any order,
 * also those on one key. All memory stays yours; keep it unchanged until the call returns, and
 * longer where a command ended with OKV_ETIMEDOUT or OKV_EUNKNOWN ("Memory after a time-out").
 *
 * Blocks until every command has ended. All deadlines count from the start of the call: give large
 * batches a longer timeout_ms. A command that has not started by its deadline ends with
 * OKV_ETIMEDOUT, and a write that was sent and has no answer by then with OKV_EUNKNOWN; the others
 * go on.
 *
 * Each command fails for itself: its status is what okv_call() returns, also where its fields are
 * wrong. Returns OKV_OK when every command has ended, whatever its status. Errors: OKV_EINVAL
 * (NULL, a call that is refused; the results are not written), OKV_EAGAIN (operations are in flight
 * on the handle; none of the commands was started, and each result has this status), the handle's
 * failure (it ended at least one of the commands; each result has its own status).
 */
OKV_API int okv_call_many(okv *handle, const struct okv_command *commands,
                          struct okv_result *results, size_t count);

/* ---- memory that values are read into directly ---------------------------- */

/*
 * okv_register() registers base[0..length) with the device. A get whose whole buffer lies in it
 * receives a value from an extent without a copy if the extent is longer than 16 KiB or the entry
 * holds the key, as it does when the key is short. Values inside the bucket, and short values in an
 * extent with their key, are copied. The memory stays yours; huge pages are fine, GPU memory is
 * not. Keep it mapped until okv_unregister() or okv_close(), and call these only when no operation
 * uses it. Blocks while the device pins the memory, which takes a while for many GB.
 *
 * A handle that reconnects registers it again. If that fails, it stays disconnected, okv_why() says
 * so, and it tries again; with memory that was unmapped too early it fails forever.
 * okv_unregister() sets *memory to NULL; it accepts NULL and a pointer to NULL. Errors: OKV_EINVAL
 * (NULL, a length of 0 or beyond the end of memory), OKV_EPERM (the limit on locked memory is in
 * the way), OKV_ENOMEM, OKV_EIO, OKV_EAGAIN (64 are registered already), the handle's failure.
 */
typedef struct okv_registration okv_registration;
OKV_API int okv_register(okv *handle, void *base, size_t length, okv_registration **memory);
OKV_API void okv_unregister(okv *handle, okv_registration **memory);

/* ---- what only the client can see --------------------------------------- */

/* Counts of a handle. New ones come at the end. */
#define OKV_COUNTER_LIST(X)                                                  \
    X(gets, "gets and heads that ended")                                     \
    X(hits, "of these, those that found their key")                          \
    X(misses, "of these, those that proved that the key is not there")       \
    X(puts, "puts that ended")                                               \
    X(deletes, "deletes that ended")                                         \
    X(updates, "incrs, appends and touches that ended")                      \
    X(reads, "RDMA READs posted, all but those that okv_bench_read times")   \
    X(read_bytes, "bytes of those READs")                                    \
    X(bucket_reads, "READs of primary and overflow pages")                   \
    X(extent_reads, "READs of an extent or a piece of one")                  \
    X(directory_reads, "READs of the index's directory")                     \
    X(status_reads, "READs of the server's clock and bucket count")          \
    X(torn_buckets, "bucket images rejected by their checksum or version")   \
    X(torn_extents, "extents rejected by their checksum")                    \
    X(wrong_depths, "reads of a bucket that had split or merged since")      \
    X(hints_right, "extents read together with their bucket, and valid")     \
    X(hints_wrong, "extents read together with their bucket in vain")        \
    X(fallbacks, "gets handed to the server after too many rejected images") \
    X(requests, "messages sent to the server")                               \
    X(request_bytes, "bytes of those, and of values advertised for them")    \
    X(rendezvous, "values that were advertised for the server to READ")      \
    X(replies, "replies received")                                           \
    X(reply_bytes, "bytes of those")                                         \
    X(timeouts, "operations that passed their deadline")                     \
    X(reconnects, "connections that were made after the first one")          \
    X(resent, "writes sent again because their connection was lost")         \
    X(heartbeats, "heartbeats sent to the server's device")

struct okv_counters {
#define OKV_COUNTER_FIELD(name, text) uint64_t name;
    OKV_COUNTER_LIST(OKV_COUNTER_FIELD)
#undef OKV_COUNTER_FIELD
};

/* okv_counters() gives the counts since okv_open() returned. okv_counters_sized() fills in `size`
 * bytes of *out: the fields that it knows, and zeros beyond them. */
OKV_API void okv_counters_sized(const okv *handle, struct okv_counters *out, size_t size);
static inline void okv_counters(const okv *handle, struct okv_counters *out)
{
    okv_counters_sized(handle, out, sizeof *out);
}

/* Measures the floor under a get: `count` raw READs of `length` bytes at random buckets, unchecked,
 * at most `depth` at once, on this handle's own connection; over ofi:// by fi_read() alone, on an
 * endpoint beside it. After each poll one doorbell posts as many as ended. Sets
 * latencies_ns[0..count) to the time of each from its post to its completion, *total_ns (may be
 * NULL) to that of all. Blocks until all are done. Errors: OKV_EINVAL (length 0 or above
 * bucket_bytes * 64 or above a segment of the index, count or depth 0, depth above the handle's),
 * OKV_EAGAIN (operations are in flight), OKV_ETIMEDOUT (none has ended for timeout_ms), OKV_EDENIED
 * (the last attempt to connect was denied), OKV_EDISCONNECTED (the connection was lost meanwhile),
 * OKV_ENOMEM, OKV_EPERM (the limit on locked memory is in the way), OKV_EIO (the buffers cannot be
 * registered), OKV_EPROTO (the directory makes no sense), the handle's failure. */
OKV_API int okv_bench_read(okv *handle, uint32_t length, uint32_t count, uint32_t depth,
                           uint64_t *latencies_ns, uint64_t *total_ns);

#ifdef __cplusplus
#pragma GCC diagnostic pop
}
#endif

#endif
