/* The operations of BITFIELD: what its arguments say, and what each does to a value. */
#ifndef OKV_SERVER_RESP_PROTO_BITFIELD_H
#define OKV_SERVER_RESP_PROTO_BITFIELD_H

#include "server/resp/proto/parser.h"

/* Bits that a value may have to Redis, which reads those that are not there as 0. */
#define OKV_BITFIELD_BITS_MAX (UINT64_C(1) << 32)

enum okv_bitfield_kind {
    OKV_BITFIELD_GET,
    OKV_BITFIELD_SET,
    OKV_BITFIELD_INCRBY,
};

/* What becomes of a number that its field cannot hold. */
enum okv_bitfield_overflow {
    OKV_BITFIELD_WRAP,
    OKV_BITFIELD_SAT,  /* the number that is nearest to it */
    OKV_BITFIELD_FAIL, /* nothing is written */
};

struct okv_bitfield_operation {
    enum okv_bitfield_kind kind;
    enum okv_bitfield_overflow overflow;
    bool is_signed;
    unsigned width; /* bits: 1 to 64, unsigned 1 to 63 */
    uint64_t offset;
    int64_t number; /* to set, or to add */
};

/* Reads one operation after the other. Callers set the arguments, after the key, and their number;
 * the others start as zeros. */
struct okv_bitfield {
    const struct okv_resp_arg *args;
    uint32_t count, next;
    enum okv_bitfield_overflow overflow;
    const char *problem; /* in the words of Redis; NULL: there is none so far */
};

/* False: there is no further one, or there is a problem. */
bool okv_bitfield_next(struct okv_bitfield *fields, struct okv_bitfield_operation *operation);

struct okv_bitfield_summary {
    uint32_t operations;
    uint64_t end; /* bytes that a value has at least when all have run; 0: none writes */
};

/* Reads all. Returns the problem, or NULL. */
const char *okv_bitfield_check(struct okv_bitfield fields, struct okv_bitfield_summary *summary);

/* Runs one on a value, which has room for it if it writes. Sets *result to what it replies; false:
 * nothing, as the number cannot be held. *changes becomes true when the value changes. */
bool okv_bitfield_run(const struct okv_bitfield_operation *operation, uint8_t *value, uint64_t size,
                      int64_t *result, bool *changes);
/* The same of one that only reads. */
int64_t okv_bitfield_get(const struct okv_bitfield_operation *operation, const uint8_t *value,
                         uint64_t size);

#endif
