#include "server/main/offline.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "server/core/takeover.h"
#include "server/wal/offline/salvage.h"
#include "shared/base/error.h"

struct offline {
    const struct okv_config *config;
    const char *name; /* of the database */
    bool is_whole;    /* nothing was damaged so far */
    int rc;           /* the first failure */
    struct okv_log log;
    struct okv_takeover takeover; /* of all directories together */
};

/* ---- what is printed ---- */

static void fail(struct offline *offline, int rc, const char *path, const char *why)
{
    if (!offline->rc)
        offline->rc = rc;
    fflush(stdout); /* keeps the order where both are one file */
    fprintf(stderr, "okv-server: %s: %s\n", path, why);
}

static void print_damage(void *user, const char *name, uint64_t from, uint64_t to, const char *text)
{
    struct offline *offline = user;

    (void)name; /* the text has it */
    offline->is_whole = false;
    printf("%s: %s", offline->name, text);
    if (to > from)
        printf(": bytes %" PRIu64 " to %" PRIu64 " are lost", from, to - 1);
    printf("\n");
}

static void print_end(const struct okv_wal_survey *survey)
{
    time_t seconds = (time_t)(survey->wall_ms / 1000);
    char text[sizeof "-2147483648-01-01T00:00:00Z"];
    struct tm tm;

    printf("; ends at position %" PRIu64, survey->position);
    if (survey->wall_ms && gmtime_r(&seconds, &tm) &&
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm))
        printf(", written %s", text);
    if (survey->cut)
        printf("; a start leaves out %" PRIu64 " bytes at the end, of a batch that is not whole",
               survey->cut);
    printf("\n");
}

static void print_survey(const struct offline *offline, const struct okv_wal_survey *survey)
{
    if (survey->damages)
        printf("%s: damaged in %" PRIu64 " places; whole are ", offline->name, survey->damages);
    else
        printf("%s: whole: ", offline->name);
    if (survey->snapshot)
        printf("%" PRIu64 " items in " OKV_WAL_SNAPSHOT "%016" PRIx64 " and ", survey->items,
               survey->snapshot);
    printf("%" PRIu64 " records in %" PRIu64 " batches in %" PRIu64 " segments; %" PRIu64 " bytes",
           survey->records, survey->frames, survey->segments, survey->bytes);
    print_end(survey);
}

static void print_salvaged(const struct offline *offline, const struct okv_wal_survey *survey,
                           const struct okv_wal_salvaged *salvaged)
{
    printf("%s: brought out ", offline->name);
    if (survey->snapshot)
        printf("%" PRIu64 " items of a snapshot and ", survey->items);
    printf("%" PRIu64 " records of %" PRIu64 " batches", survey->records, survey->frames);
    if (survey->is_ended && survey->expected > survey->items)
        printf("; %" PRIu64 " items of the snapshot are lost", survey->expected - survey->items);
    else if (survey->snapshot && !survey->is_ended)
        printf("; the snapshot's end is lost, and with it how many items it had");
    if (salvaged->buckets)
        printf("; %" PRIu64 " of its buckets are lost", salvaged->buckets);
    print_end(survey);
}

/* ---- one database ---- */

static int open_source(struct offline *offline, struct okv_directory *directory, const char *path)
{
    struct okv_diag why;
    int rc;

    do
        rc = okv_directory_open_shared(directory, path, &why);
    while (rc == OKV_EAGAIN && okv_takeover_wait(&offline->takeover, path));
    if (rc == OKV_EAGAIN)
        fail(offline, OKV_EAGAIN, path,
             "a server has it: stop that one, or copy the directory of a stopped one");
    else if (rc)
        fail(offline, rc, path, why.text);
    return rc;
}

static void check(struct offline *offline, const char *path)
{
    const struct okv_wal_damage_report report = {print_damage, offline};
    struct okv_directory directory;
    struct okv_wal_survey survey;
    struct okv_diag why = {.text = ""};

    if (open_source(offline, &directory, path))
        return;
    int rc = okv_wal_verify(&directory.files, &report, NULL, NULL, &survey, &why);
    if (rc)
        fail(offline, rc, path, why.text[0] ? why.text : okv_error_text(rc));
    else
        print_survey(offline, &survey);
    okv_directory_close(&directory);
}

