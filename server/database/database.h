/* A database: a region of its own with a table in it, and the reply caches of its clients. */
#ifndef OKV_SERVER_DATABASE_DATABASE_H
#define OKV_SERVER_DATABASE_DATABASE_H

#include "server/database/allowance.h"
#include "server/metrics/stats.h"
#include "server/store/region.h"
#include "server/store/store.h"

struct okv_config;
struct okv_database_config;
struct okv_log;
struct okv_durable;
struct okv_reply_caches;
struct okv_server;
struct okv_wal;
struct okv_wal_copies_params;
struct okv_wal_identity;

struct okv_database {
    const struct okv_database_config *config;
    struct okv_log *log; /* since okv_database_report_to() */
    struct okv_region region;
    struct okv_store store;
    struct okv_durable *durable;   /* NULL: in memory only */
    struct okv_wal *opened;        /* its log, which runs once `wal` is set; NULL: it has none */
    _Atomic(struct okv_wal *) wal; /* its log, or NULL; in a cluster since okv_database_join() */
    struct okv_reply_caches *reply_caches; /* of its clients */
    atomic_uint_fast64_t session_base;     /* ids of sessions are above it; 0 without a log */
    /* In a cluster: the epoch in which clients may connect; 0: another server leads. */
    atomic_uint_fast64_t served;
    struct okv_copies_figures copies;
    /* Until then, by okv_clock_lease_us(), a copy may answer reads after READONLY: it heard of the
     * primary up to a lease ago, and has applied what that had published. 0: it may not. */
    atomic_uint_fast64_t fresh_until_us;
    struct okv_counts counts;
    struct okv_times client_times;  /* of gets, as clients report them */
    struct okv_times write_times;   /* session/timed_writes.h */
    struct okv_allowance allowance; /* of hits; where items are evicted */
    atomic_uint reporting;          /* sessions of clients that report */
    atomic_uint_fast64_t reserved;  /* bytes of extents of long writes under way */
    atomic_bool is_exceeded;        /* besides these, one has more than its share */
    uint32_t id;                    /* okv_database_id() */
};

/* Makes a table: empty, or with --data what its log has. `config` is borrowed. Blocks while memory
 * is taken (region.h) and the log is read. `boot_id` is the server's. OKV_EINVAL: too little
 * memory; OKV_EPERM, OKV_ENOMEM, OKV_EIO, and what okv_durable_open() and okv_wal_recover() return.
 */
int okv_database_init(struct okv_database *database, const struct okv_config *config,
                      unsigned index, uint64_t boot_id, struct okv_diag *diag);
/* Logs from now on what happens to the database: that it is full, that its log fails. Before
 * okv_database_start(). */
void okv_database_report_to(struct okv_database *database, struct okv_log *log);
/* Begins the log of a durable database: from here on changes need okv_wal_begin_change(). `notify`
 * is called on the log's thread when a batch has ended. OKV_EIO, OKV_ENOMEM. */
int okv_database_start(struct okv_database *database, double snapshot_ratio,
                       void (*notify)(void *user), void *user, struct okv_diag *diag);
/* Whether this server may serve it: it is alone, or the primary. Any thread. */
bool okv_database_is_led(const struct okv_database *database);
/* Of a server of a cluster. */
void okv_database_get_identity(const struct okv_database *database, struct okv_wal_identity *out);
/* In place of okv_database_start(), on a server of a cluster: begins the log of a copy, which has
 * no items unless it has those of this identity. OKV_EEXISTS: it has others; OKV_EIO, OKV_ENOMEM.
 */
int okv_database_join(struct okv_database *database, const struct okv_wal_identity *identity,
                      const struct okv_wal_copies_params *copies, double snapshot_ratio,
                      void (*notify)(void *user), void *user, struct okv_diag *diag);
/* Sets the clock of the server and its databases to `clock_ms`, if it is behind that. */
void okv_databases_set_clock(struct okv_server *server, uint64_t clock_ms);
/* Asks for a snapshot, which begins soon; *number says which. OKV_EUNSUPPORTED: the database is in
 * memory only, or its log has not begun. Any thread. */
int okv_database_snapshot(const struct okv_database *database, uint64_t *number);
/* Writes the path of the snapshot of this number, or of a later one that replaced it, below `data`,
 * the directory of all databases; *used is its length. OKV_EAGAIN: it is not made yet;
 * OKV_ENOTFOUND: it failed; OKV_EINVAL: no snapshot has this number; OKV_EUNSUPPORTED: the database
 * is in memory only, or the path is longer than `size` - 1. Any thread. */
int okv_database_snapshot_path(const struct okv_database *database, const char *data,
                               uint64_t number, char *out, uint32_t size, uint32_t *used);
/* After okv_database_start(); no change is under way. */
void okv_database_stop(struct okv_database *database);
void okv_database_fini(struct okv_database *database);

#endif
