/*
 * The handshake and the messages: docs/protocol.md sections 1 and 2.
 *
 * The okv_wire_ structures are the bytes; the others are their decoded contents. Every
 * decoder treats its input as hostile: it returns OKV_EPROTO (or OKV_EVERSION)
 * for anything that the document does not allow and never reads past `length`.
 */
#ifndef OKV_SHARED_FORMAT_WIRE_H
#define OKV_SHARED_FORMAT_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "shared/base/bytes.h"
#include "shared/format/entry.h"
#include "shared/format/opcode.h"

/* The longest value of a reply to a write, except that of a GET_TOUCH. */
#define OKV_WRITE_REPLY_MAX 16

#define OKV_WIRE_MAGIC UINT32_C(0x31766b6f) /* "okv1" in memory */
#define OKV_WIRE_VERSION 3

#define OKV_CLIENT_ID_SIZE 8
#define OKV_NONCE_SIZE 8
#define OKV_COOKIE_SIZE 16
#define OKV_PROOF_SIZE 16

/* ---- section 1.1: hello, client to server ---- */

struct okv_wire_hello {
    okv_le32 magic;
    okv_le16 version;
    okv_le16 length; /* of this structure: a transport may pad it with zeros */
    uint8_t client_id[OKV_CLIENT_ID_SIZE];
    uint8_t nonce[OKV_NONCE_SIZE];
    okv_le32 resume;
    okv_le16 slot_units; /* of OKV_SLOT_UNIT bytes, less one */
    okv_le16 credits;    /* bits 0 to 9: less one; the others: features offered */
    okv_le32 database;
    okv_le32 key_id;
    uint8_t proof[OKV_PROOF_SIZE];
};
_Static_assert(sizeof(struct okv_wire_hello) == 56, "an RDMA CM REQ carries 56 bytes");
_Static_assert(offsetof(struct okv_wire_hello, length) == 6, "hello.length");
_Static_assert(offsetof(struct okv_wire_hello, client_id) == 8, "hello.client_id");
_Static_assert(offsetof(struct okv_wire_hello, nonce) == 16, "hello.nonce");
_Static_assert(offsetof(struct okv_wire_hello, resume) == 24, "hello.resume");
_Static_assert(offsetof(struct okv_wire_hello, slot_units) == 28, "hello.slot_units");
_Static_assert(offsetof(struct okv_wire_hello, credits) == 30, "hello.credits");
_Static_assert(offsetof(struct okv_wire_hello, database) == 32, "hello.database");
_Static_assert(offsetof(struct okv_wire_hello, key_id) == 36, "hello.key_id");
_Static_assert(offsetof(struct okv_wire_hello, proof) == 40, "hello.proof");

/* Bytes of a hello before its proof. */
#define OKV_HELLO_PROVEN offsetof(struct okv_wire_hello, proof)

struct okv_hello {
    uint8_t client_id[OKV_CLIENT_ID_SIZE];
    uint8_t nonce[OKV_NONCE_SIZE]; /* random, another one in each attempt */
    uint32_t resume;    /* low half of the session id of the client's last connection; 0: none */
    uint32_t slot_size; /* largest message the client receives, bytes; a multiple of the unit */
    uint32_t credits;   /* requests it would like to have outstanding */
    uint32_t features;  /* of enum okv_feature: those offered; unknown ones are ignored */
    uint32_t database;  /* okv_database_id() of its name */
    uint32_t key_id;    /* of the key that made the proof; 0: there is none */
    uint8_t proof[OKV_PROOF_SIZE];
};

/* Feature bits of hello and welcome. */
enum okv_feature {
    OKV_FEATURE_REPORTS = 1, /* the client sends reports (report.h) */
    OKV_FEATURE_HEAT = 2,    /* the client reports its hits (hits.h) */
    OKV_FEATURE_LEASE = 4,   /* READs count while a lease holds; a member of a cluster demands it */
    OKV_FEATURE_REPLICATE = 8, /* the client is a server, and both are members of a cluster */
    OKV_FEATURE_OBSERVE =
        16, /* the client READs nothing and writes nothing: a copy serves it, too */
};
#define OKV_FEATURES_ALL 31u

