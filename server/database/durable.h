/* The durable part of a database: its directory and its log (docs/durability.md). */
#ifndef OKV_SERVER_DATABASE_DURABLE_H
#define OKV_SERVER_DATABASE_DURABLE_H

#include "server/core/log.h"
#include "server/wal/copies/mark.h"
#include "server/wal/file.h"
#include "server/wal/recovery/recover.h"
#include "server/wal/wal.h"

struct okv_durable {
    const char *data, *name; /* as for okv_durable_open() */
    struct okv_log *server_log;
    struct okv_directory directory;
    struct okv_wal *wal;
    struct okv_wal_mark mark; /* of a copy */
    bool is_marked;           /* the directory has it since an earlier start */
    struct okv_wal_found found;
    uint64_t found_ns; /* duration of the recovery */
};

/* Opens the log of database `name` below `data`, a directory that is created if it is not there,
 * and begins it with the snapshot `restore` unless that is NULL (okv_wal_open()). With a `cluster`,
 * "" for none, the directory is its copy from now on, and a log that was given up is removed. The
 * names are borrowed. OKV_EAGAIN: another server has it; OKV_ECONFLICT: it is a copy of another
 * cluster; OKV_EEXISTS, OKV_EIO, OKV_EPERM, OKV_ENOMEM, OKV_ECORRUPT, OKV_EVERSION. */
int okv_durable_open(const char *data, const char *name, const char *restore, const char *cluster,
                     struct okv_durable **out, struct okv_diag *diag);
/* Writes durable->mark. Fails like okv_wal_mark_write(). */
int okv_durable_write_mark(struct okv_durable *durable, struct okv_diag *why);
/* Before the log is started: has it report disk problems in the server's log, with a remedy. `log`
 * is borrowed. */
void okv_durable_report_to(struct okv_durable *durable, struct okv_log *log);
/* What to do when a start failed like this, to be appended to the sentence; or "". */
const char *okv_durable_remedy(int rc);
/* The least time of the server's clock after this start: it continues where the last one ended, and
 * adds the wall-clock time since, unless that was set back. */
uint64_t okv_durable_clock_ms(const struct okv_durable *durable);
/* Accepts NULL. */
void okv_durable_close(struct okv_durable *durable);

#endif
