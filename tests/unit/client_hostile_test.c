/* Gets from a region of random bytes whose checksums are right, over a stub transport: no READ
 * leaves the region, none lands outside of its memory, and each get ends. */
#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/random.h"
#include "tests/support/stub_client.h"

#define ROUNDS 400
#define GETS 12
#define LONGEST 100000

static uint64_t seed;
static char keys[GETS][16];
static uint8_t got[LONGEST];

static uint32_t any_below(uint32_t below)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % below;
}

/* A number of interest: small, any, or one of those at which things end. */
static uint64_t random_number(void)
{
    static const uint64_t ends[] = {0,
                                    1,
                                    STUB_REGION,
                                    STUB_REGION - 1,
                                    STUB_REGION - 512,
                                    STUB_REGION + 1,
                                    (UINT64_C(1) << 48) - 1,
                                    UINT32_MAX,
                                    STUB_INDEX,
                                    STUB_HEAP,
                                    OKV_KEY_MAX,
                                    OKV_KEY_MAX + 1};

    switch (any_below(4)) {
    case 0:
        return any_below(300);
    case 1:
        return (uint64_t)any_below(UINT32_MAX) << 16 | any_below(1u << 16);
    case 2:
        return any_below(STUB_REGION);
    default:
        return ends[any_below(sizeof ends / sizeof *ends)];
    }
}

/* Entries that make some sense, often of a key that is asked for, and then what may be none. */
static void random_entries(uint8_t *image)
{
    for (unsigned n = any_below(8); n > 0; n--) {
        const char *key = keys[any_below(GETS)];
        struct okv_entry entry = stub_inline(key, "value");
        entry.version = any_below(10);
        entry.expiry_ms = any_below(3) ? 0 : random_number() & ((UINT64_C(1) << 48) - 1);
        entry.is_reference = any_below(2);
        entry.key_in_extent = any_below(2);
        if (entry.is_reference) {
            entry.value_length = (uint32_t)random_number();
            entry.extent = random_number() & ((UINT64_C(1) << 48) - 1);
            uint64_t bytes = okv_entry_extent_length(&entry);
            bool right = any_below(2) && okv_range_inside(entry.extent, bytes, STUB_REGION);
            entry.checksum =
                right ? okv_extent_checksum(stub.region + entry.extent, bytes, STUB_BOOT) : 1;
        }
        okv_bucket_append(image, STUB_BUCKET_SIZE, &entry);
    }
    if (any_below(4) == 0) {
        struct okv_wire_bucket *header = (struct okv_wire_bucket *)image;
        uint32_t used = okv_bucket_used(image);
        uint32_t more = any_below(okv_bucket_room(STUB_BUCKET_SIZE) - used + 1);
        for (uint32_t i = 0; i < more; i++)
            image[sizeof *header + used + i] = (uint8_t)any_below(256);
        header->used = okv_le16_of((uint16_t)(used + more));
    }
}

static void random_image(uint64_t offset, uint64_t bucket, unsigned page)
{
    uint8_t *image = stub.region + offset;
    uint64_t chain = any_below(2) ? 0 : any_below(4) ? STUB_SEGMENT_1 : random_number();

    okv_bucket_begin(image, any_below(6) ? STUB_DEPTH : any_below(OKV_DEPTH_MAX + 2), 9, chain,
                     page);
    random_entries(image);
    okv_bucket_seal(image, STUB_BUCKET_SIZE, STUB_BOOT, bucket);
}

static void random_table(void)
{
    for (uint64_t bucket = 0; bucket < STUB_SEGMENT_BUCKETS; bucket++)
        if (any_below(8))
            random_image(stub_place(bucket), bucket, 0);
    random_image(STUB_SEGMENT_1, any_below(STUB_BUCKETS), 1);
    for (unsigned segment = 0; segment < 4; segment++)
        if (any_below(4) == 0)
            stub_segment(segment, random_number());
    stub_status(random_number() + 1, random_number() + 1);
}

static bool status_is_possible(int status)
{
    return status == OKV_OK || status == OKV_ENOTFOUND || status == OKV_ETOOSMALL ||
           status == OKV_EPROTO || status == OKV_ECORRUPT;
}

static void one_round(void)
{
    struct okv_command commands[GETS];
    struct okv_result gets[GETS];
    struct okv_options options = {.depth = GETS,
                                  .credits = 4,
                                  .timeout_ms = 60000,
                                  .hints = any_below(2) ? OKV_HINTS_NONE : 8};
    okv_registration *registration = NULL;
    size_t share = LONGEST / GETS;

    client_setup(NULL);
    stub.max_reads = 1 + any_below(8);
    stub.welcome.bucket_count = 1 + any_below(any_below(3) ? 8 : 1u << 20);
    random_table();
    handle = stub_open_with(&options);
    if (any_below(2))
        assert_int_equal(okv_register(handle, got, sizeof got, &registration), OKV_OK);
    for (unsigned again = 0; again < 3; again++) {
        for (unsigned i = 0; i < GETS; i++) {
            commands[i] = (struct okv_command){
                .kind =
                    any_below(4) ? OKV_GET + any_below(2) * (OKV_GET_RANGE - OKV_GET) : OKV_HEAD,
                .key = keys[i],
                .key_length = strlen(keys[i]),
            };
            if (commands[i].kind != OKV_HEAD) {
                commands[i].buffer = got + i * share;
                commands[i].buffer_size = any_below(4) ? share : any_below(10);
            }
            if (commands[i].kind == OKV_GET_RANGE)
                commands[i].offset = any_below(LONGEST);
        }
        assert_int_equal(okv_call_many(handle, commands, gets, GETS), OKV_OK);
        for (unsigned i = 0; i < GETS; i++)
            assert_true(status_is_possible(gets[i].status));
        random_table();
    }
    assert_int_equal(stub.reads_outside, 0);
    assert_string_equal(okv_why(handle), "");
    okv_unregister(handle, &registration);
    stub_close(&handle);
}

TEST_WITH(gets_from_random_tables, NULL, client_teardown)
{
    seed = random_seed();
    for (unsigned i = 0; i < GETS; i++)
        stub_key(keys[i], i % STUB_BUCKETS, STUB_DEPTH, i);
    for (unsigned round = 0; round < ROUNDS; round++)
        one_round();
}