/* The number by which a hello names a database: the low half of its name's hash, and never 0 but
 * for "default". */
uint32_t okv_database_id(const char *name);

void okv_hello_encode(const struct okv_hello *hello, struct okv_wire_hello *out);
/* OKV_EVERSION when it is an okv hello of another version. */
int okv_hello_decode(const uint8_t *bytes, size_t length, struct okv_hello *out);

/* ---- section 1.2: welcome, an accepting server's answer ---- */

struct okv_wire_welcome {
    okv_le32 magic;
    okv_le16 version;
    okv_le16 length;
    okv_le32 features;
    okv_le32 rkey;
    okv_le64 boot_id;
    okv_le64 region_address;
    okv_le64 region_length;
    okv_le64 directory_offset;
    okv_le64 bucket_count;
    okv_le64 hash_seed;
    okv_le32 bucket_size;
    okv_le32 segment_buckets;
    okv_le32 slot_size;
    okv_le32 credits;
    okv_le32 max_key;
    okv_le32 max_value;
    okv_le64 session_id;
    okv_le64 clock_ms;
    okv_le32 resumed;
    okv_le32 remember_ms;
    okv_le32 rights;
    okv_le32 lease_ms;
    okv_le64 epoch;
    okv_le64 map_version;
    okv_le64 lease_clock_us;
    okv_le64 valid_until_us;
    uint8_t proof[OKV_PROOF_SIZE];
};
_Static_assert(sizeof(struct okv_wire_welcome) == 168, "welcome: a REP takes 196 bytes");
_Static_assert(offsetof(struct okv_wire_welcome, rkey) == 12, "welcome.rkey");
_Static_assert(offsetof(struct okv_wire_welcome, boot_id) == 16, "welcome.boot_id");
_Static_assert(offsetof(struct okv_wire_welcome, region_length) == 32, "welcome.region_length");
_Static_assert(offsetof(struct okv_wire_welcome, hash_seed) == 56, "welcome.hash_seed");
_Static_assert(offsetof(struct okv_wire_welcome, bucket_size) == 64, "welcome.bucket_size");
_Static_assert(offsetof(struct okv_wire_welcome, credits) == 76, "welcome.credits");
_Static_assert(offsetof(struct okv_wire_welcome, session_id) == 88, "welcome.session_id");
_Static_assert(offsetof(struct okv_wire_welcome, resumed) == 104, "welcome.resumed");
_Static_assert(offsetof(struct okv_wire_welcome, rights) == 112, "welcome.rights");
_Static_assert(offsetof(struct okv_wire_welcome, epoch) == 120, "welcome.epoch");
_Static_assert(offsetof(struct okv_wire_welcome, proof) == 152, "welcome.proof");

/* Bytes of a welcome before its proof. */
#define OKV_WELCOME_PROVEN offsetof(struct okv_wire_welcome, proof)

/* Rights of a session in its database. Every session may read. */
enum okv_right {
    OKV_RIGHT_READ = 1,
    OKV_RIGHT_WRITE = 2,
    OKV_RIGHT_ADMIN = 4,
    OKV_RIGHT_REPLICATE = 8, /* of servers: all changes go through it */
};
#define OKV_RIGHTS_ALL 15u

struct okv_welcome {
    uint32_t features; /* of enum okv_feature: those in force */
    uint32_t rkey;
    uint64_t boot_id;
    uint64_t region_address; /* the remote address of offset 0; 0 when zero-based */
    uint64_t region_length;  /* bytes */
    uint64_t directory_offset;
    uint64_t bucket_count; /* current size of the index, a hint; 1 to OKV_BUCKETS_MAX */
    uint64_t hash_seed;
    uint32_t bucket_size;     /* bytes, a power of two from OKV_BUCKET_SIZE_MIN to _MAX */
    uint32_t segment_buckets; /* buckets in each segment of the index, a power of two */
    uint32_t slot_size;       /* largest message the server receives */
    uint32_t credits;         /* requests the client may have outstanding, at least 1 */
    uint32_t max_key;
    uint32_t max_value; /* at most OKV_VALUE_MAX; longer ones than a message by rendezvous */
    uint64_t session_id;
    uint64_t clock_ms;    /* the server's clock, the base of expiries; at least 1 */
    uint32_t resumed;     /* 1: the server knows the results of this client's earlier connection */
    uint32_t remember_ms; /* how long results outlive their connection */
    uint32_t rights;      /* of enum okv_right */
    uint32_t lease_ms;    /* the longest lease; 0, as are the next four: the server is alone */
    uint64_t epoch;       /* as in the status block (superblock.h) */
    uint64_t map_version; /* likewise */
    uint64_t lease_clock_us;       /* the server's lease clock */
    uint64_t valid_until_us;       /* as in the status block */
    uint8_t proof[OKV_PROOF_SIZE]; /* the server's; zeros where a hello needs none */
};

