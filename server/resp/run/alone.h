/*
 * The work of a command that is about to run alone: at most --alone-ms, or it is refused and
 * changes nothing. What is compared is an upper bound, which follows the lengths that values have
 * now, and may have after the commands of a transaction before this one.
 */
#ifndef OKV_SERVER_RESP_RUN_ALONE_H
#define OKV_SERVER_RESP_RUN_ALONE_H

#include <stdbool.h>
#include <stdint.h>

struct okv_resp_call;

/* Whether a command, EXEC with its queue, may run; sets what it may do beyond its price,
 * call->spare and client->room_steps, and call->room. If not, it replies with an error, and a
 * transaction is dropped. */
bool okv_resp_alone_check(struct okv_resp_call *call);
/* The work of a command that a script calls; more than `most` when that is less. */
uint64_t okv_resp_alone_price(struct okv_resp_call *call, uint64_t most);

#endif
