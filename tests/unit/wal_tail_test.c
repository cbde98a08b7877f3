/* The latest frames of a log that has copies, and what a peer may send in their place. */
#include "tests/support/test.h"

#include <sys/mman.h>

#include "server/wal/copies/tail.h"
#include "server/wal/frame.h"
#include "shared/base/error.h"
#include "shared/format/entry.h"

#define HEADER OKV_WAL_FRAME_HEADER
#define BEGIN 800u /* of each tail, after a frame of epoch 2 */
#define LENGTH (HEADER + 32)

static const struct okv_wal_record a_put = {
    .kind = OKV_WAL_PUT, .key = "k", .key_length = 1, .value = "value", .value_length = 5};

/* With one record, at the end of `bytes`. */
static uint64_t seal(struct okv_wal_frame frame, const struct okv_wal_record *record,
                     uint8_t *bytes)
{
    frame.length = HEADER + okv_wal_record_size(record->key_length, record->value_length);
    okv_wal_record_encode(record, bytes + HEADER);
    okv_wal_frame_seal(&frame, 0, bytes);
    return frame.length;
}

static struct okv_wal_tail_frame *frame_of(uint64_t position, uint64_t epoch,
                                           const struct okv_wal_record *record)
{
    const struct okv_wal_frame frame = {.position = position, .epoch = epoch, .durable = 16};
    struct okv_wal_tail_frame *out;
    uint8_t bytes[256];
    struct okv_wal_frame whole = frame;

    whole.length = seal(frame, record, bytes);
    out = okv_wal_tail_frame_create(&whole, bytes + HEADER);
    assert_non_null(out);
    return out;
}

static struct okv_wal_tail_frame *batch(uint64_t position, uint64_t epoch)
{
    return frame_of(position, epoch, &a_put);
}

static struct okv_wal_tail_frame *first(uint64_t position, uint64_t epoch)
{
    return frame_of(position, epoch,
                    &(struct okv_wal_record){.kind = OKV_WAL_EPOCH, .version = epoch});
}

static uint64_t length_of(const struct okv_wal_tail_frame *frame)
{
    return frame->frame.length;
}

/* Four batches of epoch 2, and then epoch 5 begins with a shorter frame. */
static uint64_t fill(struct okv_wal_tail *tail)
{
    okv_wal_tail_init(tail, BEGIN, 2);
    for (unsigned i = 0; i < 4; i++)
        okv_wal_tail_append(tail, batch(BEGIN + i * LENGTH, 2));
    okv_wal_tail_append(tail, first(tail->end, 5));
    assert_int_equal(tail->end, BEGIN + 4 * LENGTH + HEADER + 24);
    assert_int_equal(tail->epoch, 5);
    return tail->end;
}

/* ---- the tail ---- */

static void expect_accepted(const struct okv_wal_tail *tail, struct okv_wal_tail_frame *frame,
                            bool is_accepted)
{
    assert_int_equal(okv_wal_tail_accepts(tail, frame), is_accepted);
    okv_wal_tail_frame_drop(frame);
}

TEST(a_frame_follows_the_last_one)
{
    struct okv_wal_tail tail;

    okv_wal_tail_init(&tail, BEGIN, 2);
    for (unsigned round = 0; round < 2; round++) {
        expect_accepted(&tail, batch(tail.end, 2), true);
        expect_accepted(&tail, batch(tail.end + 8, 2), false);
        expect_accepted(&tail, batch(tail.end - 8, 2), false);
        expect_accepted(&tail, first(tail.end + 8, 3), false);
        expect_accepted(&tail, first(tail.end, 3), true);
        expect_accepted(&tail, first(tail.end, 7), true);
        okv_wal_tail_append(&tail, batch(tail.end, 2));
    }
    okv_wal_tail_fini(&tail);
}

/* The files would make no sense to a start. */
TEST(an_epoch_begins_with_its_record)
{
    struct okv_wal_tail tail;

    okv_wal_tail_init(&tail, BEGIN, 2);
    expect_accepted(&tail, batch(BEGIN, 3), false);
    expect_accepted(&tail, batch(BEGIN, 1), false);
    expect_accepted(&tail, first(BEGIN, 2), false);
    expect_accepted(&tail, first(BEGIN, 1), false);
    okv_wal_tail_append(&tail, first(BEGIN, 3));
    expect_accepted(&tail, batch(tail.end, 2), false);
    expect_accepted(&tail, first(tail.end, 3), false);
    expect_accepted(&tail, batch(tail.end, 3), true);
    okv_wal_tail_fini(&tail);
}