void okv_welcome_encode(const struct okv_welcome *welcome, struct okv_wire_welcome *out);
int okv_welcome_decode(const uint8_t *bytes, size_t length, struct okv_welcome *out);

/* ---- section 1.3: rejection, a refusing server's answer ---- */

struct okv_wire_reject {
    okv_le32 magic;
    okv_le16 version; /* the one the server speaks */
    okv_le16 length;
    okv_le32 reason;
    okv_le32 detail;
};
_Static_assert(sizeof(struct okv_wire_reject) == 16, "reject");
_Static_assert(offsetof(struct okv_wire_reject, reason) == 8, "reject.reason");

/* A rejection with reason CHALLENGE. */
struct okv_wire_challenge {
    struct okv_wire_reject reject;
    uint8_t cookie[OKV_COOKIE_SIZE];
};
_Static_assert(sizeof(struct okv_wire_challenge) == 32, "challenge: a REJ takes 148 bytes");

/* A rejection with reason NOT_PRIMARY. */
#define OKV_PRIMARY_SIZE 132
struct okv_wire_not_primary {
    struct okv_wire_reject reject;
    char primary[OKV_PRIMARY_SIZE]; /* HOST:PORT or the path of a Unix socket, then NULs */
};
_Static_assert(sizeof(struct okv_wire_not_primary) == 148, "not primary: a REJ takes 148 bytes");

/* Reasons: number, name, the code the client returns, the sentence it shows. */
#define OKV_REJECT_LIST(X)                                                                         \
    X(1, MALFORMED, PROTO, "the server could not read the client's hello")                         \
    X(2, VERSION, VERSION,                                                                         \
      "the server speaks another protocol version: use a client of the server's release")          \
    X(3, FEATURE, UNSUPPORTED,                                                                     \
      "client or server lack a feature that the other one requires: use a client of its release")  \
    X(4, BUSY, REFUSED,                                                                            \
      "the server has as many clients as it was configured for: raise its --max-clients")          \
    X(5, STOPPING, SHUTDOWN, "the server is shutting down")                                        \
    X(6, RESOURCES, REFUSED,                                                                       \
      "the server has no resources left for another client: see its limits on open files "         \
      "and locked memory (ulimit -n, -l)")                                                         \
    X(7, SLOT_SIZE, UNSUPPORTED, "the server's messages are larger than this client receives")     \
    X(8, ADDRESS, REFUSED,                                                                         \
      "the server has as many clients from this address as it allows: raise its "                  \
      "--max-clients-per-address")                                                                 \
    X(9, GONE, REFUSED, "the client was gone, or had given up waiting, when the server let it in") \
    X(10, DATABASE, REFUSED,                                                                       \
      "the server has no database of this name: see its --database, and ?database= in the URI")    \
    X(11, CHALLENGE, DENIED,                                                                       \
      "the server serves users: name one and the file with its key (--user, --key-file)")          \
    X(12, DENIED, DENIED,                                                                          \
      "the server knows no such user with this key: see its users file, and --user and "           \
      "--key-file")                                                                                \
    X(13, STALE, REFUSED,                                                                          \
      "the server saw this proof before, or has no room for more of this user: try again in 10 s") \
    X(14, NO_RIGHT, DENIED,                                                                        \
      "the server has no database of this name in which the user has a right: see its users "      \
      "file, and ?database= in the URI")                                                           \
    X(15, USER, REFUSED,                                                                           \
      "the server has as many clients of this user as it allows: raise its "                       \
      "--max-clients-per-user")                                                                    \
    X(16, UID, DENIED,                                                                             \
      "over local:// the server serves its own user and root alone: give its --listen URI "        \
      "?uids=any, or use rdma:// or ofi://")                                                       \
    X(17, PATH_MTU, ADDRESS,                                                                       \
      "this machine sends larger packets than the server's port carries: give the interfaces of "  \
      "both, and what is between them, the same MTU")                                              \
    X(18, NOT_PRIMARY, REFUSED, "the server is a copy, and another one of its cluster the primary")

