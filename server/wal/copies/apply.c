#include "server/wal/copies/apply.h"

#include "server/store/recover.h"
#include "server/wal/copies/tail.h"
#include "server/wal/frame.h"
#include "server/wal/recovery/snapshot.h"
#include "server/wal/state.h"

/* A raise takes long where the table is large, whatever the disk does. */
static int begin_epoch(struct okv_wal *wal, struct okv_store_work *work, uint64_t raise)
{
    if (raise == 0)
        return 0;
    atomic_store(&wal->step_ns, 0);
    return okv_store_raise_versions(wal->store, work, raise);
}

static int apply_record(struct okv_wal *wal, struct okv_store_work *work,
                        const struct okv_wal_record *record)
{
    const struct okv_store_recovered item = okv_wal_item_of(record);

    if (record->kind == OKV_WAL_EPOCH)
        return begin_epoch(wal, work, record->raise);
    if (!okv_wal_is_change(record))
        return okv_wal_recover_client(wal, record);
    return okv_store_recover(wal->store, work, &item);
}

int okv_wal_apply_frame(struct okv_wal *wal, struct okv_store_work *work,
                        const struct okv_wal_tail_frame *frame, unsigned *records)
{
    struct okv_wal_record record;
    uint64_t at = OKV_WAL_FRAME_HEADER;
    int rc = 0;

    *records = 0;
    while (rc == 0 && at < frame->frame.length) {
        rc = okv_wal_record_decode(frame->bytes, frame->frame.length, &at, &record);
        if (rc == 0)
            rc = apply_record(wal, work, &record);
        ++*records;
    }
    return rc;
}