TEST(a_frame_is_found_by_its_position)
{
    struct okv_wal_tail tail;
    uint64_t end = fill(&tail);
    unsigned count = 0;

    for (uint64_t position = BEGIN - LENGTH; position <= end + LENGTH; position += 8) {
        const struct okv_wal_tail_frame *frame = okv_wal_tail_find(&tail, position);
        bool is_there = position >= BEGIN && position < end && (position - BEGIN) % LENGTH == 0;
        assert_int_equal(frame != NULL, is_there);
        if (frame)
            assert_int_equal(frame->frame.position, position);
        count += frame != NULL;
    }
    assert_int_equal(count, 5);
    okv_wal_tail_fini(&tail);
    okv_wal_tail_init(&tail, BEGIN, 2);
    assert_null(okv_wal_tail_find(&tail, BEGIN));
}

TEST(a_cut_drops_the_latest)
{
    for (unsigned left = 0; left <= 5; left++) {
        struct okv_wal_tail tail;
        uint64_t end = fill(&tail), cut = left < 5 ? BEGIN + left * LENGTH : end;
        okv_wal_tail_cut(&tail, cut);
        assert_int_equal(tail.begin, BEGIN);
        assert_int_equal(tail.end, cut);
        assert_int_equal(tail.epoch, left < 5 ? 2 : 5);
        assert_null(okv_wal_tail_find(&tail, cut));
        for (unsigned i = 0; i < left; i++)
            assert_non_null(okv_wal_tail_find(&tail, BEGIN + i * LENGTH));
        expect_accepted(&tail, first(cut, 6), true);
        expect_accepted(&tail, batch(cut, 2), left < 5);
        okv_wal_tail_fini(&tail);
    }
}

/* What the files have before the first frame is of an epoch, too. */
TEST(a_cut_of_all_frames_leaves_the_epoch_before)
{
    struct okv_wal_tail tail;

    fill(&tail);
    okv_wal_tail_trim(&tail, tail.end, 0);
    assert_int_equal(tail.begin, tail.end);
    okv_wal_tail_append(&tail, batch(tail.end, 5));
    okv_wal_tail_append(&tail, first(tail.end, 6));
    okv_wal_tail_cut(&tail, tail.begin);
    assert_int_equal(tail.end, tail.begin);
    assert_int_equal(tail.epoch, 5);
    okv_wal_tail_cut(&tail, tail.begin); /* nothing */
    assert_int_equal(tail.epoch, 5);
    okv_wal_tail_cut(&tail, BEGIN); /* who knows */
    assert_int_equal(tail.begin, BEGIN);
    assert_int_equal(tail.end, BEGIN);
    assert_int_equal(tail.epoch, 0);
    okv_wal_tail_fini(&tail);
}

TEST(a_trim_drops_the_oldest)
{
    struct okv_wal_tail tail;
    uint64_t end = fill(&tail);

    okv_wal_tail_trim(&tail, BEGIN, 0);
    assert_int_equal(tail.begin, BEGIN);
    okv_wal_tail_trim(&tail, BEGIN + LENGTH - 8, 0); /* the first one ends later */
    assert_int_equal(tail.begin, BEGIN);
    okv_wal_tail_trim(&tail, BEGIN + LENGTH, end - BEGIN - LENGTH + 8);
    assert_int_equal(tail.begin, BEGIN);
    okv_wal_tail_trim(&tail, BEGIN + LENGTH, end - BEGIN - LENGTH);
    assert_int_equal(tail.begin, BEGIN + LENGTH);
    okv_wal_tail_trim(&tail, end, end - BEGIN - 3 * LENGTH);
    assert_int_equal(tail.begin, BEGIN + 3 * LENGTH);
    assert_null(okv_wal_tail_find(&tail, BEGIN + 2 * LENGTH));
    assert_non_null(okv_wal_tail_find(&tail, BEGIN + 3 * LENGTH));
    okv_wal_tail_trim(&tail, end, 0);
    assert_int_equal(tail.begin, end);
    assert_int_equal(tail.end, end);
    assert_int_equal(tail.epoch, 5);
    okv_wal_tail_fini(&tail);
}

/* A writer, or a reader, has one while the lock is free. */
TEST(a_frame_outlives_its_tail)
{
    struct okv_wal_tail_frame *held[3], *expected = batch(BEGIN, 2);
    struct okv_wal_tail tail;

    fill(&tail);
    for (unsigned i = 0; i < 3; i++)
        held[i] = okv_wal_tail_frame_hold(okv_wal_tail_find(&tail, BEGIN + i * LENGTH));
    okv_wal_tail_frame_hold(held[0]);
    okv_wal_tail_trim(&tail, BEGIN + LENGTH, 0);
    okv_wal_tail_cut(&tail, BEGIN + 2 * LENGTH);
    okv_wal_tail_fini(&tail);
    assert_int_equal(atomic_load(&held[0]->references), 2);
    okv_wal_tail_frame_drop(held[0]);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(atomic_load(&held[i]->references), 1);
        assert_int_equal(held[i]->frame.position, BEGIN + i * LENGTH);
        assert_memory_equal(held[i]->bytes + HEADER, expected->bytes + HEADER, LENGTH - HEADER);
        okv_wal_tail_frame_drop(held[i]);
    }
    okv_wal_tail_frame_drop(expected);
    okv_wal_tail_frame_drop(NULL);
}