enum okv_reject_reason {
#define OKV_REJECT_ENUM(number, name, code, text) OKV_REJECT_##name = (number),
    OKV_REJECT_LIST(OKV_REJECT_ENUM)
#undef OKV_REJECT_ENUM
};

struct okv_reject {
    uint16_t version; /* the server's */
    uint32_t reason;
    uint32_t detail; /* PATH_MTU: okv_reject_mtus(); else 0 */
};

/* Bytes of a packet on the client's path, and on the server's port. */
static inline uint32_t okv_reject_mtus(uint16_t path, uint16_t port)
{
    return (uint32_t)path << 16 | port;
}

void okv_reject_encode(const struct okv_reject *reject, struct okv_wire_reject *out);
int okv_reject_decode(const uint8_t *bytes, size_t length, struct okv_reject *out);
void okv_challenge_encode(const uint8_t cookie[OKV_COOKIE_SIZE], struct okv_wire_challenge *out);
/* OKV_EPROTO unless it is a rejection of this version with reason CHALLENGE. */
int okv_challenge_decode(const uint8_t *bytes, size_t length, uint8_t cookie[OKV_COOKIE_SIZE]);
/* `primary` is where clients reach the primary by the transport of this one, "" if that is not
 * known or takes OKV_PRIMARY_SIZE bytes. */
void okv_not_primary_encode(const char *primary, struct okv_wire_not_primary *out);
/* OKV_EPROTO unless it is a rejection of this version with reason NOT_PRIMARY and such a text. */
int okv_not_primary_decode(const uint8_t *bytes, size_t length, char primary[OKV_PRIMARY_SIZE]);
/* The sentence and the code of a reason; those of an unknown reason say so. */
const char *okv_reject_text(uint32_t reason);
int okv_reject_code(uint32_t reason);

/* ---- section 2.1: the immediate ---- */

#define OKV_IMMEDIATE_REPLY UINT32_C(0x80000000)

static inline uint32_t okv_immediate(unsigned opcode, uint16_t slot)
{
    return (uint32_t)(opcode & 0x7f) << 24 | slot;
}

static inline unsigned okv_immediate_opcode(uint32_t immediate)
{
    return immediate >> 24 & 0x7f;
}

static inline uint16_t okv_immediate_slot(uint32_t immediate)
{
    return (uint16_t)immediate;
}

/* ---- section 2.2: requests ---- */

struct okv_wire_request {
    okv_le64 sequence;
    okv_le64 argument;
    okv_le48 ttl_ms;
    okv_le16 flags;
    okv_le32 value_length;
    okv_le16 key_length;
    okv_le16 reserved;
};
_Static_assert(sizeof(struct okv_wire_request) == 32, "request");
_Static_assert(offsetof(struct okv_wire_request, argument) == 8, "request.argument");
_Static_assert(offsetof(struct okv_wire_request, flags) == 22, "request.flags");
_Static_assert(offsetof(struct okv_wire_request, key_length) == 28, "request.key_length");

/* The advertised buffer of a value that is too long for a message. It follows the key instead of
 * the value. */
struct okv_wire_rendezvous {
    okv_le64 address;
    okv_le32 key;
};
_Static_assert(sizeof(struct okv_wire_rendezvous) == 12, "rendezvous");

enum okv_request_flag {
    OKV_REQUEST_IF_ABSENT = 1,  /* PUT: only when the key is not there */
    OKV_REQUEST_IF_VERSION = 2, /* PUT, DELETE: only when its version is `argument` */
    OKV_REQUEST_RENDEZVOUS = 4, /* PUT, and what servers send: the receiver READs the value */
    OKV_REQUEST_KEEP_TTL = 8,   /* PUT: an item that is there keeps its expiry; without ttl_ms */
};

