/*
 * LMDB in this process: the cost of a store without a server. submit() executes every operation in
 * a transaction of its own. Like okv's it is not durable, but every later get sees it.
 *
 * Settings that favour LMDB: no flush to disk (MDB_NOSYNC), writes into the map (MDB_WRITEMAP,
 * MDB_NOMEMINIT), renewed read transactions (get_many uses one per batch), no read-ahead. In
 * /dev/shm there is no disk at all. lmdb+sync:// is durable instead, beside a durable okv, and
 * lmdb+batch:// as well, with one transaction for the changes of each submit().
 */
#include <errno.h>
#include <limits.h>
#include <lmdb.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "bench/targets/capability.h"
#include "bench/targets/target.h"

#define SCHEME "lmdb://"
#define SCHEME_SYNC "lmdb+sync://" /* with LMDB's own settings: each commit is synced */
#define SCHEME_BATCH "lmdb+batch://"
#define READERS_MAX 1024
/* Sizes of the map. Pages are allocated when they are written, but a full file system then raises
 * SIGBUS instead of an error. */
#define MAP_SHARE_OF_FREE 0.75
#define MAP_BYTES_MAX (UINT64_C(64) << 30)

/* An environment that one or more targets have open. */
struct environment {
    struct environment *next;
    char *directory; /* as realpath() has it */
    unsigned users;
    MDB_env *env;
    MDB_dbi table;
};

/* A process must not open an LMDB file twice: the first close would drop all locks. So the targets
 * of all threads share their environments, in the only global state of kv-bench. */
static pthread_mutex_t environments_lock = PTHREAD_MUTEX_INITIALIZER;
static struct environment *environments;

struct lmdb_target {
    struct target target;
    struct environment *environment;
    MDB_txn *reader; /* reset between gets */
    MDB_txn *writer; /* of the batch that submit() makes; NULL: there is none */
    bool is_batched;
    uint32_t batch; /* operations since it began */
    struct okv_result *results;
    uint32_t depth;
    uint32_t count; /* results to poll, */
    uint32_t first; /* in a ring from here on */
    char version[32];
    char why[320];
};

/* ---- environments ---------------------------------------------------------- */

static int code_of(int rc)
{
    switch (rc) {
    case 0:
        return OKV_OK;
    case MDB_NOTFOUND:
        return OKV_ENOTFOUND;
    case MDB_KEYEXIST:
        return OKV_EEXISTS;
    case MDB_MAP_FULL:
    case ENOSPC:
        return OKV_EFULL;
    case ENOMEM:
        return OKV_ENOMEM;
    case EACCES:
    case EPERM:
        return OKV_EPERM;
    case MDB_VERSION_MISMATCH:
    case MDB_INVALID:
        return OKV_EVERSION;
    default:
        return OKV_EIO;
    }
}

/* The largest possible map, or 0. */
static size_t map_bytes(const char *directory)
{
    struct statvfs room;

    if (statvfs(directory, &room) != 0)
        return 0;
    double bytes = MAP_SHARE_OF_FREE * (double)room.f_bavail * (double)room.f_frsize;
    uint64_t whole = bytes < (double)MAP_BYTES_MAX ? (uint64_t)bytes : MAP_BYTES_MAX;
    return (size_t)(whole & ~UINT64_C(0xfffff));
}

/* Opens the table of an environment. Returns a code of LMDB or errno. */
static int table_open(struct environment *environment)
{
    MDB_txn *txn = NULL;

    int rc = mdb_txn_begin(environment->env, NULL, 0, &txn);
    if (rc != 0)
        return rc;
    rc = mdb_dbi_open(txn, NULL, 0, &environment->table);
    if (rc != 0) {
        mdb_txn_abort(txn);
        return rc;
    }
    return mdb_txn_commit(txn);
}

/* Returns a code of LMDB or errno. */
static int environment_create(const char *directory, bool is_synced, struct environment **out)
{
    unsigned flags = MDB_NOTLS | MDB_NOMEMINIT | MDB_NORDAHEAD;
    struct environment *environment = calloc(1, sizeof *environment);
    int rc = ENOMEM;

    if (!is_synced)
        flags |= MDB_NOSYNC | MDB_WRITEMAP;
    if (!environment)
        return rc;
    environment->directory = strdup(directory);
    if (!environment->directory)
        goto free_environment;
    rc = mdb_env_create(&environment->env);
    if (rc != 0)
        goto free_directory;
    rc = mdb_env_set_mapsize(environment->env, map_bytes(directory));
    if (rc == 0)
        rc = mdb_env_set_maxreaders(environment->env, READERS_MAX);
    if (rc == 0)
        rc = mdb_env_open(environment->env, directory, flags, 0600);
    if (rc == 0)
        rc = table_open(environment);
    if (rc == 0) {
        *out = environment;
        return 0;
    }
    mdb_env_close(environment->env);
free_directory:
    free(environment->directory);
free_environment:
    free(environment);
    return rc;
}

