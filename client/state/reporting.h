/* What the server is told of this client: connection/report.c sends it, engine/timed_gets.h times
 * gets for it. */
#ifndef OKV_CLIENT_STATE_REPORTING_H
#define OKV_CLIENT_STATE_REPORTING_H

#include <okv.h>
#include <stdbool.h>

#include "shared/format/report.h"

struct reporting {
    uint64_t period_ns; /* 0: no reports */
    uint64_t due_ns;    /* UINT64_MAX: never on this connection */
    bool is_owed;       /* the reply to a report: it holds a request slot until then */
    uint16_t request_slot;
    uint64_t sequence;
    struct okv_counters told; /* as the last report had them */
    /* Since then, of the timed gets. */
    uint64_t get_ns;
    uint32_t cells[OKV_REPORT_CELLS];
};

#endif
