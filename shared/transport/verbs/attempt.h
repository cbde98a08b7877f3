/* One attempt to connect to one address, event by event. */
#ifndef OKV_SHARED_TRANSPORT_VERBS_ATTEMPT_H
#define OKV_SHARED_TRANSPORT_VERBS_ATTEMPT_H

#include "shared/transport/common/hello.h"
#include "shared/transport/verbs/verbs.h"

/* Attempts that meet a stale number, of one connect. */
#define VERBS_STALE_MAX 4

/* What an attempt waits for, in this order. */
enum verbs_step { VERBS_STEP_ADDRESS, VERBS_STEP_ROUTE, VERBS_STEP_ANSWER, VERBS_STEP_DONE };

/* One attempt to reach one address. */
struct verbs_attempt {
    enum verbs_step step;
    uint64_t deadline_ns; /* of this step */
    bool again;           /* it failed, but another attempt may succeed */
    bool is_stale;        /* the server still knows the number of `conn`'s queue pair */

    struct rdma_cm_id *id;       /* NULL while there is no attempt */
    struct rdma_cm_id *rejected; /* the one before, or NULL */
    struct verbs_conn *conn;     /* NULL before the first VERBS_STEP_ANSWER */
    struct okv_binding binding;  /* of `conn` */
    uint8_t reads_out;           /* our READs that the device executes at once */
    uint8_t reads_in;            /* READs of the server that it serves at once */
    unsigned reads_posted;       /* READs that may be posted at once */
};

struct verbs_connecting {
    struct okv_connecting base;
    struct okv_uri uri;
    struct okv_connect_hello hello;
    bool has_begun; /* an attempt */
    struct okv_message_limits limits;
    uint64_t deadline_ns;
    struct rdma_event_channel *channel; /* of all attempts; passes to the connection in the end */
    struct addrinfo *addresses;         /* of the host */
    const struct addrinfo *address;     /* the current one */
    struct addrinfo *source;            /* NULL: the route decides */
    unsigned attempts;                  /* to this address, with the current one */
    struct verbs_attempt attempt;
    uint64_t pause_until_ns;                   /* before the next attempt; 0: none */
    struct verbs_conn *stale[VERBS_STALE_MAX]; /* they keep their numbers until the end */
    unsigned stale_count;
    struct okv_answer answer;
    struct okv_diag diag; /* why the latest attempt failed */
};

/* Begins an attempt. Returns 0 or a code of connect_step. okv_verbs_attempt_end or
 * okv_verbs_attempt_finish must follow. */
int okv_verbs_attempt_begin(struct verbs_connecting *c);
/* Begins it once more with another hello and the same queue pair, after a rejection. */
int okv_verbs_attempt_renew(struct verbs_connecting *c);
/* Handles one event of the connection manager; the caller acknowledges it. */
int okv_verbs_attempt_event(struct verbs_connecting *c, const struct rdma_cm_event *event);
/* Ends a failed attempt; the channel stays. */
void okv_verbs_attempt_end(struct verbs_connecting *c);
/* Frees what stale attempts have left. */
void okv_verbs_attempt_forget(struct verbs_connecting *c);
/* The connection of an attempt at VERBS_STEP_DONE; it owns id and channel. */
struct okv_conn *okv_verbs_attempt_finish(struct verbs_connecting *c);

#endif
