/* Changes of a part of a value: APPEND, SETRANGE, SETBIT, BITFIELD. */
#ifndef OKV_SERVER_RESP_COMMANDS_EDIT_H
#define OKV_SERVER_RESP_COMMANDS_EDIT_H

#include "server/resp/proto/buffer.h"
#include "server/resp/proto/parser.h"

struct okv_resp_call;
struct okv_resp_edit;

/* Writes to the new value, which has the bytes of the old one and zeros. Returns whether it
 * changes one of them. */
typedef bool okv_resp_edit_write(struct okv_resp_edit *edit, uint8_t *value);

/* Makes a value of the one that is there: a short one in memory of its own, a long one in steps
 * (long_build.h). Callers set the first fields, the others start as zeros. */
struct okv_resp_edit {
    struct okv_resp_call *call;
    struct okv_resp_arg with;   /* the bytes to write; SETBIT: NULL */
    uint64_t offset;            /* where */
    bool is_append;             /* at the end, wherever that is */
    uint8_t mask;               /* SETBIT: of the bit in its byte; else 0 */
    bool sets;                  /* SETBIT: to 1 */
    okv_resp_edit_write *write; /* BITFIELD: instead of `with`; the value reaches to `offset`, at
                                   least. May be called again, for another value; else NULL */

    bool was_set;    /* SETBIT: before */
    uint64_t length; /* of the result */
    struct okv_resp_buffer made;
    uint8_t byte;  /* SETBIT: `with` */
    bool is_taken; /* the current value, as the source of a long one */
    bool is_stale; /* the long one that was made: the key has another value by now */
};

/* 0: it is done, and nothing was replied; OKV_RESP_GOES_ON; or an error for okv_resp_refuse(). */
int okv_resp_edit_run(struct okv_resp_edit *edit);

#endif
