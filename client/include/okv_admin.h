/* For programs of operators: commands to a running server. As okv.h says for all calls, a handle
 * belongs to one thread at a time. */
#ifndef OKV_ADMIN_H
#define OKV_ADMIN_H

#include <okv.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Runs a command on the server, for the database of the handle, and writes its answer into
 * buffer[0..size) with a NUL. *length is its length without the NUL. The commands, with numbers in
 * hexadecimal:
 *   sessions AFTER   lists the sessions whose id is above AFTER, as many as fit an answer, lowest
 *                    first, a line each: id, user or -, address, age in ms, requests, database, ms
 *                    since the last request, credits, bytes in and out, 1 if the client reports
 *                    its gets, else 0, gets and hits that it reported, transport, and the path,
 *                    which takes the rest of the line
 *   kill ID          ends a session
 *   databases        lists the names of all databases, one a line
 *   server           statistics of the server as a whole, as lines of okv_stat()
 *   reload           reads the users file again, at most once a second however many ask; the
 *                    counters users_loaded and users_refused of okv_stat() show the outcome, a
 *                    moment later
 *   snapshot         begins to write all items of a durable database to a file, and answers at
 *                    once with the number of that snapshot
 *   snapshot NUMBER  the path of that snapshot's file on the server, or of a later one that has
 *                    replaced it; nothing as long as it is being made
 *   clocks           the lines "wall_us N" and "lease_us N", decimal: microseconds since 1970, and
 *                    of the clock that leases of a cluster run by, as they are now
 *   cluster OFFSET   a part of a JSON text that describes the cluster, from this byte on; nothing
 *                    after its end. It changes meanwhile: read a text that makes no sense again
 *   cluster order ORDER, cluster result NUMBER
 *                    gives an order to the cluster and answers at once with its number; "done" or a
 *                    sentence that says why not, nothing while it is under way
 *   host             begins to read what the server's host says of its RDMA ports, and answers at
 *                    once with the number of that reading
 *   host NUMBER      that reading or a later one; nothing as long as it is being made. The line
 *                    "huge_pages 1" if the database is on huge pages, else "huge_pages 0", then a
 *                    line a port, of names and values in turn: port, address, gid, rate_gbps, mtu,
 *                    pcie, numa_node, firmware, soft, and counters of losses. Pass over lines and
 *                    names that you do not know
 * Errors: those of all calls, OKV_EINVAL (NULL, a command that the server does not know),
 * OKV_ENOTFOUND (no such session or reading; the snapshot failed), OKV_EDENIED (it requires the
 * right admin), OKV_ETOOSMALL (*length says what is needed, without the NUL), OKV_EUNSUPPORTED
 * (reload: the server has no users; snapshot: the database is in memory only; cluster: the server
 * is in none).
 */
OKV_API int okv_admin(okv *handle, const char *command, char *buffer, size_t size, size_t *length);

#ifdef __cplusplus
}
#endif
#endif