/* The longest time to live, ms: with a clock of 47 bits the expiry fits its 48. */
#define OKV_TTL_MAX ((UINT64_C(1) << 47) - 1)

/* A request; key and value point into the message that was decoded. */
struct okv_request_message {
    unsigned opcode;
    uint16_t slot;
    uint16_t flags;
    uint64_t sequence; /* of this client id, from 1; a resent request keeps it */
    uint64_t argument; /* IF_VERSION: the version; INCR, INCR_TTL: what is added, two's
                          complement; FLUSH: where to continue */
    uint64_t ttl_ms;   /* PUT, TOUCH, GET_TOUCH, INCR_TTL: at most OKV_TTL_MAX; 0: the item never
                          expires */
    const uint8_t *key;
    const uint8_t *value; /* NULL with OKV_REQUEST_RENDEZVOUS */
    uint32_t key_length;
    uint32_t value_length;
    uint64_t rendezvous_address; /* OKV_REQUEST_RENDEZVOUS: struct okv_advert of transport.h */
    uint32_t rendezvous_key;
};

/* Bytes of the message before its key. */
#define OKV_REQUEST_HEADER sizeof(struct okv_wire_request)

/* Writes header, key and value to `out`, which has room for all of it; returns the message's
 * length. The caller has checked the sizes. The value may be in its place already. */
uint32_t okv_request_encode(const struct okv_request_message *request, uint8_t *out);
/* OKV_EPROTO: short, a length that does not add up, reserved bits set, a field or flag that the
 * operation does not have, an immediate that is no request. OKV_EUNSUPPORTED: an unknown opcode;
 * `out->slot` and `out->sequence` are then valid for the reply. */
int okv_request_decode(uint32_t immediate, const uint8_t *bytes, uint32_t length,
                       struct okv_request_message *out);

/* ---- section 2.3: replies ---- */

struct okv_wire_reply {
    okv_le64 sequence;
    okv_le64 version;
    okv_le32 status; /* the negated code of shared/base/error.h */
    okv_le32 value_length;
};
_Static_assert(sizeof(struct okv_wire_reply) == 24, "reply");
_Static_assert(offsetof(struct okv_wire_reply, status) == 16, "reply.status");

struct okv_reply_message {
    unsigned opcode;
    uint16_t slot;
    int status; /* 0 or a code of error.h */
    uint64_t sequence;
    uint64_t version; /* of the item after the operation; 0 when there is none */
    const uint8_t *value;
    uint32_t value_length;
};

/* The values of replies that are numbers. */
struct okv_wire_number {
    okv_le64 number; /* INCR, INCR_TTL: the result, two's complement; APPEND: the value's length;
                        PING: the lease clock */
};
_Static_assert(sizeof(struct okv_wire_number) == 8, "number");

struct okv_wire_flush {
    okv_le64 next;   /* the argument of the next FLUSH; 0: the table was emptied */
    okv_le64 splits; /* the value of the next FLUSH */
};
_Static_assert(sizeof(struct okv_wire_flush) == 16, "flush");

#define OKV_REPLY_HEADER sizeof(struct okv_wire_reply)

/* As okv_request_encode; the value may already be at out + OKV_REPLY_HEADER. */
uint32_t okv_reply_encode(const struct okv_reply_message *reply, uint8_t *out);
int okv_reply_decode(uint32_t immediate, const uint8_t *bytes, uint32_t length,
                     struct okv_reply_message *out);

/* Largest value that fits a message beside the largest key. Longer values take a rendezvous read.
 */
static inline uint32_t okv_slot_value_max(uint32_t slot_size)
{
    return slot_size - (uint32_t)OKV_REQUEST_HEADER - OKV_KEY_MAX;
}

/* A slot takes at least the headers, the largest key and 8 KiB. */
#define OKV_SLOT_SIZE_MIN (OKV_REQUEST_HEADER + OKV_KEY_MAX + 8192)
#define OKV_SLOT_SIZE_MAX (1u << 20)
#define OKV_SLOT_UNIT 32u
#define OKV_SLOT_SIZE_DEFAULT 16384
#define OKV_CREDITS_MAX 1024

#endif
