#include "shared/format/report.h"

#include <string.h>

#include "shared/base/error.h"

void okv_report_encode(const struct okv_report *report, struct okv_wire_report *out)
{
#define ENCODE(name) out->name = okv_le64_of(report->name);
    OKV_REPORT_LIST(ENCODE)
    ENCODE(get_ns)
#undef ENCODE
    for (unsigned i = 0; i < OKV_REPORT_CELLS; i++)
        out->cells[i] = okv_le32_of(report->cells[i]);
}

/* Subtracts instead of adding: sums of a peer's numbers may not fit. */
static int report_check(const struct okv_report *report)
{
    uint64_t untimed = report->gets;

    if (report->hits > report->gets || report->misses > report->gets - report->hits)
        return OKV_EPROTO;
    for (unsigned i = 0; i < OKV_REPORT_CELLS; i++) {
        if (report->cells[i] > untimed)
            return OKV_EPROTO;
        untimed -= report->cells[i];
    }
    return 0;
}

int okv_report_decode(const uint8_t *bytes, size_t length, struct okv_report *out)
{
    struct okv_wire_report wire;

    if (length != sizeof wire)
        return OKV_EPROTO;
    memcpy(&wire, bytes, sizeof wire);
#define DECODE(name) out->name = okv_le64_get(wire.name);
    OKV_REPORT_LIST(DECODE)
    DECODE(get_ns)
#undef DECODE
    for (unsigned i = 0; i < OKV_REPORT_CELLS; i++)
        out->cells[i] = okv_le32_get(wire.cells[i]);
    return report_check(out);
}

uint64_t okv_report_cell_end(unsigned cell)
{
    unsigned exponent = 7 + (cell + 1) / 2 - 1;

    if (cell == 0)
        return 128;
    if (cell >= OKV_REPORT_CELLS - 1)
        return UINT64_MAX;
    return cell % 2 ? UINT64_C(3) << (exponent - 1) : UINT64_C(2) << exponent;
}
