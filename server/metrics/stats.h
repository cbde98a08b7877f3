/* The metrics of the server and of its databases: docs/how-to-add.md. */
#ifndef OKV_SERVER_METRICS_STATS_H
#define OKV_SERVER_METRICS_STATS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/format/report.h"

struct okv_database;
struct okv_server;

/* Of a database: what its clients report (shared/format/report.h). */
#define OKV_COUNTS_CLIENT_LIST(X)                                                     \
    X(client_reports, "reports of clients")                                           \
    X(client_marks, "hits that clients reported, where items are evicted")            \
    X(reports_over, "of these, those beyond the allowance of a client, and ignored")  \
    X(client_gets, "gets that clients report")                                        \
    X(client_hits, "of these, those that found their key")                            \
    X(client_misses, "of these, those whose key was not there")                       \
    X(client_reads, "READs that clients report")                                      \
    X(client_read_bytes, "bytes of these READs")                                      \
    X(client_torn_buckets, "bucket images that clients rejected")                     \
    X(client_torn_extents, "extents that clients rejected")                           \
    X(client_wrong_depths, "READs of a bucket that had split or merged since")        \
    X(client_hints_right, "extents that clients read with their bucket, and rightly") \
    X(client_hints_wrong, "extents that clients read with their bucket for nothing")  \
    X(client_fallbacks, "gets that clients handed to the server")                     \
    X(client_timeouts, "operations that passed their deadline at clients")            \
    X(client_reconnects, "connections that clients made after their first")           \
    X(client_resent, "writes that clients sent again")

/* Of a database. */
#define OKV_COUNTS_LIST(X)                                                                     \
    X(puts, "values stored")                                                                   \
    X(puts_refused, "puts refused: no room in the table or in the bucket, or too large")       \
    X(conditions_failed, "puts and deletes not done: the key existed, or had another version") \
    X(gets, "gets sent to the server because one-sided reads kept failing")                    \
    X(deletes, "keys removed")                                                                 \
    X(appends, "values appended to")                                                           \
    X(incrs, "numbers added to")                                                               \
    X(touches, "times to live set without a put")                                              \
    X(flushes, "times the table was emptied")                                                  \
    X(rendezvous_reads, "values read from a client's memory")                                  \
    X(rendezvous_failed, "values that could not be read from a client's memory")               \
    X(rendezvous_bytes, "bytes of values read from a client's memory")                         \
    X(pings, "pings answered")                                                                 \
    X(stats, "requests for these numbers")                                                     \
    X(denied, "requests refused: the user lacks the right")                                    \
    OKV_COUNTS_CLIENT_LIST(X)

/* Of the server. */
#define OKV_STATS_LIST(X)                                                                      \
    X(unsupported, "requests of an unknown operation")                                         \
    X(deferred, "requests that waited: for their turn, a send buffer, or earlier long values") \
    X(duplicates, "resent writes that were answered from the reply cache")                     \
    X(stale, "writes that their client had given up, and that were dropped")                   \
    X(repeated, "requests that had come on their connection before, and were dropped")         \
    X(bytes_in, "bytes of requests")                                                           \
    X(bytes_out, "bytes of replies")                                                           \
    X(sessions_total, "clients accepted since the start")                                      \
    X(resumed, "of these, clients that came back and whose writes were known")                 \
    X(rejected_malformed, "clients refused: a malformed hello")                                \
    X(rejected_version, "clients refused: another protocol version")                           \
    X(rejected_feature, "clients refused: one side lacks a feature")                           \
    X(rejected_busy, "clients refused: --max-clients reached")                                 \
    X(rejected_user, "clients refused: --max-clients-per-user reached")                        \
    X(rejected_address, "clients refused: --max-clients-per-address reached")                  \
    X(rejected_stopping, "clients refused: shutting down")                                     \
    X(rejected_resources, "clients refused: the system had no resources")                      \
    X(rejected_database, "clients refused: no database of that name")                          \
    X(rejected_gone, "clients refused: they were gone, or had given up waiting")               \
    X(challenges, "clients asked for a proof of who they are")                                 \
    X(rejected_denied, "clients refused: no such user with this key")                          \
    X(rejected_stale, "clients refused: a hello that came before")                             \
    X(rejected_no_right, "clients refused: no database of that name with a right")             \
    X(rejected_uid, "clients refused: another user's, on local:// without uids=any")           \
    X(rejected_mtu, "clients refused: larger packets on their path than the port carries")     \
    X(users_loaded, "times the users file was loaded again")                                   \
    X(users_refused, "times it was not, for a mistake in it")                                  \
    X(closed_by_client, "connections that the client ended")                                   \
    X(closed_lost, "connections that ended without a GOODBYE: the client died or gave up")     \
    X(closed_dead, "connections ended: the device got no acknowledgement")                     \
    X(closed_unresponsive, "connections ended: nothing was acknowledged for too long")         \
    X(closed_replaced, "connections ended: the client has another one")                        \
    X(closed_revoked, "connections ended: the user lost its key or its rights")                \
    X(closed_killed, "connections that an administrator ended")                                \
    X(closed_half_open, "connections ended: half-open for too long")                           \
    X(closed_crowded_out, "connections ended: half-open or silent, and others came")           \
    X(closed_idle, "connections ended: no request for --idle-s")                               \
    X(closed_malformed, "connections ended: a malformed message")                              \
    X(closed_no_immediate, "connections ended: a message without immediate")                   \
    X(closed_credit, "connections ended: more requests than credits, or a wrong request slot") \
    X(closed_stopping, "connections ended: the server ends")                                   \
    X(closed_deposed, "connections ended: another server of the cluster leads the database")   \
    X(closed_failed, "connections that failed otherwise: device errors")                       \
    X(listener_failures, "times a listener closed because its device failed")                  \
    X(discovery_answers, "discovery queries answered")                                         \
    X(discovery_limited, "discovery queries not answered: too many at once")                   \
    X(discovery_malformed, "datagrams to the discovery group that are no query of okv")        \
    X(resp_clients_total, "clients of Redis accepted since the start")                         \
    X(resp_commands, "commands of these")                                                      \
    X(resp_hits, "of these, gets that found their key")                                        \
    X(resp_misses, "of these, gets whose key was not there")                                   \
    X(heartbeats, "heartbeats of clients that were silent")                                    \
    X(sleeps, "times a worker went to sleep")

