#include "server/database/database.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "server/config/config.h"
#include "server/core/log.h"
#include "server/core/progress.h"
#include "server/core/server.h"
#include "server/database/durable.h"
#include "server/database/reply_cache_log.h"
#include "server/store/fullness.h"
#include "server/store/region.h"
#include "server/wal/copies/copies.h"
#include "server/wal/listing.h"
#include "server/wal/null_files.h"
#include "server/wal/snapshot/schedule.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/format/wire.h"

#define REPLY_CACHES_PER_CLIENT 4
/* Ids of sessions begin at the number of the start times this power of two. */
#define SESSIONS_BITS 20
/* Bytes of frames in memory for copies that are behind. */
#define FRAMES_KEPT (UINT64_C(32) << 20)

static int open_store(struct okv_database *database, bool wipe, uint64_t boot_id,
                      struct okv_diag *diag)
{
    const struct okv_database_config *config = database->config;
    uint64_t hash_seed;

    if (database->opened)
        hash_seed = okv_wal_hash_seed(database->opened);
    else if (getrandom(&hash_seed, sizeof hash_seed, 0) != sizeof hash_seed)
        return okv_diag_set(diag, OKV_EIO, "no random bytes from the system: %s", strerror(errno));
    const struct okv_store_params params = {
        .base = database->region.base,
        .length = database->region.length,
        .bucket_size = config->bucket_size,
        .inline_max = config->inline_max,
        .extra_reads = config->extra_reads,
        .index_percent = config->index_percent,
        .max_value = config->max_value,
        .full = config->full,
        .wipe = wipe,
        .boot_id = boot_id,
        .hash_seed = hash_seed,
    };
    int rc = okv_store_init(&database->store, &params);
    if (rc == OKV_EINVAL)
        return okv_diag_set(diag, rc,
                            "database %s: %llu bytes are too few for a table: give it more memory",
                            config->name, (unsigned long long)params.length);
    return rc ? okv_diag_set(diag, rc, "database %s: cannot make a table in %llu bytes: %s",
                             config->name, (unsigned long long)params.length, okv_error_text(rc))
              : 0;
}

struct reading {
    struct okv_progress progress;
    const struct okv_store *store;
};

static void show(void *user, uint64_t bytes)
{
    struct reading *reading = user;

    okv_progress_show(&reading->progress, bytes, atomic_load(&reading->store->totals.items),
                      okv_clock_ns());
}

static int recover(struct okv_database *database, struct reading *reading,
                   struct okv_wal_found *found, struct okv_diag *why)
{
    const struct okv_wal_clients clients = {okv_reply_caches_save, okv_reply_caches_recover,
                                            database->reply_caches};
    const struct okv_wal_recovery recovery = {&database->store, &clients, reading ? show : NULL,
                                              reading};

    return okv_wal_recover(database->opened, &recovery, found, why);
}

static int replay(struct okv_database *database, struct okv_diag *diag)
{
    struct okv_durable *durable = database->durable;
    struct reading reading = {.store = &database->store};
    struct okv_diag why = {.text = ""};
    struct okv_wal_found nothing;
    char what[OKV_NAME_SIZE + 16];
    uint64_t begun_ns = okv_clock_ns(), total = 0;

    if (!durable)
        return database->opened ? recover(database, NULL, &nothing, diag) : 0;
    snprintf(what, sizeof what, "database %s", database->config->name);
    int rc = okv_wal_list_bytes(&durable->directory.files, &total, &why);
    okv_progress_begin(&reading.progress, isatty(STDERR_FILENO) ? STDERR_FILENO : -1, what, total,
                       begun_ns);
    if (rc == 0)
        rc = recover(database, &reading, &durable->found, &why);
    okv_progress_end(&reading.progress);
    durable->found_ns = okv_clock_ns() - begun_ns;
    return rc ? okv_diag_set(diag, rc, "database %s: %s%s", database->config->name, why.text,
                             okv_durable_remedy(rc))
              : 0;
}

