/* One database: passes what happens to the protocol, and carries out what it says. */
#ifndef OKV_SERVER_COPIES_COPY_H
#define OKV_SERVER_COPIES_COPY_H

#include "server/copies/state.h"

/* Starts the log and the protocol: the cluster is known. OKV_EEXISTS: the database is of another
 * cluster; what okv_database_start() returns. */
int okv_copy_begin(struct okv_copy *copy, struct okv_diag *diag);
/* Something happened. What the log has to say is passed on first, and after it. */
void okv_copy_step(struct okv_copy *copy, const struct okv_protocol_event *event);
/* The log may have changed, a timer may be due. */
void okv_copy_run(struct okv_copy *copy);
/* The server ends: nothing is published any more. */
void okv_copy_end(struct okv_copy *copy);
/* When okv_copy_run() is due, on okv_clock_lease_us(). */
uint64_t okv_copy_due_us(const struct okv_copy *copy);

#endif