/* Current values. */
#define OKV_STATS_NOW_LIST(X)                                \
    X(sessions, "clients connected")                         \
    X(credits_granted, "requests they may have outstanding") \
    X(requests_waiting, "requests that wait to be served")   \
    X(resp_clients, "clients of Redis connected")            \
    X(listeners_closed, "listeners whose device is gone")    \
    X(longest_step, "most work of a step, in units of 1 ns") \
    X(longest_alone, "the same of a command that ran alone") \
    X(unnamed_logs, "logs in the directory of --data whose databases are not served")

/* Any thread may add and read. */
struct okv_counts {
#define OKV_STATS_FIELD(name, text) atomic_uint_fast64_t name;
    OKV_COUNTS_LIST(OKV_STATS_FIELD)
#undef OKV_STATS_FIELD
};

/* A histogram of the operations that were timed. Any thread may add and read. */
struct okv_times {
    atomic_uint_fast64_t ns; /* all together */
    atomic_uint_fast64_t cells[OKV_REPORT_CELLS];
};

static inline void okv_times_add(struct okv_times *times, uint64_t ns)
{
    atomic_fetch_add_explicit(&times->ns, ns, memory_order_relaxed);
    atomic_fetch_add_explicit(&times->cells[okv_report_cell(ns)], 1, memory_order_relaxed);
}

/* Of the server. Any thread may add and read. */
struct okv_stats {
#define OKV_STATS_FIELD(name, text) atomic_uint_fast64_t name;
    OKV_STATS_LIST(OKV_STATS_FIELD)
    OKV_STATS_NOW_LIST(OKV_STATS_FIELD)
#undef OKV_STATS_FIELD
};

#define OKV_STATS_ADD(stats, name, n) \
    atomic_fetch_add_explicit(&(stats)->name, (n), memory_order_relaxed)

#define OKV_STATS_SUBTRACT(stats, name, n) \
    atomic_fetch_sub_explicit(&(stats)->name, (n), memory_order_relaxed)

/* For a value that only rises. */
#define OKV_STATS_RAISE(stats, name, n) okv_stats_raise(&(stats)->name, (n))

static inline void okv_stats_raise(atomic_uint_fast64_t *value, uint64_t to)
{
    uint64_t now = atomic_load_explicit(value, memory_order_relaxed);

    while (now < to && !atomic_compare_exchange_weak_explicit(value, &now, to, memory_order_relaxed,
                                                              memory_order_relaxed))
        continue;
}

/* Of a database of a cluster, as the cluster's thread sees its copy. */
#define OKV_COPIES_LIST(X)                                                             \
    X(copies_led, "1: this server leads the database")                                 \
    X(copies_epoch, "the highest epoch that is known here")                            \
    X(copies_wanted, "servers that are to have a copy")                                \
    X(copies_in_sync, "copies in sync")                                                \
    X(copies_behind_bytes,                                                             \
      "bytes of the log that the slowest connected copy lacks; of a copy: itself")     \
    X(copies_failed, "1: this copy takes nothing more: its log failed, or it is full") \
    X(copies_alarmed, "1: etcd is not the one that it was, and no role changes")

/* Likewise, counted since the start. */
#define OKV_ELECTIONS_LIST(X)                                                 \
    X(copies_suspected, "times that this copy found its primary silent")      \
    X(copies_took_over, "epochs that this copy began and nobody handed over") \
    X(copies_deposed, "epochs that this server led, and another one ended without a hand-over")

struct okv_copies_figures {
#define OKV_COPIES_MEMBER(name, help) atomic_uint_fast64_t name;
    OKV_COPIES_LIST(OKV_COPIES_MEMBER)
    OKV_ELECTIONS_LIST(OKV_COPIES_MEMBER)
#undef OKV_COPIES_MEMBER
};

/* A number that the server publishes: for `okv stat`, and for Prometheus as okv_NAME in the base
 * unit of its suffix _ms, _us or _ns. */
struct okv_metric {
    const char *name, *help; /* static */
    bool is_counter;         /* it only rises; else it is a gauge */
};

typedef void okv_stats_visit(void *user, const struct okv_metric *metric, uint64_t value);
/* Visits each metric of a database, or of the server when `database` is NULL. */
void okv_stats_each(struct okv_server *server, struct okv_database *database,
                    okv_stats_visit *visit, void *user);
/* Writes all of one database, and of the server when `with_server`, without a NUL: numbers, boot
 * id, and what is text, such as the listeners. Returns the length. If that is more than `size`, the
 * text is incomplete. */
size_t okv_stats_render(struct okv_server *server, struct okv_database *database, bool with_server,
                        char *out, size_t size);
/* The same of the server alone. */
size_t okv_stats_render_server(struct okv_server *server, char *out, size_t size);

#endif
