#include "server/wal/listing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/error.h"

void okv_wal_name(const char *prefix, uint64_t number, char name[OKV_WAL_NAME_SIZE])
{
    snprintf(name, OKV_WAL_NAME_SIZE, "%s%016" PRIx64, prefix, number);
}

uint64_t okv_wal_number(const char *prefix, const char *name)
{
    char canonical[OKV_WAL_NAME_SIZE];

    if (strncmp(name, prefix, strlen(prefix)) != 0)
        return 0;
    uint64_t number = strtoull(name + strlen(prefix), NULL, 16);
    okv_wal_name(prefix, number, canonical);
    return strcmp(name, canonical) == 0 ? number : 0;
}

static int note_snapshot(const char *name, void *user)
{
    struct okv_wal_listing *listing = user;
    uint64_t number = okv_wal_number(OKV_WAL_SNAPSHOT, name);

    if (number > listing->snapshot)
        listing->snapshot = number;
    return 0;
}

static int note_segment(const char *name, void *user)
{
    struct okv_wal_listing *listing = user;
    uint64_t number = okv_wal_number(OKV_WAL_SEGMENT, name);

    if (number == 0 || number < listing->snapshot)
        return 0;
    listing->count++;
    if (listing->first == 0 || number < listing->first)
        listing->first = number;
    if (number > listing->last)
        listing->last = number;
    return 0;
}

/* A server makes the segment before the snapshot that it goes on from. */
static bool is_complete(const struct okv_wal_listing *listing)
{
    if (listing->count == 0)
        return listing->snapshot == 0;
    return listing->last - listing->first + 1 == listing->count &&
           listing->first == (listing->snapshot ? listing->snapshot : 1);
}

static int list_failed(struct okv_diag *diag, int error)
{
    return okv_diag_set(diag, okv_error_from_errno(-error), "cannot read the directory: %s",
                        strerror(-error));
}

int okv_wal_list(struct okv_files *files, struct okv_wal_listing *out, struct okv_diag *diag)
{
    *out = (struct okv_wal_listing){0};
    int rc = files->ops->list(files, note_snapshot, out);
    if (rc == 0)
        rc = files->ops->list(files, note_segment, out);
    if (rc)
        return list_failed(diag, rc);
    if (!is_complete(out))
        return okv_diag_set(diag, OKV_ECORRUPT,
                            "a segment of the log is missing: there are %" PRIu64 " from %" PRIx64
                            " to %" PRIx64 ", and the newest snapshot is %" PRIx64,
                            out->count, out->first, out->last, out->snapshot);
    return 0;
}

static int note_any(const char *name, void *user)
{
    bool *is_empty = user;

    if (okv_wal_number(OKV_WAL_SEGMENT, name) || okv_wal_number(OKV_WAL_SNAPSHOT, name))
        *is_empty = false;
    return 0;
}

int okv_wal_is_empty(struct okv_files *files, bool *is_empty, struct okv_diag *diag)
{
    *is_empty = true;
    int rc = files->ops->list(files, note_any, is_empty);
    return rc ? list_failed(diag, rc) : 0;
}

struct search {
    uint64_t from, lowest; /* 0: none so far */
};

static int note_lowest(const char *name, void *user)
{
    struct search *search = user;
    uint64_t number = okv_wal_number(OKV_WAL_SEGMENT, name);

    if (number >= search->from && number && (!search->lowest || number < search->lowest))
        search->lowest = number;
    return 0;
}

int okv_wal_list_from(struct okv_files *files, uint64_t *number, struct okv_diag *diag)
{
    struct search search = {.from = *number};
    int rc = files->ops->list(files, note_lowest, &search);

    *number = search.lowest;
    return rc ? list_failed(diag, rc) : 0;
}

static int add_bytes(struct okv_files *files, const char *prefix, uint64_t number, uint64_t *sum)
{
    char name[OKV_WAL_NAME_SIZE];
    struct okv_file *file;
    uint64_t size = 0;

    okv_wal_name(prefix, number, name);
    int rc = files->ops->open(files, name, &file);
    if (rc)
        return rc;
    rc = files->ops->size(file, &size);
    files->ops->close(file);
    *sum += size;
    return rc;
}

int okv_wal_list_bytes(struct okv_files *files, uint64_t *out, struct okv_diag *diag)
{
    struct okv_wal_listing listing;
    int error = 0, rc = okv_wal_list(files, &listing, diag);

    *out = 0;
    if (rc)
        return rc;
    if (listing.snapshot)
        error = add_bytes(files, OKV_WAL_SNAPSHOT, listing.snapshot, out);
    for (uint64_t number = listing.first; !error && number && number <= listing.last; number++)
        error = add_bytes(files, OKV_WAL_SEGMENT, number, out);
    return error ? list_failed(diag, error) : 0;
}

struct removal {
    struct okv_files *files;
    uint64_t before;
    bool keeps_spare;
};

static int remove_old(const char *name, void *user)
{
    struct removal *removal = user;
    uint64_t number =
        okv_wal_number(OKV_WAL_SEGMENT, name) | okv_wal_number(OKV_WAL_SNAPSHOT, name);

    if ((number == 0 || number >= removal->before) && strcmp(name, OKV_WAL_PART) != 0)
        return 0;
    if (removal->keeps_spare && okv_wal_number(OKV_WAL_SEGMENT, name))
        return removal->files->ops->rename(removal->files, name, OKV_WAL_SPARE);
    return removal->files->ops->remove(removal->files, name);
}

int okv_wal_remove_before(struct okv_files *files, uint64_t number, bool keeps_spare)
{
    struct removal removal = {files, number, keeps_spare};

    return files->ops->list(files, remove_old, &removal);
}
