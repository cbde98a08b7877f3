/* The file `copy` (docs/cluster-format.md section 2): its bytes, and what a crash leaves of it. */
#include "tests/support/test.h"

#include "server/wal/copies/mark.h"
#include "shared/base/error.h"
#include "tests/support/crash_disk.h"

static const struct okv_wal_mark example = {.cluster = "prod",
                                            .incarnation = 0x1122334455667788,
                                            .epoch = 0x0a0b0c,
                                            .cluster_id = 0xabcd,
                                            .is_whole = true};

static const uint8_t bytes[OKV_WAL_MARK_SIZE] = {
    'o',         'k',  'v',  'c',  'o',  'p',  'y',  0,    /* magic */
    1,           0,    0,    0,    1,    0,    0,    0,    /* format_version, is_whole */
    0x88,        0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, /* incarnation */
    0x0c,        0x0b, 0x0a, 0,    0,    0,    0,    0,    /* epoch */
    0xcd,        0xab, 0,    0,    0,    0,    0,    0,    /* cluster_id */
    'p',         'r',  'o',  'd',  0,    0,    0,    0,
    [72] = 0x0b, 0xcf, 0x32, 0x71, 0x56, 0xcc, 0x59, 0x2e /* cluster, checksum */
};

TEST(its_bytes)
{
    uint8_t encoded[OKV_WAL_MARK_SIZE];
    struct okv_wal_mark mark;

    okv_wal_mark_encode(&example, encoded);
    assert_memory_equal(encoded, bytes, sizeof bytes);
    assert_int_equal(okv_wal_mark_decode(bytes, &mark), 0);
    assert_string_equal(mark.cluster, "prod");
    assert_int_equal(mark.incarnation, example.incarnation);
    assert_int_equal(mark.epoch, example.epoch);
    assert_int_equal(mark.cluster_id, example.cluster_id);
    assert_true(mark.is_whole);
}

TEST(a_changed_byte_is_refused)
{
    struct okv_wal_mark mark;

    for (unsigned i = 0; i < OKV_WAL_MARK_SIZE; i++) {
        uint8_t changed[OKV_WAL_MARK_SIZE];
        memcpy(changed, bytes, sizeof changed);
        changed[i] ^= 1;
        int rc = okv_wal_mark_decode(changed, &mark);
        assert_int_equal(rc, i >= 8 && i < 12 ? OKV_EVERSION : OKV_ECORRUPT);
    }
}

TEST(it_is_replaced_as_a_whole)
{
    struct okv_wal_mark mark;
    struct okv_diag why;
    bool had_old = false, had_new = false;

    for (unsigned calls = 0; calls < 12; calls++)
        for (unsigned seed = 0; seed < 8; seed++) {
            struct okv_wal_mark next = example;
            struct crash_disk disk;
            crash_disk_init(&disk, seed);
            assert_int_equal(okv_wal_mark_read(&disk.files, &mark, &why), OKV_ENOTFOUND);
            assert_int_equal(okv_wal_mark_write(&disk.files, &example, &why), 0);
            next.epoch++;
            disk.calls_left = calls;
            int rc = okv_wal_mark_write(&disk.files, &next, &why);
            crash_disk_go_on(&disk);
            crash_disk_crash(&disk);
            assert_int_equal(okv_wal_mark_read(&disk.files, &mark, &why), 0);
            assert_in_range(mark.epoch, rc ? example.epoch : next.epoch, next.epoch);
            had_old |= mark.epoch == example.epoch;
            had_new |= mark.epoch == next.epoch;
            crash_disk_fini(&disk);
        }
    assert_true(had_old && had_new);
}

TEST(what_is_no_mark_says_so)
{
    struct okv_wal_mark mark;
    struct crash_disk disk;
    struct okv_diag why;

    crash_disk_init(&disk, 1);
    assert_int_equal(okv_wal_mark_write(&disk.files, &example, &why), 0);
    crash_disk_bytes(&disk, OKV_WAL_MARK, NULL)[78] ^= 1;
    assert_int_equal(okv_wal_mark_read(&disk.files, &mark, &why), OKV_ECORRUPT);
    assert_string_equal(why.text, "the file copy is damaged");
    crash_disk_bytes(&disk, OKV_WAL_MARK, NULL)[8] = 2;
    assert_int_equal(okv_wal_mark_read(&disk.files, &mark, &why), OKV_EVERSION);
    crash_disk_fini(&disk);
}