static void close_log(struct okv_database *database)
{
    if (database->opened && !database->durable)
        okv_wal_close(database->opened);
    okv_durable_close(database->durable);
}

/* With --data in its directory. In a cluster, batches in memory need a log, too. */
static int open_log(struct okv_database *database, const struct okv_config *config,
                    struct okv_diag *diag)
{
    bool has_copies = config->cluster.name[0];
    int rc = 0;

    if (config->data)
        rc = okv_durable_open(config->data, database->config->name, config->restore,
                              config->cluster.name, &database->durable, diag);
    else if (has_copies)
        rc = okv_wal_open(&database->opened, okv_null_files(), NULL, diag);
    if (rc)
        return rc;
    if (database->durable)
        database->opened = database->durable->wal;
    if (has_copies)
        rc = okv_wal_copies_create(database->opened, FRAMES_KEPT);
    if (rc)
        close_log(database);
    return rc;
}

int okv_database_init(struct okv_database *database, const struct okv_config *config,
                      unsigned index, uint64_t boot_id, struct okv_diag *diag)
{
    database->config = &config->databases[index];
    database->id = okv_database_id(database->config->name);
    struct okv_diag why = {.text = ""};
    int rc = open_log(database, config, diag);

    if (rc)
        return rc;
    rc = okv_region_create(database->config->memory, config->pages, config->prefault,
                           &database->region, &why);
    if (rc) {
        okv_diag_set(diag, rc, "database %s: %s", database->config->name, why.text);
        goto close_log;
    }
    rc = open_store(database, config->wipe, boot_id, diag);
    if (rc)
        goto destroy_region;
    rc =
        okv_reply_caches_init(database->reply_caches, config->max_clients * REPLY_CACHES_PER_CLIENT,
                              config->remember_s * UINT64_C(1000), boot_id);
    if (rc)
        goto fini_store;
    database->reply_caches->is_durable = database->opened != NULL;
    if (database->config->full != OKV_STORE_REFUSE)
        rc = okv_allowance_init(&database->allowance, config->max_clients + 1);
    if (rc)
        goto fini_reply_caches;
    rc = replay(database, diag);
    if (rc)
        goto fini_allowance;
    return 0;
fini_allowance:
    okv_allowance_fini(&database->allowance);
fini_reply_caches:
    okv_reply_caches_abandon(database->reply_caches);
    okv_reply_caches_fini(database->reply_caches);
fini_store:
    okv_store_fini(&database->store);
destroy_region:
    okv_region_destroy(&database->region);
close_log:
    close_log(database);
    return rc;
}

/* The log numbers a segment for each start, so ids of sessions go on where no earlier ones were. */
static uint64_t session_base(const struct okv_database *database)
{
    uint64_t number = okv_wal_segment_number(database->opened) + 1;
    uint64_t by_number = number < (UINT64_C(1) << 27) ? number << SESSIONS_BITS : 0;

    return okv_reply_caches_next_session(database->reply_caches, by_number);
}

static int start_log(struct okv_database *database, double snapshot_ratio,
                     void (*notify)(void *user), void *user, struct okv_diag *diag)
{
    struct okv_diag why = {.text = ""};
    const struct okv_wal_params params = {
        .snapshot_ratio = okv_wal_has_files(database->opened) ? snapshot_ratio : 0,
        .sync_within_ns = database->config->sync_within_ns,
        .notify = notify,
        .user = user,
    };
    int rc = okv_wal_start(database->opened, &params, &why);
    if (rc)
        return okv_diag_set(diag, rc, "database %s: %s", database->config->name,
                            why.text[0] ? why.text : okv_error_text(rc));
    database->wal = database->opened;
    return 0;
}

int okv_database_start(struct okv_database *database, double snapshot_ratio,
                       void (*notify)(void *user), void *user, struct okv_diag *diag)
{
    if (!database->opened)
        return 0;
    uint64_t clock_ms = atomic_load(&database->store.clock_ms);
    uint64_t base = session_base(database);
    atomic_store(&database->session_base, base);
    okv_reply_caches_adopt(database->reply_caches, base, clock_ms);
    return start_log(database, snapshot_ratio, notify, user, diag);
}

