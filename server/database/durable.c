#include "server/database/durable.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "server/wal/listing.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

static int cannot_use(const char *path, int rc, const struct okv_diag *why, struct okv_diag *diag)
{
    return okv_diag_set(diag, rc, "--data: %s cannot be used: %s", path, why->text);
}

static int open_directory(struct okv_directory *directory, const char *data, const char *name,
                          struct okv_diag *diag)
{
    char path[PATH_MAX];
    struct okv_diag why;

    if ((size_t)snprintf(path, sizeof path, "%s/%s", data, name) >= sizeof path)
        return okv_diag_set(diag, OKV_EADDRESS, "--data %s: the path is too long", data);
    int rc = okv_directory_make(data, &why);
    if (rc)
        return cannot_use(data, rc, &why, diag);
    rc = okv_directory_open(directory, path, &why);
    if (rc == OKV_EAGAIN)
        return okv_diag_set(diag, OKV_EAGAIN,
                            "--data %s: another server has it: stop that one, or name another "
                            "directory",
                            data);
    return rc ? cannot_use(path, rc, &why, diag) : 0;
}

const char *okv_durable_remedy(int rc)
{
    switch (rc) {
    case OKV_ECORRUPT:
        return ": nothing was changed; restore it from a copy, or see what okv-server --check and "
               "--salvage say";
    case OKV_EVERSION:
        return ": nothing was changed; start that okv-server, and move the items by okv export and "
               "okv import";
    default:
        return "";
    }
}

/* ---- copies ---- */

int okv_durable_write_mark(struct okv_durable *durable, struct okv_diag *why)
{
    return okv_wal_mark_write(&durable->directory.files, &durable->mark, why);
}

/* OKV_ECONFLICT: the directory is for another server. */
static int check_cluster(const struct okv_durable *durable, const char *cluster,
                         struct okv_diag *why)
{
    if (!durable->is_marked || strcmp(durable->mark.cluster, cluster) == 0)
        return 0;
    return okv_diag_set(why, OKV_ECONFLICT,
                        "it has a copy of cluster %s: start with --cluster %s, or name another "
                        "directory",
                        durable->mark.cluster, durable->mark.cluster);
}

static int remove_rest(struct okv_files *files, struct okv_diag *why)
{
    int rc = okv_wal_remove_before(files, UINT64_MAX, false, why);

    return rc ? rc : files->ops->sync_names(files, why);
}

/* The mark is there before anything that only a cluster may read. */
static int mark_as_copy(struct okv_durable *durable, const char *cluster, struct okv_diag *why)
{
    struct okv_files *files = &durable->directory.files;

    if (durable->is_marked && durable->mark.is_whole)
        return 0;
    int rc = durable->is_marked ? remove_rest(files, why) : 0;
    uint64_t epoch = durable->is_marked ? durable->mark.epoch : 0;
    durable->is_marked = false;
    durable->mark = (struct okv_wal_mark){.epoch = epoch, .is_whole = true};
    snprintf(durable->mark.cluster, sizeof durable->mark.cluster, "%s", cluster);
    if (rc == 0 && getrandom(&durable->mark.incarnation, sizeof durable->mark.incarnation, 0) < 0)
        rc = okv_diag_set(why, OKV_EIO, "no random bytes from the system");
    durable->mark.incarnation >>= 1; /* they count upwards */
    return rc ? rc : okv_durable_write_mark(durable, why);
}

static int read_mark(struct okv_durable *durable, const char *cluster, struct okv_diag *why)
{
    int rc = okv_wal_mark_read(&durable->directory.files, &durable->mark, why);

    durable->is_marked = rc == 0;
    if (rc == 0)
        rc = check_cluster(durable, cluster, why);
    if (rc == OKV_ENOTFOUND)
        rc = 0;
    return rc == 0 && cluster[0] ? mark_as_copy(durable, cluster, why) : rc;
}

int okv_durable_open(const char *data, const char *name, const char *restore, const char *cluster,
                     struct okv_durable **out, struct okv_diag *diag)
{
    struct okv_durable *durable = calloc(1, sizeof *durable);
    struct okv_diag why = {.text = ""};

    if (!durable)
        return okv_diag_set(diag, OKV_ENOMEM, "no memory for a log");
    durable->data = data;
    durable->name = name;
    int rc = open_directory(&durable->directory, data, name, diag);
    if (rc)
        goto free_durable;
    rc = read_mark(durable, cluster, &why);
    if (rc == 0)
        rc = okv_wal_open(&durable->wal, &durable->directory.files, restore, &why);
    if (rc) {
        okv_diag_set(diag, rc, "%s/%s: %s%s", data, name, why.text, okv_durable_remedy(rc));
        goto close_directory;
    }
    *out = durable;
    return 0;
close_directory:
    okv_directory_close(&durable->directory);
free_durable:
    free(durable);
    return rc;
}

/* The remedy comes before what may be long. */
static void report(void *user, enum okv_wal_event event, const char *why)
{
    const struct okv_durable *durable = user;
    struct okv_log *log = durable->server_log;
    struct okv_wal_stats stats;

    switch (event) {
    case OKV_WAL_FAILED:
        okv_log_say(log, OKV_LOG_ERROR, "database",
                    "database %s: its log failed: %s: writes are refused, gets go on; see the "
                    "kernel's log, repair the disk, start again",
                    durable->name, why);
        break;
    case OKV_WAL_DISK_FULL:
        okv_wal_get_stats(durable->wal, &stats);
        okv_log_say(log, OKV_LOG_ERROR, "database",
                    "database %s: the disk is full: writes are refused, gets go on; %u MiB are "
                    "wanted: make room in %s",
                    durable->name, stats.wanted_mib, durable->data);
        break;
    case OKV_WAL_DISK_HAS_ROOM:
        okv_log_say(log, OKV_LOG_NOTICE, "database",
                    "database %s: the disk has room: writes are taken again", durable->name);
        break;
    case OKV_WAL_SNAPSHOT_FAILED:
        okv_log_say(log, OKV_LOG_WARNING, "database",
                    "database %s: a snapshot failed (%s): the log goes on and grows; see that "
                    "there is room in %s",
                    durable->name, why, durable->data);
        break;
    }
}

void okv_durable_report_to(struct okv_durable *durable, struct okv_log *log)
{
    durable->server_log = log;
    okv_wal_set_report(durable->wal, report, durable);
}

uint64_t okv_durable_clock_ms(const struct okv_durable *durable)
{
    const struct okv_wal_found *found = &durable->found;
    uint64_t now_ms = okv_clock_wall_ms();
    uint64_t passed = now_ms > found->wall_ms ? now_ms - found->wall_ms : 0;

    return found->wall_ms ? found->clock_ms + passed : 0;
}

void okv_durable_close(struct okv_durable *durable)
{
    if (!durable)
        return;
    okv_wal_close(durable->wal);
    okv_directory_close(&durable->directory);
    free(durable);
}