/* ---- what a peer sent ---- */

/* In memory of exactly its length, so that a sanitizer sees what reaches past it. */
static int decode(const uint8_t *bytes, uint64_t length, struct okv_wal_tail_frame **out)
{
    uint8_t *exact = malloc(length ? length : 1);

    assert_non_null(exact);
    memcpy(exact, bytes, length);
    int rc = okv_wal_tail_frame_decode(exact, length, out);
    free(exact);
    return rc;
}

static void expect_refusal(const uint8_t *bytes, uint64_t length)
{
    struct okv_wal_tail_frame *frame = NULL;

    assert_int_equal(decode(bytes, length, &frame), OKV_EPROTO);
    assert_null(frame);
}

TEST(a_frame_travels_as_it_is)
{
    const struct okv_wal_record records[] = {
        a_put,
        {.kind = OKV_WAL_DELETE, .key = "k", .key_length = 1, .version = 9},
        {.kind = OKV_WAL_EPOCH, .version = 4},
    };

    for (unsigned i = 0; i < sizeof records / sizeof *records; i++) {
        struct okv_wal_tail_frame *frame = frame_of(BEGIN, 4, &records[i]), *back;
        uint8_t bytes[512];
        assert_int_equal(frame->frame.durable, 0); /* each copy says it for itself */
        memcpy(bytes, frame->bytes, length_of(frame));
        memset(bytes + length_of(frame), 0xaa, 64);
        for (unsigned more = 0; more <= 64; more += 16) {
            assert_int_equal(decode(bytes, length_of(frame) + more, &back), 0);
            assert_int_equal(length_of(back), length_of(frame));
            assert_memory_equal(back->bytes, frame->bytes, length_of(frame));
            assert_memory_equal(&back->frame, &frame->frame, sizeof frame->frame);
            okv_wal_tail_frame_drop(back);
        }
        assert_int_equal(okv_wal_tail_frame_begins_epoch(frame), i == 2);
        okv_wal_tail_frame_drop(frame);
    }
}

