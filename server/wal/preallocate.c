#include "server/wal/preallocate.h"

#include "server/wal/format.h"
#include "server/wal/listing.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/format/entry.h"

/* Space is reserved up to a multiple of this. */
#define STEP (UINT64_C(16) << 20)
/* Bytes of the recycled file at most. */
#define RECYCLED_MAX (UINT64_C(1) << 30)

void okv_wal_space_init(struct okv_wal_space *space, uint32_t max_value, unsigned batches)
{
    /* A batch has either its bytes or one record. The rest is for deletions, which do not wait for
     * the next batch, for commands of several keys, and for replies. */
    uint64_t batch =
        OKV_WAL_BATCH_BYTES + okv_wal_record_size(OKV_KEY_MAX, max_value) + OKV_WAL_REPLIES_BYTES;

    *space = (struct okv_wal_space){.batch = batch, .longest = batches * batch};
}

int okv_wal_preallocate(struct okv_wal_space *space, struct okv_files *files, struct okv_file *file,
                        uint64_t used, struct okv_diag *why)
{
    uint64_t now_ns = okv_clock_ns(), from = space->reserved;
    uint64_t end = (used + space->longest + STEP - 1) / STEP * STEP;

    if (used + space->longest <= space->reserved ||
        (space->is_full && now_ns - space->tried_ns < OKV_WAL_SPACE_RETRY_NS))
        return 0;
    int rc = files->ops->reserve(file, from, end - from, why);
    if (rc == OKV_EDISKFULL && files->ops->remove(files, OKV_WAL_RECYCLED, NULL) == 0)
        rc = files->ops->reserve(file, from, end - from, why);
    space->is_full = rc == OKV_EDISKFULL;
    space->wanted = end - from;
    space->tried_ns = now_ns;
    if (rc == 0)
        space->reserved = end;
    return space->is_full ? 0 : rc;
}

int okv_wal_preallocate_segment(struct okv_wal_space *space, struct okv_files *files,
                                struct okv_file *file, uint64_t used, bool may_be_full,
                                struct okv_diag *why)
{
    struct okv_wal_space fresh = {.batch = space->batch, .longest = space->longest};
    int rc = okv_wal_preallocate(&fresh, files, file, used, why);

    if (rc == 0 && fresh.is_full && !may_be_full)
        rc = OKV_EDISKFULL;
    if (rc)
        return rc;
    space->longest = fresh.longest;
    space->reserved = fresh.reserved;
    space->tried_ns = fresh.tried_ns;
    space->wanted = fresh.wanted; /* others read these two meanwhile */
    space->is_full = fresh.is_full;
    return 0;
}

/* ---- the recycled file ---- */

int okv_wal_recycled_create(struct okv_files *files, const char *name, struct okv_file **out,
                            struct okv_diag *why)
{
    if (files->ops->rename(files, OKV_WAL_RECYCLED, name, NULL))
        return files->ops->create(files, name, out, why);
    return files->ops->reopen(files, name, out, why);
}

void okv_wal_recycled_trim(struct okv_files *files)
{
    files->ops->trim(files, OKV_WAL_RECYCLED, RECYCLED_MAX, NULL);
}

int okv_wal_recycled_remove(struct okv_files *files, struct okv_diag *why)
{
    int rc = files->ops->remove(files, OKV_WAL_RECYCLED, why);

    return rc == OKV_ENOTFOUND ? 0 : rc;
}

/* ---- older segments ---- */

void okv_wal_trim_segments(struct okv_files *files)
{
    struct okv_wal_listing listing;
    char name[OKV_WAL_NAME_SIZE];

    if (okv_wal_list(files, &listing, NULL))
        return;
    for (uint64_t number = listing.first; number && number <= listing.last; number++) {
        okv_wal_name(OKV_WAL_SEGMENT, number, name);
        files->ops->trim(files, name, UINT64_MAX, NULL);
    }
}
