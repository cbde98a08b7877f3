/* A client that is refused: its line in the log, and its counter. */
#ifndef OKV_SERVER_CLIENTS_REFUSAL_H
#define OKV_SERVER_CLIENTS_REFUSAL_H

#include <stdbool.h>

struct okv_server;
struct okv_stats;

struct okv_refusal {
    const char *peer;
    const char *user;     /* that it is, or claims to be; "": none */
    bool is_proven;       /* it is that user */
    int reason;           /* of enum okv_reject_reason */
    const char *stranger; /* what it did, in words that say more than the reason; or "" */
    const char *device;   /* what the device that did not accept it said; or "" */
};

/* On a server with users, of all who have not proven who they are, a line a minute: others could
 * fill the log. Any thread. */
void okv_refusal_log(struct okv_server *server, const struct okv_refusal *refusal);

/* Counts a refusal for this reason (enum okv_reject_reason), or a challenge. Any thread. */
void okv_refusal_count(struct okv_stats *stats, int reason);

#endif