/* The environment of an existing directory; its first user opens it. */
static int environment_take(const char *directory, bool is_synced, struct environment **out)
{
    struct environment *at;
    int rc = 0;

    pthread_mutex_lock(&environments_lock);
    for (at = environments; at; at = at->next)
        if (strcmp(at->directory, directory) == 0)
            break;
    if (!at) {
        rc = environment_create(directory, is_synced, &at);
        if (rc == 0) {
            at->next = environments;
            environments = at;
        }
    }
    if (rc == 0) {
        at->users++;
        *out = at;
    }
    pthread_mutex_unlock(&environments_lock);
    return rc;
}

static void environment_release(struct environment *environment)
{
    struct environment **at = &environments;

    pthread_mutex_lock(&environments_lock);
    if (--environment->users == 0) {
        while (*at != environment)
            at = &(*at)->next;
        *at = environment->next;
        mdb_env_close(environment->env);
        free(environment->directory);
        free(environment);
    }
    pthread_mutex_unlock(&environments_lock);
}

/* ---- operations ------------------------------------------------------------ */

static int note(struct lmdb_target *target, int rc)
{
    int code = code_of(rc);

    if (code != OKV_OK && code != OKV_ENOTFOUND && code != OKV_EEXISTS)
        snprintf(target->why, sizeof target->why, "LMDB: %s", mdb_strerror(rc));
    return code;
}

/* A get or head within a read transaction. Returns its status. */
static int look_up(struct lmdb_target *target, const struct okv_command *command,
                   struct okv_result *result)
{
    MDB_val key = {command->key_length, (void *)(uintptr_t)command->key};
    MDB_val value;

    int rc = mdb_get(target->reader, target->environment->table, &key, &value);
    if (rc != 0)
        return note(target, rc);
    result->length = value.mv_size;
    if (command->kind == OKV_HEAD)
        return OKV_OK;
    if (value.mv_size > command->buffer_size)
        return OKV_ETOOSMALL;
    if (value.mv_size > 0)
        memcpy(command->buffer, value.mv_data, value.mv_size);
    return OKV_OK;
}

static int get(struct lmdb_target *target, const struct okv_command *command,
               struct okv_result *result)
{
    int rc = mdb_txn_renew(target->reader);

    if (rc != 0)
        return note(target, rc);
    int status = look_up(target, command, result);
    mdb_txn_reset(target->reader);
    return status;
}

static bool has_flags_beyond(const struct okv_command *command, uint32_t known)
{
    return (command->flags & ~known) != 0;
}

/* ---- batches --------------------------------------------------------------- */

/* All of a batch fails together. */
static void fail_batch(struct lmdb_target *target, int status)
{
    for (uint32_t i = target->count - target->batch; i < target->count; i++)
        target->results[(target->first + i) % target->depth].status = status;
}

static void commit_batch(struct lmdb_target *target)
{
    if (!target->writer)
        return;
    int rc = mdb_txn_commit(target->writer);
    target->writer = NULL;
    if (rc != 0)
        fail_batch(target, note(target, rc));
}

static int begin_change(struct lmdb_target *target, MDB_txn **out)
{
    *out = target->writer;
    if (target->writer)
        return 0;
    int rc = mdb_txn_begin(target->environment->env, NULL, 0, out);
    if (rc == 0 && target->is_batched) {
        target->writer = *out;
        target->batch = 1; /* the one that comes is among the results already */
    }
    return rc;
}

/* Ends the transaction of a change, unless a batch is open. */
static int end_change(struct lmdb_target *target, MDB_txn *txn, int rc)
{
    bool is_over = rc != 0 && rc != MDB_KEYEXIST && rc != MDB_NOTFOUND;

    if (target->writer && !is_over)
        return note(target, rc);
    target->writer = NULL;
    if (rc == 0)
        return note(target, mdb_txn_commit(txn));
    mdb_txn_abort(txn);
    if (target->is_batched)
        fail_batch(target, note(target, rc));
    return note(target, rc);
}

