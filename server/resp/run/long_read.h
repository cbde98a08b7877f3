/*
 * A long value that a command reads in steps, while others are served: BITCOUNT, BITPOS, BITOP. It
 * is the value that the key had when it was looked at, whatever becomes of the key: its extent is
 * pinned. A client has at most one.
 */
#ifndef OKV_SERVER_RESP_RUN_LONG_READ_H
#define OKV_SERVER_RESP_RUN_LONG_READ_H

#include <stdbool.h>

struct okv_resp_call;
struct okv_resp_client;
struct okv_store_now;

/* Bytes of a step, which are read and maybe written. */
#define OKV_RESP_READ_STEP (OKV_TURN_WORK / 2)

/* Whether a value is read in steps: it is long, and the command does not run alone. */
bool okv_resp_read_is_long(const struct okv_resp_call *call, const struct okv_store_now *now);
/* Begins to read a value, which is locked, and in an extent. Counted, it takes from the client's
 * share of the database's memory (reservation.h), as a download does; a client that has a share for
 * something else must not wait for another one. OKV_EAGAIN: there is no memory for it at the
 * moment. */
int okv_resp_read_begin(struct okv_resp_call *call, const struct okv_store_now *now,
                        bool is_counted);
/* Accepts a client without one. */
void okv_resp_read_end(struct okv_resp_client *client);

#endif
