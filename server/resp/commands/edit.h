/* Changes of a part of a value: APPEND, SETRANGE, SETBIT. */
#ifndef OKV_SERVER_RESP_COMMANDS_EDIT_H
#define OKV_SERVER_RESP_COMMANDS_EDIT_H

#include "server/resp/proto/buffer.h"
#include "server/resp/proto/parser.h"

struct okv_resp_call;

/* Makes a value of the one that is there: a short one in memory of its own, a long one in steps
 * (long_build.h). Callers set the first fields, the others start as zeros. */
struct okv_resp_edit {
    struct okv_resp_call *call;
    struct okv_resp_arg with; /* the bytes to write; SETBIT: NULL */
    uint64_t offset;          /* where */
    bool is_append;           /* at the end, wherever that is */
    uint8_t mask;             /* SETBIT: of the bit in its byte; else 0 */
    bool sets;                /* SETBIT: to 1 */

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