static void salvage(struct offline *offline, const char *path)
{
    const struct okv_wal_damage_report report = {print_damage, offline};
    struct okv_directory from, to;
    struct okv_wal_survey survey;
    struct okv_wal_salvaged salvaged;
    struct okv_diag why = {.text = ""};
    char target[PATH_MAX];

    if ((size_t)snprintf(target, sizeof target, "%s/%s", offline->config->to, offline->name) >=
        sizeof target) {
        fail(offline, OKV_EADDRESS, offline->config->to, "the path is too long");
        return;
    }
    if (open_source(offline, &from, path))
        return;
    int rc = okv_directory_open(&to, target, &why);
    if (rc) {
        fail(offline, rc, target, why.text);
        goto close_from;
    }
    rc = okv_wal_salvage(&from.files, &to.files, offline->config->table.bucket_size, &report,
                         &survey, &salvaged, &why);
    if (rc)
        fail(offline, rc, path, why.text[0] ? why.text : okv_error_text(rc));
    else
        print_salvaged(offline, &survey, &salvaged);
    okv_directory_close(&to);
close_from:
    okv_directory_close(&from);
}

/* ---- the databases of a directory ---- */

/* A database may be called so as well, and is a directory. */
static bool is_log_file(int directory, const char *name)
{
    struct stat status;

    if (strcmp(name, "lock") != 0 && strncmp(name, OKV_WAL_SEGMENT, strlen(OKV_WAL_SEGMENT)) != 0 &&
        strncmp(name, OKV_WAL_SNAPSHOT, strlen(OKV_WAL_SNAPSHOT)) != 0)
        return false;
    return fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode);
}

static bool is_database(const char *path)
{
    DIR *names = opendir(path);
    const struct dirent *entry = NULL;

    if (!names)
        return false;
    while ((entry = readdir(names)) && !is_log_file(dirfd(names), entry->d_name))
        continue;
    closedir(names);
    return entry != NULL;
}

static void look_at(struct offline *offline, const char *path, const char *name)
{
    offline->name = name;
    if (offline->config->check)
        check(offline, path);
    else
        salvage(offline, path);
    fflush(stdout);
}

/* `path` is that of one database. Its name is the last part, also when that was not written. */
static void look_at_one(struct offline *offline, const char *path)
{
    char *real = realpath(path, NULL);
    const char *slash = real ? strrchr(real, '/') : NULL;

    if (slash)
        look_at(offline, path, slash + 1);
    else
        fail(offline, OKV_EIO, path, strerror(errno));
    free(real);
}

static void look_at_all(struct offline *offline, const char *data)
{
    struct dirent **entries;
    char path[PATH_MAX];
    unsigned found = 0;
    int count = scandir(data, &entries, NULL, alphasort);

    if (count < 0) {
        fail(offline, okv_error_from_errno(errno), data, strerror(errno));
        return;
    }
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
            (size_t)snprintf(path, sizeof path, "%s/%s", data, name) < sizeof path &&
            is_database(path)) {
            look_at(offline, path, name);
            found++;
        }
        free(entries[i]);
    }
    free(entries);
    if (found == 0)
        fail(offline, OKV_ENOTFOUND, data, "there is no database in it: name what --data names");
}

/* Creates the directory, or takes one that is empty. */
static int make_target(struct offline *offline, const char *path)
{
    struct dirent **entries;

    if (mkdir(path, 0700) == 0)
        return 0;
    int count = errno == EEXIST ? scandir(path, &entries, NULL, NULL) : -1;
    if (count < 0) {
        fail(offline, okv_error_from_errno(errno), path, strerror(errno));
        return -1;
    }
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
    if (count <= 2) /* . and .. */
        return 0;
    fail(offline, OKV_EEXISTS, path, "it is not empty: name a directory that is not there");
    return -1;
}

int okv_offline_run(const struct okv_config *config, bool *is_whole)
{
    const char *path = config->check ? config->check : config->salvage;
    struct offline offline = {.config = config, .is_whole = true};

    okv_log_init(&offline.log, STDERR_FILENO, config->log_format);
    offline.takeover = (struct okv_takeover){&offline.log, "database", 0};
    if (config->check || make_target(&offline, config->to) == 0) {
        if (is_database(path))
            look_at_one(&offline, path);
        else
            look_at_all(&offline, path);
    }
    okv_log_fini(&offline.log);
    *is_whole = offline.is_whole;
    return offline.rc;
}