/* A put or delete. Returns its status. */
static int change(struct lmdb_target *target, const struct okv_command *command)
{
    bool is_put = command->kind == OKV_PUT;
    unsigned flags = command->flags & OKV_IF_ABSENT ? MDB_NOOVERWRITE : 0;
    MDB_val key = {command->key_length, (void *)(uintptr_t)command->key};
    MDB_val value = {command->value_length, (void *)(uintptr_t)command->value};
    MDB_dbi table = target->environment->table;
    MDB_txn *txn = NULL;

    if (has_flags_beyond(command, is_put ? OKV_IF_ABSENT : 0))
        return OKV_EUNSUPPORTED;
    int rc = begin_change(target, &txn);
    if (rc != 0)
        return note(target, rc);
    rc = is_put ? mdb_put(txn, table, &key, &value, flags) : mdb_del(txn, table, &key, NULL);
    return end_change(target, txn, rc);
}

static int perform(struct lmdb_target *target, const struct okv_command *command,
                   struct okv_result *result)
{
    if (command->key_length > (size_t)mdb_env_get_maxkeysize(target->environment->env))
        return OKV_EUNSUPPORTED;
    switch (command->kind) {
    case OKV_GET:
    case OKV_HEAD:
        commit_batch(target);
        return get(target, command, result);
    case OKV_PUT:
    case OKV_DELETE:
        return change(target, command);
    default:
        return OKV_EUNSUPPORTED; /* there is no server to ping, and no version to compare */
    }
}

static int check_command(const struct okv_command *command)
{
    int rc = capability_check(command);

    if (rc != OKV_OK)
        return rc;
    return command->value_length <= INT32_MAX ? OKV_OK : OKV_EVALUESIZE;
}

static int lmdb_submit(struct target *base, const struct okv_command *commands, size_t count,
                       size_t *accepted)
{
    struct lmdb_target *target = (struct lmdb_target *)base;
    size_t taken = 0;
    int rc = OKV_OK;

    while (taken < count) {
        const struct okv_command *command = &commands[taken];
        rc = target->count < target->depth ? check_command(command) : OKV_EAGAIN;
        if (rc != OKV_OK)
            break;
        struct okv_result *result =
            &target->results[(target->first + target->count++) % target->depth];
        *result = (struct okv_result){.tag = command->tag};
        target->batch++;
        result->status = perform(target, command, result);
        if (result->status == OKV_EUNSUPPORTED)
            capability_decline("LMDB", command, target->why, sizeof target->why);
        taken++;
    }
    commit_batch(target);
    if (accepted)
        *accepted = taken;
    return rc;
}

static int lmdb_poll(struct target *base, struct okv_result *results, int max)
{
    struct lmdb_target *target = (struct lmdb_target *)base;
    int count = 0;

    while (count < max && target->count > 0) {
        results[count++] = target->results[target->first];
        target->first = (target->first + 1) % target->depth;
        target->count--;
    }
    return count;
}

/* submit() has completed everything. */
static int lmdb_wait(struct target *base, int timeout_ms)
{
    struct lmdb_target *target = (struct lmdb_target *)base;
    struct timespec pause = {.tv_sec = timeout_ms / 1000,
                             .tv_nsec = (long)(timeout_ms % 1000) * 1000000};

    if (target->count > 0)
        return OKV_OK;
    nanosleep(&pause, NULL);
    return OKV_ETIMEDOUT;
}

static int lmdb_get_many(struct target *base, const struct okv_command *commands,
                         struct okv_result *results, size_t count)
{
    struct lmdb_target *target = (struct lmdb_target *)base;

    if (target->count > 0)
        return OKV_EAGAIN;
    for (size_t i = 0; i < count; i++)
        if ((commands[i].kind != OKV_GET && commands[i].kind != OKV_HEAD) ||
            check_command(&commands[i]) != OKV_OK)
            return OKV_EINVAL;
    int rc = mdb_txn_renew(target->reader);
    if (rc != 0)
        return note(target, rc);
    for (size_t i = 0; i < count; i++) {
        results[i] = (struct okv_result){.tag = commands[i].tag};
        results[i].status = look_up(target, &commands[i], &results[i]);
    }
    mdb_txn_reset(target->reader);
    return OKV_OK;
}

/* ---- the target ------------------------------------------------------------ */

