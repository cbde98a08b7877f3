/* The operations of requests (docs/protocol.md section 2.2), and what client and server must agree
 * on about each. */
#ifndef OKV_SHARED_FORMAT_OPCODE_H
#define OKV_SHARED_FORMAT_OPCODE_H

#include <stdbool.h>
#include <stdint.h>

enum okv_opcode {
    OKV_OP_PING = 1,
    OKV_OP_GET = 2,
    OKV_OP_PUT = 3,
    OKV_OP_DELETE = 4,
    OKV_OP_STAT = 5,
    OKV_OP_APPEND = 6,
    OKV_OP_TOUCH = 7,
    OKV_OP_INCR = 8,
    OKV_OP_FLUSH = 9,
    OKV_OP_ADMIN = 10,
    OKV_OP_REPORT = 11,
    OKV_OP_INCR_TTL = 12, /* INCR that gives a new item a time to live */
    OKV_OP_GET_TOUCH = 13,
    OKV_OP_HITS = 14,
    /* 16 to 21: between servers (docs/protocol-peers.md) */
    OKV_OP_JOIN = 16,
    OKV_OP_SHIP = 17,
    OKV_OP_VALUE = 18,
    OKV_OP_SNAPSHOT = 19,
    OKV_OP_BEAT = 20,
    OKV_OP_RELEASED = 21,
    OKV_OP_GOODBYE = 0x7f, /* either way: the sender ends the connection; has no reply */
};
#define OKV_OPCODES 0x80 /* an immediate has 7 bits for one */

struct okv_opcode_facts {
    uint8_t right;     /* enum okv_right that it takes; 0: there is no such operation */
    bool is_write;     /* changes the table: it is applied once, and its reply is remembered */
    bool has_key;      /* always; the others may have no key */
    bool has_value;    /* may carry a value, as the following fields */
    bool has_argument; /* without a flag that needs one */
    bool has_ttl;
    uint16_t flags; /* of enum okv_request_flag: those that it may have */
};

extern const struct okv_opcode_facts okv_opcodes[OKV_OPCODES];

static inline const struct okv_opcode_facts *okv_opcode_facts(unsigned opcode)
{
    return &okv_opcodes[opcode % OKV_OPCODES];
}

/* The name in a users file of a right, enum okv_right; of several, of the first of read, write,
 * admin and replicate. NULL: there is none. */
const char *okv_right_name(unsigned rights);

static inline bool okv_opcode_is_write(unsigned opcode)
{
    return okv_opcode_facts(opcode)->is_write;
}

/* Between servers. */
static inline bool okv_opcode_is_peer(unsigned opcode)
{
    return opcode >= OKV_OP_JOIN && opcode <= OKV_OP_RELEASED;
}

#endif
