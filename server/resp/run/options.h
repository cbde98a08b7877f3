/* Options and numbers of a command. Each function replies with an error if what it reads is wrong.
 */
#ifndef OKV_SERVER_RESP_RUN_OPTIONS_H
#define OKV_SERVER_RESP_RUN_OPTIONS_H

#include "server/resp/proto/args.h"
#include "server/resp/run/call.h"

int okv_resp_syntax_error(struct okv_resp_call *call); /* returns 0 */

/* Of commands that reply about each argument in one step. */
#define OKV_RESP_FEW 1000u
bool okv_resp_need_few(struct okv_resp_call *call, uint32_t most);

bool okv_resp_need_integer(struct okv_resp_call *call, uint32_t index, int64_t *number);

/* How an argument gives a time: in seconds from now, unless it has these flags. */
enum okv_resp_time {
    OKV_RESP_TIME_MS = 1,       /* in ms */
    OKV_RESP_TIME_AT = 2,       /* Unix time */
    OKV_RESP_TIME_POSITIVE = 4, /* must be above 0 */
};

/* Reads a time as the expiry of an item, on the server's clock; 0: it is past. A time later than
 * any item can expire becomes the latest. */
bool okv_resp_need_expiry(struct okv_resp_call *call, uint32_t index, unsigned form,
                          uint64_t *expiry_ms);

/* One of the options EX, PX, EXAT and PXAT. It may come again, and then its last value counts. */
struct okv_resp_expiry {
    uint32_t index; /* of the value, which is not looked at; 0: there is no such option */
    unsigned form;  /* for okv_resp_need_expiry() */
};

/* Reads such an option and moves *index to its value. False: it is another option, has no value, or
 * follows another one of these; nothing was replied. */
bool okv_resp_read_expiry(const struct okv_resp_call *call, uint32_t *index,
                          struct okv_resp_expiry *expiry);

/* Index of the database with this name or number; -1: there is none in which the user has a right,
 * and nothing was replied. */
int okv_resp_database_of(const struct okv_resp_call *call, const struct okv_resp_arg *arg);
/* Replies that there is none. Both return 0. Of COPY and MOVE the second one says of argument
 * `index`, as Redis does, that it is no number. */
int okv_resp_refuse_database(struct okv_resp_call *call);
int okv_resp_refuse_target(struct okv_resp_call *call, uint32_t index);

#endif