TEST(a_frame_of_which_a_bit_is_wrong)
{
    struct okv_wal_tail_frame *frame = batch(BEGIN, 2);
    uint8_t bytes[LENGTH];

    memcpy(bytes, frame->bytes, LENGTH);
    for (unsigned bit = 0; bit < 8 * LENGTH; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        expect_refusal(bytes, LENGTH);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (unsigned length = 0; length < LENGTH; length++)
        expect_refusal(bytes, length);
    okv_wal_tail_frame_drop(frame);
}

/* Those of a file, which are sealed for its segment. */
TEST(a_frame_of_a_segment_is_refused)
{
    struct okv_wal_tail_frame *frame = batch(BEGIN, 2);

    okv_wal_frame_seal(&frame->frame, 1, frame->bytes);
    expect_refusal(frame->bytes, LENGTH);
    okv_wal_tail_frame_drop(frame);
}

/* The sender can make a checksum, too. */
TEST(headers_that_lie)
{
    const struct okv_wal_frame good = {.position = BEGIN, .epoch = 2};
    const struct okv_wal_frame frames[] = {
        {.position = BEGIN, .epoch = 2, .durable = 8},
        {.position = BEGIN, .epoch = 2, .durable = UINT64_MAX},
        {.position = BEGIN, .epoch = OKV_WAL_EPOCH_MAX + 1},
        {.position = BEGIN, .epoch = UINT64_MAX},
        {.position = UINT64_MAX - LENGTH + 1, .epoch = 2},
        {.position = UINT64_MAX, .epoch = 2},
    };
    struct okv_wal_tail_frame *frame;
    uint8_t bytes[256];

    for (unsigned i = 0; i < sizeof frames / sizeof *frames; i++)
        expect_refusal(bytes, seal(frames[i], &a_put, bytes));
    assert_int_equal(decode(bytes, seal(good, &a_put, bytes), &frame), 0);
    okv_wal_tail_frame_drop(frame);
}

TEST(lengths_that_lie)
{
    uint8_t bytes[256] = {0};
    struct okv_wal_frame frame = {.position = BEGIN, .epoch = 2};

    okv_wal_record_encode(&a_put, bytes + HEADER);
    for (frame.length = HEADER + 1; frame.length < LENGTH; frame.length++) {
        okv_wal_frame_seal(&frame, 0, bytes); /* the record overlaps the end */
        expect_refusal(bytes, sizeof bytes);
    }
    for (frame.length = LENGTH + 1; frame.length < sizeof bytes; frame.length++) {
        okv_wal_frame_seal(&frame, 0, bytes); /* and then comes what is none */
        expect_refusal(bytes, sizeof bytes);
    }
}

static void expect_record(const struct okv_wal_record *record, int rc)
{
    struct okv_wal_tail_frame *frame = NULL;
    uint8_t bytes[512];
    uint64_t length = seal((struct okv_wal_frame){.position = BEGIN, .epoch = 2}, record, bytes);

    assert_int_equal(decode(bytes, length, &frame), rc);
    okv_wal_tail_frame_drop(frame);
}

/* No primary ships what is of snapshots, of files or of old versions. */
TEST(kinds_of_records)
{
    const struct okv_wal_long at = {.number = 1, .length = 6000, .checksum = 1};
    uint8_t place[OKV_WAL_LONG_SIZE], key[OKV_WAL_CLIENT_SIZE] = {1}, since[8] = {1};

    okv_wal_long_encode(&at, place);
    const struct okv_wal_record shipped[] = {
        {.kind = OKV_WAL_PUT, .key = "k", .key_length = 1},
        {.kind = OKV_WAL_DELETE, .key = "k", .key_length = 1},
        {.kind = OKV_WAL_EPOCH, .version = 2},
        {.kind = OKV_WAL_CLIENT,
         .key = key,
         .key_length = sizeof key,
         .value = since,
         .value_length = sizeof since,
         .version = 1,
         .slots = 1},
        {.kind = OKV_WAL_REPLY, .key = key, .key_length = OKV_WAL_REPLY_SIZE, .sequence = 1},
    };
    const struct okv_wal_record others[] = {
        {.kind = OKV_WAL_BUCKET},
        {.kind = OKV_WAL_END},
        {.kind = OKV_WAL_FORGOTTEN},
        {.kind = OKV_WAL_RAISE, .version = 1},
        {.kind = OKV_WAL_CLEAN},
        {.kind = OKV_WAL_LONG,
         .key = "k",
         .key_length = 1,
         .value = place,
         .value_length = sizeof place},
        {.kind = OKV_WAL_EPOCH, .version = 1},
        {.kind = OKV_WAL_EPOCH, .version = 3},
        {.kind = (enum okv_wal_kind)0},
        {.kind = (enum okv_wal_kind)200},
    };

    for (unsigned i = 0; i < sizeof shipped / sizeof *shipped; i++)
        expect_record(&shipped[i], 0);
    for (unsigned i = 0; i < sizeof others / sizeof *others; i++)
        expect_record(&others[i], OKV_EPROTO);
}

TEST(an_epoch_in_the_middle_of_a_frame)
{
    const struct okv_wal_record begins = {.kind = OKV_WAL_EPOCH, .version = 2};
    const struct okv_wal_frame frame = {.length = LENGTH + 24, .position = BEGIN, .epoch = 2};
    struct okv_wal_tail_frame *back;
    uint8_t bytes[LENGTH + 24];

    okv_wal_record_encode(&a_put, bytes + HEADER);
    okv_wal_record_encode(&begins, bytes + LENGTH);
    okv_wal_frame_seal(&frame, 0, bytes);
    expect_refusal(bytes, sizeof bytes);
    okv_wal_record_encode(&begins, bytes + HEADER);
    okv_wal_record_encode(&a_put, bytes + HEADER + 24);
    okv_wal_frame_seal(&frame, 0, bytes);
    assert_int_equal(decode(bytes, sizeof bytes, &back), 0);
    okv_wal_tail_frame_drop(back);
}

/* Values of zeros up to `length`; the pages are never written. */
static void fill_with_puts(uint8_t *bytes, uint64_t length)
{
    for (uint64_t at = HEADER; at < length;) {
        struct okv_wal_record put = a_put;
        uint64_t left = length - at - sizeof(struct okv_wal_wire_record) - 8;
        put.value_length = (uint32_t)(left < OKV_VALUE_MAX / 2 ? left + 7 : OKV_VALUE_MAX / 2 + 7);
        okv_wal_record_encode_head(&put, bytes + at);
        at += okv_wal_record_size(1, put.value_length);
    }
}

TEST(a_frame_that_is_too_long)
{
    struct okv_wal_frame frame = {.length = OKV_WAL_FRAME_MAX + 8, .position = BEGIN, .epoch = 2};
    struct okv_wal_tail_frame *back = NULL;
    uint8_t *bytes = mmap(NULL, frame.length, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    assert_ptr_not_equal(bytes, MAP_FAILED);
    fill_with_puts(bytes, frame.length);
    okv_wal_frame_seal(&frame, 0, bytes);
    assert_int_equal(okv_wal_tail_frame_decode(bytes, frame.length, &back), OKV_EPROTO);
    assert_null(back);
    munmap(bytes, frame.length);
}