static const char *scheme_of(const char *uri)
{
    static const char *const schemes[] = {SCHEME, SCHEME_SYNC, SCHEME_BATCH};

    for (unsigned i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (strncmp(uri, schemes[i], strlen(schemes[i])) == 0)
            return schemes[i];
    return NULL;
}

/* Creates the directory if necessary. Returns its realpath(). */
static int find_directory(const char *uri, char *directory, char *why, size_t why_size)
{
    const char *scheme = scheme_of(uri);
    const char *path = scheme ? uri + strlen(scheme) : "";

    if (path[0] != '/') {
        snprintf(why, why_size,
                 "\"%.200s\" names no directory: give lmdb:///DIRECTORY, lmdb+sync:///DIRECTORY or "
                 "lmdb+batch:///DIRECTORY",
                 uri);
        return OKV_EURI;
    }
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        snprintf(why, why_size, "%s: %s: create the directory it is in, or choose another", path,
                 strerror(errno));
        return errno == EACCES ? OKV_EPERM : OKV_EADDRESS;
    }
    if (!realpath(path, directory)) {
        snprintf(why, why_size, "%s: %s", path, strerror(errno));
        return OKV_EADDRESS;
    }
    return OKV_OK;
}

/* The version of the library that is linked at run time. */
static void name_version(struct lmdb_target *target)
{
    int major = 0;
    int minor = 0;
    int patch = 0;

    mdb_version(&major, &minor, &patch);
    snprintf(target->version, sizeof target->version, "%d.%d.%d", major, minor, patch);
}

static int lmdb_open(const struct target_config *config, struct target **out, char *why,
                     size_t why_size)
{
    struct lmdb_target *target = NULL;
    char directory[PATH_MAX];

    int code = find_directory(config->uri, directory, why, why_size);
    if (code != OKV_OK)
        return code;
    int rc = ENOMEM;
    target = calloc(1, sizeof *target);
    if (!target)
        goto explain;
    target->target.ops = &target_lmdb_ops;
    target->depth = config->depth > 0 ? config->depth : 1;
    target->results = calloc(target->depth, sizeof *target->results);
    if (!target->results)
        goto free_target;
    const char *scheme = scheme_of(config->uri);
    target->is_batched = strcmp(scheme, SCHEME_BATCH) == 0;
    rc = environment_take(directory, strcmp(scheme, SCHEME) != 0, &target->environment);
    if (rc != 0)
        goto free_results;
    rc = mdb_txn_begin(target->environment->env, NULL, MDB_RDONLY, &target->reader);
    if (rc != 0)
        goto release_environment;
    mdb_txn_reset(target->reader);
    name_version(target);
    *out = &target->target;
    return OKV_OK;

release_environment:
    environment_release(target->environment);
free_results:
    free(target->results);
free_target:
    free(target);
explain:
    snprintf(why, why_size, "LMDB in %.200s: %s", directory, mdb_strerror(rc));
    return code_of(rc);
}

static void lmdb_close(struct target *base)
{
    struct lmdb_target *target = (struct lmdb_target *)base;

    mdb_txn_abort(target->reader);
    environment_release(target->environment);
    free(target->results);
    free(target);
}

static void lmdb_info(struct target *base, struct target_info *info)
{
    struct lmdb_target *target = (struct lmdb_target *)base;

    *info = (struct target_info){.kind = "lmdb",
                                 .transport = "process",
                                 .path = target->environment->directory,
                                 .version = target->version,
                                 .max_value = INT32_MAX};
}

static const char *lmdb_why(struct target *base)
{
    return ((struct lmdb_target *)base)->why;
}

/* There is no server: the CPU time is the client's own. */
static int lmdb_stat(struct target *base, struct target_stat *stat)
{
    struct lmdb_target *target = (struct lmdb_target *)base;
    MDB_stat table;

    *stat =
        (struct target_stat){.cpu_ms = NAN, .items = NAN, .user_bytes = NAN, .memory_bytes = NAN};
    int rc = mdb_env_stat(target->environment->env, &table);
    if (rc != 0)
        return note(target, rc);
    stat->items = (double)table.ms_entries;
    stat->memory_bytes =
        (double)table.ms_psize *
        (double)(table.ms_branch_pages + table.ms_leaf_pages + table.ms_overflow_pages);
    return OKV_OK;
}

const struct target_ops target_lmdb_ops = {.open = lmdb_open,
                                           .close = lmdb_close,
                                           .info = lmdb_info,
                                           .submit = lmdb_submit,
                                           .poll = lmdb_poll,
                                           .wait = lmdb_wait,
                                           .get_many = lmdb_get_many,
                                           .why = lmdb_why,
                                           .stat = lmdb_stat};
