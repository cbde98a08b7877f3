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

/* A server makes the segment before the snapshot that it continues. */
static bool is_complete(const struct okv_wal_listing *listing)
{
    if (listing->count == 0)
        return listing->snapshot == 0;
    return listing->last - listing->first + 1 == listing->count &&
           listing->first == (listing->snapshot ? listing->snapshot : 1);
}

static int list(struct okv_files *files, int (*each)(const char *name, void *user), void *user,
                struct okv_diag *diag)
{
    struct okv_diag why;
    int rc = files->ops->list(files, each, user, &why);

    return rc ? okv_diag_set(diag, rc, "cannot read the directory: %s", why.text) : 0;
}

int okv_wal_list(struct okv_files *files, struct okv_wal_listing *out, struct okv_diag *diag)
{
    *out = (struct okv_wal_listing){0};
    int rc = list(files, note_snapshot, out, diag);
    if (rc == 0)
        rc = list(files, note_segment, out, diag);
    if (rc)
        return rc;
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
    return list(files, note_any, is_empty, diag);
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
    int rc = list(files, note_lowest, &search, diag);

    *number = search.lowest;
    return rc;
}

static int add_bytes(struct okv_files *files, const char *prefix, uint64_t number, uint64_t *sum,
                     struct okv_diag *diag)
{
    char name[OKV_WAL_NAME_SIZE];
    struct okv_file *file;
    struct okv_diag why;
    uint64_t size = 0;

    okv_wal_name(prefix, number, name);
    int rc = files->ops->open(files, name, &file, &why);
    if (rc == 0) {
        rc = files->ops->size(file, &size, &why);
        files->ops->close(file);
    }
    *sum += size;
    return rc ? okv_diag_set(diag, rc, "cannot read the directory: %s", why.text) : 0;
}

int okv_wal_list_bytes(struct okv_files *files, uint64_t *out, struct okv_diag *diag)
{
    struct okv_wal_listing listing;
    int rc = okv_wal_list(files, &listing, diag);

    *out = 0;
    if (rc == 0 && listing.snapshot)
        rc = add_bytes(files, OKV_WAL_SNAPSHOT, listing.snapshot, out, diag);
    for (uint64_t number = listing.first; !rc && number && number <= listing.last; number++)
        rc = add_bytes(files, OKV_WAL_SEGMENT, number, out, diag);
    return rc;
}

struct removal {
    struct okv_files *files;
    uint64_t before;
    bool recycles;
    struct okv_diag *why;
};

static int remove_old(const char *name, void *user)
{
    struct removal *removal = user;
    struct okv_files *files = removal->files;
    uint64_t segment = okv_wal_number(OKV_WAL_SEGMENT, name);
    uint64_t number = segment | okv_wal_number(OKV_WAL_SNAPSHOT, name);

    if ((number == 0 || number >= removal->before) && strcmp(name, OKV_WAL_PART) != 0)
        return 0;
    if (removal->recycles && segment)
        return files->ops->rename(files, name, OKV_WAL_RECYCLED, removal->why);
    return files->ops->remove(files, name, removal->why);
}

int okv_wal_remove_before(struct okv_files *files, uint64_t number, bool recycles,
                          struct okv_diag *why)
{
    struct removal removal = {files, number, recycles, why};

    return files->ops->list(files, remove_old, &removal, why);
}
