/*
 * Long values that a command makes of stored ones: APPEND, SETRANGE, SETBIT, BITFIELD, BITOP,
 * RENAME, COPY, MOVE.
 * The new value is composed in steps, in its own extent, while others are served. Then the command
 * sets it, if the key still has the value that it was made of; if not, it is made again, a hundred
 * times.
 *
 * In a transaction there are no steps: the price of EXEC has the copies (price.h).
 */
#ifndef OKV_SERVER_RESP_RUN_LONG_BUILD_H
#define OKV_SERVER_RESP_RUN_LONG_BUILD_H

#include "server/command/long_transfer.h"

struct okv_resp_arg;
struct okv_resp_call;
struct okv_resp_client;
struct okv_store_now;

/* A command whose values change so often is refused. */
#define OKV_RESP_BUILDS_MAX 100

/* Of the command under way. */
struct okv_resp_build {
    struct okv_long_transfer transfer;
    unsigned database; /* index: where the value will be */
    uint64_t version;  /* of the value that it is made of; 0: there was none */
    uint8_t *copy;     /* of that value, if it was in its bucket; or NULL */
    uint8_t byte;      /* SETBIT: the patch */
    bool is_draft;     /* its command still writes to it: okv_resp_build_revise() */
};

/* What a build is to become. */
struct okv_resp_plan {
    const struct okv_resp_arg *key; /* that gets the value */
    unsigned database;
    const struct okv_resp_arg *patch; /* or NULL */
    uint32_t patch_offset;
    uint32_t length;
    bool is_draft;
};

/* Takes the current value of a key as the source; NULL: there is none. Its bucket is locked.
 * OKV_ENOMEM. */
int okv_resp_build_take(struct okv_resp_call *call, const struct okv_store_now *now);
/* Begins to build what a source was taken for. Returns OKV_RESP_GOES_ON; OKV_EAGAIN: there is no
 * memory at the moment; OKV_ECONFLICT: this command has made OKV_RESP_BUILDS_MAX already; or
 * another error. After an error the build has ended. */
int okv_resp_build_begin(struct okv_resp_call *call, const struct okv_resp_plan *plan);
/* Goes on with the client's build for a step. A draft that is complete is not stored. `patch` is
 * where the plan's is now, as the bytes of a request may move; NULL: it did not. 0: it is complete,
 * or there is none; OKV_RESP_GOES_ON; OKV_EAGAIN: the log has not stored it yet; or another error
 * of the log. */
int okv_resp_build_step(struct okv_resp_client *client, const struct okv_resp_arg *patch);
/* The command has written to its draft, which is complete: its checksum is computed again. */
void okv_resp_build_revise(struct okv_resp_client *client);
/* Whether there is a complete build of this version. */
bool okv_resp_build_is_of(const struct okv_resp_client *client, uint64_t version);
/* Accepts a client without one. */
void okv_resp_build_end(struct okv_resp_client *client);

#endif