bool okv_database_is_led(const struct okv_database *database)
{
    return atomic_load(&database->store.valid_until_us) != 0;
}

void okv_database_get_identity(const struct okv_database *database, struct okv_wal_identity *out)
{
    okv_wal_get_identity(database->opened, out);
}

int okv_database_join(struct okv_database *database, const struct okv_wal_identity *identity,
                      const struct okv_wal_copies_params *copies, double snapshot_ratio,
                      void (*notify)(void *user), void *user, struct okv_diag *diag)
{
    int rc = okv_wal_set_identity(database->opened, identity);

    if (rc)
        return okv_diag_set(diag, rc, "database %s is of another cluster, or of none",
                            database->config->name);
    okv_store_set_hash_seed(&database->store, identity->hash_seed);
    okv_reply_caches_follow(database->reply_caches);
    okv_wal_copies_begin(database->opened, copies);
    return start_log(database, snapshot_ratio, notify, user, diag);
}

void okv_databases_set_clock(struct okv_server *server, uint64_t clock_ms)
{
    uint64_t origin_ms = okv_clock_boot_ms() - clock_ms;

    if (atomic_load(&server->clock_origin_ms) != 0 && okv_server_clock_ms(server) >= clock_ms)
        return;
    atomic_store(&server->clock_origin_ms, origin_ms);
    for (unsigned i = 0; i < server->database_count; i++) {
        atomic_store(&server->databases[i].store.clock_origin_ms, origin_ms);
        okv_store_set_clock(&server->databases[i].store, clock_ms, true);
    }
}

static void report_fullness(void *user, bool is_full)
{
    const struct okv_database *database = user;
    char text[OKV_LOG_TEXT_MAX];

    if (is_full)
        snprintf(text, sizeof text,
                 "database %s is full: writes that find no room are refused, gets go on; %s",
                 database->config->name, okv_store_fullness_advice(&database->store));
    else
        snprintf(text, sizeof text, "database %s has room: writes are taken again",
                 database->config->name);
    okv_log_line(database->log, is_full ? OKV_LOG_WARNING : OKV_LOG_NOTICE, "database",
                 okv_clock_ns(), text);
}

void okv_database_report_to(struct okv_database *database, struct okv_log *log)
{
    database->log = log;
    okv_store_report_fullness(&database->store, report_fullness, database);
    if (database->durable)
        okv_durable_report_to(database->durable, log);
}

int okv_database_snapshot(const struct okv_database *database, uint64_t *number)
{
    struct okv_wal *wal = database->wal;

    if (!database->durable || !wal)
        return OKV_EUNSUPPORTED;
    *number = okv_wal_snapshot_request(wal);
    return 0;
}

int okv_database_snapshot_path(const struct okv_database *database, const char *data,
                               uint64_t number, char *out, uint32_t size, uint32_t *used)
{
    char name[OKV_WAL_NAME_SIZE];
    uint64_t newest;

    if (!database->durable || !database->wal)
        return OKV_EUNSUPPORTED;
    int rc = number ? okv_wal_snapshot_state(database->wal, number, &newest) : OKV_EINVAL;
    if (rc)
        return rc;
    okv_wal_name(OKV_WAL_SNAPSHOT, newest, name);
    int length = snprintf(out, size, "%s/%s/%s", data, database->config->name, name);
    if (length < 0 || (uint32_t)length >= size)
        return OKV_EUNSUPPORTED;
    *used = (uint32_t)length;
    return 0;
}

void okv_database_stop(struct okv_database *database)
{
    if (database->wal)
        okv_wal_stop(database->wal);
}

void okv_database_fini(struct okv_database *database)
{
    okv_reply_caches_abandon(database->reply_caches);
    okv_reply_caches_fini(database->reply_caches);
    okv_allowance_fini(&database->allowance);
    okv_store_fini(&database->store);
    okv_region_destroy(&database->region);
    close_log(database);
}
