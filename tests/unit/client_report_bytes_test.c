/* The bytes of reports (docs/protocol-admin.md section 2.6). A change here changes the protocol. */
#include "tests/support/test.h"

#include "shared/base/error.h"
#include "shared/format/report.h"

TEST(report_bytes)
{
    const struct okv_report report = {
        .gets = 0x0102030405060708,
        .hits = 2,
        .misses = 3,
        .reads = 4,
        .read_bytes = 5,
        .torn_buckets = 6,
        .torn_extents = 7,
        .wrong_depths = 8,
        .hints_right = 9,
        .hints_wrong = 10,
        .fallbacks = 11,
        .timeouts = 12,
        .reconnects = 13,
        .resent = 14,
        .get_ns = 0x1112131415161718,
        .cells = {[0] = 0x21222324, [53] = 0x31323334},
    };
    static const uint8_t expected[336] = {8,          7,
                                          6,          5,
                                          4,          3,
                                          2,          1,
                                          [8] = 2,    [16] = 3,
                                          [24] = 4,   [32] = 5,
                                          [40] = 6,   [48] = 7,
                                          [56] = 8,   [64] = 9,
                                          [72] = 10,  [80] = 11,
                                          [88] = 12,  [96] = 13,
                                          [104] = 14, [112] = 0x18,
                                          0x17,       0x16,
                                          0x15,       0x14,
                                          0x13,       0x12,
                                          0x11,       0x24,
                                          0x23,       0x22,
                                          0x21,       [332] = 0x34,
                                          0x33,       0x32,
                                          0x31};
    struct okv_wire_report wire;
    struct okv_report back;

    okv_report_encode(&report, &wire);
    assert_int_equal(sizeof wire, sizeof expected);
    assert_memory_equal(&wire, expected, sizeof expected);
    assert_int_equal(okv_report_decode((uint8_t *)&wire, sizeof wire, &back), 0);
    assert_memory_equal(&back, &report, sizeof back);
}

static int report_result(const struct okv_report *report)
{
    struct okv_wire_report wire;
    struct okv_report back;

    okv_report_encode(report, &wire);
    return okv_report_decode((uint8_t *)&wire, sizeof wire, &back);
}

TEST(report_is_checked)
{
    const struct okv_report most = {
        .gets = 10, .hits = 7, .misses = 3, .read_bytes = UINT64_MAX, .cells = {4, 6}};
    struct okv_report report = most;
    struct okv_wire_report wire;

    assert_int_equal(report_result(&report), 0);
    report.hits = 8;
    assert_int_equal(report_result(&report), OKV_EPROTO);
    report.hits = 11, report.misses = UINT64_MAX;
    assert_int_equal(report_result(&report), OKV_EPROTO);
    report = most;
    report.cells[OKV_REPORT_CELLS - 1] = 1;
    assert_int_equal(report_result(&report), OKV_EPROTO);
    okv_report_encode(&most, &wire);
    for (size_t length = 0; length < sizeof wire; length++)
        assert_int_equal(okv_report_decode((uint8_t *)&wire, length, &report), OKV_EPROTO);
    assert_int_equal(okv_report_decode((uint8_t *)&wire, sizeof wire + 1, &report), OKV_EPROTO);
}

/* Cells follow each other without a gap, and a time is below the end of its cell. */
TEST(cells_have_every_time)
{
    assert_int_equal(okv_report_cell(0), 0);
    assert_int_equal(okv_report_cell_end(0), 128);
    assert_int_equal(okv_report_cell_end(1), 192);
    assert_int_equal(okv_report_cell_end(OKV_REPORT_CELLS - 2), UINT64_C(1) << 33);
    for (unsigned cell = 0; cell < OKV_REPORT_CELLS - 1; cell++) {
        uint64_t end = okv_report_cell_end(cell);
        assert_int_equal(okv_report_cell(end - 1), cell);
        assert_int_equal(okv_report_cell(end), cell + 1);
    }
    assert_int_equal(okv_report_cell(UINT64_MAX), OKV_REPORT_CELLS - 1);
    assert_int_equal(okv_report_cell_end(OKV_REPORT_CELLS - 1), UINT64_MAX);
}
