#include "server/wal/preallocate.h"

#include <errno.h>

#include "server/wal/format.h"
#include "server/wal/listing.h"
#include "server/wal/wal.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/format/entry.h"

/* Reserved at once: a multiple of it. */
#define STEP (UINT64_C(16) << 20)

void okv_wal_room_init(struct okv_wal_room *room, uint32_t max_value, unsigned batches)
{
    /* A batch has either so many bytes or one record. The rest is for removals, which do not wait
     * for the next batch, for commands of several keys, and for replies. */
    uint64_t batch =
        OKV_WAL_BATCH_BYTES + okv_wal_record_size(OKV_KEY_MAX, max_value) + OKV_WAL_REPLIES_BYTES;

    *room = (struct okv_wal_room){.batch = batch, .longest = batches * batch};
}

static bool is_short(int error)
{
    return error == -ENOSPC || error == -EDQUOT;
}

int okv_wal_room_error(int error)
{
    return is_short(error) ? OKV_EDISKFULL : okv_error_from_errno(-error);
}

static uint64_t target(const struct okv_wal_room *room, uint64_t used)
{
    return (used + room->longest + STEP - 1) / STEP * STEP;
}

unsigned okv_wal_room_wanted_mib(const struct okv_wal_room *room)
{
    return (unsigned)(room->wanted >> 20);
}

int okv_wal_room_extend(struct okv_wal_room *room, struct okv_files *files, struct okv_file *file,
                        uint64_t used)
{
    uint64_t now_ns = okv_clock_ns();

    if (used + room->longest <= room->reserved ||
        (room->is_full && now_ns - room->tried_ns < OKV_WAL_ROOM_RETRY_NS))
        return 0;
    uint64_t end = target(room, used);
    int rc = files->ops->reserve(file, room->reserved, end - room->reserved);
    if (is_short(rc) && files->ops->remove(files, OKV_WAL_SPARE) == 0)
        rc = files->ops->reserve(file, room->reserved, end - room->reserved);
    room->is_full = is_short(rc);
    room->wanted = end - room->reserved;
    room->tried_ns = now_ns;
    if (rc == 0)
        room->reserved = end;
    return room->is_full ? 0 : rc;
}

int okv_wal_room_begin(struct okv_wal_room *room, struct okv_files *files, struct okv_file *file,
                       uint64_t used, bool may_be_full)
{
    struct okv_wal_room fresh = {.batch = room->batch, .longest = room->longest};
    int rc = okv_wal_room_extend(&fresh, files, file, used);

    if (rc == 0 && fresh.is_full && !may_be_full)
        rc = -ENOSPC;
    if (rc == 0)
        *room = fresh;
    return rc;
}

/* ---- the spare ---- */

int okv_wal_room_create(struct okv_files *files, const char *name, struct okv_file **out)
{
    if (files->ops->rename(files, OKV_WAL_SPARE, name))
        return files->ops->create(files, name, out);
    return files->ops->reopen(files, name, out);
}

void okv_wal_room_trim_spare(struct okv_files *files)
{
    files->ops->trim(files, OKV_WAL_SPARE, OKV_WAL_SPARE_MAX);
}

int okv_wal_room_remove_spare(struct okv_files *files)
{
    int rc = files->ops->remove(files, OKV_WAL_SPARE);

    return rc == -ENOENT ? 0 : rc;
}

/* ---- older segments ---- */

void okv_wal_room_trim_all(struct okv_files *files)
{
    struct okv_wal_listing listing;
    char name[OKV_WAL_NAME_SIZE];

    if (okv_wal_list(files, &listing, NULL))
        return;
    for (uint64_t number = listing.first; number && number <= listing.last; number++) {
        okv_wal_name(OKV_WAL_SEGMENT, number, name);
        files->ops->trim(files, name, UINT64_MAX);
    }
}
