#include "shared/transport/common/read_slots.h"

#include "shared/base/error.h"

int okv_read_slots_complete(struct okv_read_slots *reads, unsigned index, int status,
                            struct okv_conn *conn, struct okv_event *event)
{
    if (index >= OKV_READ_SLOTS || !reads->slots[index].is_busy)
        return 0;
    reads->slots[index].is_busy = false;
    reads->busy--;
    if (reads->slots[index].is_silent)
        return 0;
    *event = (struct okv_event){.type = OKV_EVENT_READ,
                                .status = status,
                                .conn = conn,
                                .cookie = reads->slots[index].cookie};
    return 1;
}

bool okv_read_slots_end(struct okv_read_slots *reads, struct okv_conn *conn,
                        struct okv_event *events, int max, int *count)
{
    for (unsigned i = 0; reads->busy > 0; i++) {
        if (reads->slots[i].is_busy && !reads->slots[i].is_silent && *count == max)
            return false;
        *count += okv_read_slots_complete(reads, i, OKV_EDISCONNECTED, conn, &events[*count]);
    }
    return true;
}
