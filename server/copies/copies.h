/*
 * A server's copies of its cluster's databases: the thread that drives the protocol between copies
 * (cluster/protocol.h), and carries out what it says between log, etcd, other servers and clients.
 *
 * The thread is alone with all of this state. Others leave it an order, and read a report.
 */
#ifndef OKV_SERVER_COPIES_COPIES_H
#define OKV_SERVER_COPIES_COPIES_H

#include <stddef.h>
#include <stdint.h>

#include "shared/base/diag.h"

struct okv_copies;
struct okv_server;

/* For a server with --cluster, before its acceptor and its workers run: makes server->peer_inbox
 * and all databases members of the cluster, which nobody leads yet. OKV_EINVAL: the options of
 * etcd; OKV_EIO, OKV_ENOMEM. */
int okv_copies_create(struct okv_server *server, struct okv_copies **out, struct okv_diag *diag);
/* Accepts NULL. After the workers have ended. */
void okv_copies_destroy(struct okv_copies *copies);

/* Starts the thread, which starts the logs once it knows the cluster. OKV_EIO, OKV_ENOMEM. */
int okv_copies_start(struct okv_copies *copies, struct okv_diag *why);
/* Has other servers lead what this one leads, as far as copies are in sync, and waits for that up
 * to `ms`. Clients are served meanwhile. Accepts NULL. */
void okv_copies_leave(struct okv_copies *copies, uint32_t ms);
/* Ends the thread: no batch is published any more. Accepts one that was not started, and NULL. */
void okv_copies_stop(struct okv_copies *copies);

/* ---- any thread ---- */

/* Bytes of an order and of its result, with a NUL. */
#define OKV_COPIES_ORDER_SIZE 128
#define OKV_COPIES_RESULT_SIZE 256

/* Leaves an order for the thread, as docs/protocol-admin.md has them. OKV_ENOMEM: 16 wait. */
int okv_copies_order(struct okv_copies *copies, const char *text, uint64_t *number);
/* Writes the result of an order, "done" or a sentence; returns its length. OKV_EAGAIN: there is
 * none yet; OKV_ENOTFOUND: there is no such order, or later ones took its place. */
int okv_copies_result(struct okv_copies *copies, uint64_t number, char *out, size_t size);
/* Copies the report (docs/protocol-admin.md) from `offset` on. Returns the number of bytes; 0:
 * there is no more. */
size_t okv_copies_report(struct okv_copies *copies, uint64_t offset, char *out, size_t size);

/* Where clients reach the primary of a database by the same transport as `like`, a URI: HOST:PORT
 * or a path, or "" if that is not known or takes `size` bytes. */
void okv_copies_primary(struct okv_copies *copies, unsigned database, const char *like, char *out,
                        size_t size);

#endif
