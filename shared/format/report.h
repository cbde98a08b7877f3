/* A client's report of its gets to the server: docs/protocol-admin.md section 2.6. */
#ifndef OKV_SHARED_FORMAT_REPORT_H
#define OKV_SHARED_FORMAT_REPORT_H

#include <stddef.h>
#include <stdint.h>

#include "shared/base/bytes.h"

/* In the order of the bytes. Each is a counter of okv.h, too. */
#define OKV_REPORT_LIST(X) \
    X(gets)                \
    X(hits)                \
    X(misses)              \
    X(reads)               \
    X(read_bytes)          \
    X(torn_buckets)        \
    X(torn_extents)        \
    X(wrong_depths)        \
    X(hints_right)         \
    X(hints_wrong)         \
    X(fallbacks)           \
    X(timeouts)            \
    X(reconnects)          \
    X(resent)

/* Cells of the histogram of times: two for each power of two from 2^7 to 2^33 ns, one below, one
 * beyond. */
#define OKV_REPORT_CELLS 54u

struct okv_wire_report {
#define OKV_REPORT_FIELD(name) okv_le64 name;
    OKV_REPORT_LIST(OKV_REPORT_FIELD)
#undef OKV_REPORT_FIELD
    okv_le64 get_ns;
    okv_le32 cells[OKV_REPORT_CELLS];
};
_Static_assert(sizeof(struct okv_wire_report) == 336, "report");
_Static_assert(offsetof(struct okv_wire_report, reads) == 24, "report.reads");
_Static_assert(offsetof(struct okv_wire_report, get_ns) == 112, "report.get_ns");
_Static_assert(offsetof(struct okv_wire_report, cells) == 120, "report.cells");

/* Increments. */
struct okv_report {
#define OKV_REPORT_FIELD(name) uint64_t name;
    OKV_REPORT_LIST(OKV_REPORT_FIELD)
#undef OKV_REPORT_FIELD
    uint64_t get_ns; /* what the gets in `cells` took together */
    uint32_t cells[OKV_REPORT_CELLS];
};

void okv_report_encode(const struct okv_report *report, struct okv_wire_report *out);
/* OKV_EPROTO: another length, more hits and misses than gets, or more timed gets than gets. */
int okv_report_decode(const uint8_t *bytes, size_t length, struct okv_report *out);

/* The cell of a time. */
static inline unsigned okv_report_cell(uint64_t ns)
{
    if (ns < 128)
        return 0;
    unsigned exponent = 63 - (unsigned)__builtin_clzll(ns);
    unsigned cell = 2 * exponent - 13 + (unsigned)(ns >> (exponent - 1) & 1);
    return cell < OKV_REPORT_CELLS - 1 ? cell : OKV_REPORT_CELLS - 1;
}
/* The times of a cell are below this; UINT64_MAX: they have no end. */
uint64_t okv_report_cell_end(unsigned cell);

#endif
