/*
 * The bytes of docs/format.md, docs/protocol.md and docs/protocol-transports.md, one example of
 * each. A change here changes the format and needs a new version number.
 */
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/error.h"
#include "shared/format/bucket_edit.h"
#include "shared/format/discovery.h"
#include "shared/format/hash.h"
#include "shared/format/superblock.h"
#include "shared/format/wire.h"
#include "shared/transport/local/ring.h"

static unsigned digit_of(char c)
{
    static const char digits[] = "0123456789abcdef";
    return (unsigned)(strchr(digits, c) - digits);
}

/* Turns "6f6b 7631 61*300" into bytes, the last word into 300 times 0x61; returns how many. */
static size_t unhex(const char *text, uint8_t *out)
{
    size_t n = 0;

    while (*text) {
        if (*text == ' ') {
            text++;
        } else if (*text == '*') {
            char *end;
            size_t times = strtoul(text + 1, &end, 10);
            assert_in_range(times, 1, 1000);
            memset(out + n, out[n - 1], times - 1);
            n += times - 1;
            text = end;
        } else {
            out[n++] = (uint8_t)(digit_of(text[0]) << 4 | digit_of(text[1]));
            text += 2;
        }
    }
    return n;
}

static void assert_bytes(const void *actual, size_t length, const char *expected)
{
    uint8_t bytes[2048];

    assert_int_equal(unhex(expected, bytes), length);
    assert_memory_equal(actual, bytes, length);
}

TEST(hello_bytes)
{
    struct okv_hello hello = {
        .client_id = "0123456",
        .nonce = "abcdefg",
        .resume = 0x44332211,
        .slot_size = 16384,
        .credits = 16,
        .features = 0x21,
        .database = 0xa4a3a2a1,
        .key_id = 0xb4b3b2b1,
        .proof = "ABCDEFGHIJKLMNO",
    };
    struct okv_wire_hello wire, again;
    struct okv_hello back;

    okv_hello_encode(&hello, &wire);
    assert_bytes(&wire, sizeof wire,
                 "6f6b7631 0300 3800 3031323334353600 6162636465666700 11223344 ff01 0f84"
                 "a1a2a3a4 b1b2b3b4 4142434445464748494a4b4c4d4e4f00");
    assert_int_equal(okv_hello_decode((uint8_t *)&wire, sizeof wire, &back), 0);
    okv_hello_encode(&back, &again);
    assert_memory_equal(&again, &wire, sizeof wire);
    assert_int_equal(okv_database_id("default"), 0);
    assert_int_equal(okv_database_id("cache"), 0x164101ee);
}

TEST(welcome_bytes)
{
    const struct okv_welcome welcome = {
        .features = OKV_FEATURE_LEASE,
        .rkey = 0x0a0b0c0d,
        .boot_id = 0x1122334455667788,
        .region_address = 0x7f0000001000,
        .region_length = 0x100000,
        .directory_offset = 4096,
        .bucket_count = 0x0123456789,
        .hash_seed = 0x99aabbccddeeff00,
        .bucket_size = 512,
        .segment_buckets = 64,
        .slot_size = 16384,
        .credits = 8,
        .max_key = 1024,
        .max_value = 0x4000000,
        .session_id = 7,
        .clock_ms = 0x415,
        .resumed = 1,
        .remember_ms = 60000,
        .rights = OKV_RIGHT_READ | OKV_RIGHT_ADMIN,
        .lease_ms = 1000,
        .epoch = 3,
        .map_version = 0x41,
        .lease_clock_us = 0x0102030405,
        .valid_until_us = 0x0102121212,
        .proof = "ABCDEFGHIJKLMNO",
    };
    struct okv_welcome back;
    struct okv_wire_welcome wire;

    okv_welcome_encode(&welcome, &wire);
    assert_bytes(&wire, sizeof wire,
                 "6f6b7631 0300 a800 04000000 0d0c0b0a 8877665544332211 00100000007f0000"
                 "0000100000000000 0010000000000000 8967452301000000 00ffeeddccbbaa99"
                 "00020000 40000000 00400000 08000000 00040000 00000004"
                 "0700000000000000 1504000000000000 01000000 60ea0000"
                 "05000000 e8030000 0300000000000000 4100000000000000"
                 "0504030201000000 1212120201000000 4142434445464748494a4b4c4d4e4f00");
    assert_int_equal(okv_welcome_decode((uint8_t *)&wire, sizeof wire, &back), 0);
    assert_memory_equal(&back, &welcome,
                        offsetof(struct okv_welcome, proof) + sizeof welcome.proof);
}

TEST(reject_bytes)
{
    struct okv_reject reject = {.version = 1, .reason = OKV_REJECT_BUSY, .detail = 64}, back;
    struct okv_wire_reject wire;

    okv_reject_encode(&reject, &wire);
    assert_bytes(&wire, sizeof wire, "6f6b7631 0100 1000 04000000 40000000");
    assert_int_equal(okv_reject_decode((uint8_t *)&wire, sizeof wire, &back), 0);
    assert_int_equal(back.reason, OKV_REJECT_BUSY);
    assert_int_equal(back.detail, 64);
}

#define TEXT(text) (const uint8_t *)(text)

#define KEY .key = TEXT("key"), .key_length = 3

/* One of each operation, and what it is on the wire. */
static const struct {
    struct okv_request_message request;
    uint32_t immediate;
    const char *bytes;
} requests[] = {
    {{.opcode = OKV_OP_PING, .slot = 5, .sequence = 0x0102},
     0x01000005,
     "0201000000000000 0000000000000000 000000000000 0000 00000000 0000 0000"},
    {{.opcode = OKV_OP_PING, .sequence = 2, .value = TEXT("value"), .value_length = 5},
     0x01000000,
     "0200000000000000 0000000000000000 000000000000 0000 05000000 0000 0000"
     "76616c7565"},
    {{.opcode = OKV_OP_GET, .slot = 0xffff, .sequence = 1, KEY},
     0x0200ffff,
     "0100000000000000 0000000000000000 000000000000 0000 00000000 0300 0000"
     "6b6579"},
    {{.opcode = OKV_OP_PUT,
      .sequence = 1,
      .ttl_ms = OKV_TTL_MAX,
      .flags = OKV_REQUEST_IF_ABSENT,
      KEY,
      .value = TEXT("value"),
      .value_length = 5},
     0x03000000,
     "0100000000000000 0000000000000000 ffffffffff7f 0100 05000000 0300 0000"
     "6b6579 76616c7565"},
    {{.opcode = OKV_OP_PUT,
      .sequence = 1,
      .argument = 0x010203040506,
      .flags = OKV_REQUEST_IF_VERSION | OKV_REQUEST_RENDEZVOUS,
      KEY,
      .value_length = 0x4000000,
      .rendezvous_address = 0x7f0000001000,
      .rendezvous_key = 0x0a0b0c0d},
     0x03000000,
     "0100000000000000 0605040302010000 000000000000 0600 00000004 0300 0000"
     "6b6579 00100000007f0000 0d0c0b0a"},
    {{.opcode = OKV_OP_PUT,
      .sequence = 1,
      .argument = 0x42,
      .flags = OKV_REQUEST_IF_VERSION | OKV_REQUEST_KEEP_TTL,
      KEY},
     0x03000000,
     "0100000000000000 4200000000000000 000000000000 0a00 00000000 0300 0000"
     "6b6579"},
    {{.opcode = OKV_OP_DELETE,
      .sequence = 1,
      .argument = 0x42,
      .flags = OKV_REQUEST_IF_VERSION,
      KEY},
     0x04000000,
     "0100000000000000 4200000000000000 000000000000 0200 00000000 0300 0000"
     "6b6579"},
    {{.opcode = OKV_OP_STAT, .sequence = 1},
     0x05000000,
     "0100000000000000 0000000000000000 000000000000 0000 00000000 0000 0000"},
    {{.opcode = OKV_OP_APPEND, .sequence = 1, KEY, .value = TEXT("more"), .value_length = 4},
     0x06000000,
     "0100000000000000 0000000000000000 000000000000 0000 04000000 0300 0000"
     "6b6579 6d6f7265"},
    {{.opcode = OKV_OP_TOUCH, .sequence = 1, .ttl_ms = 0x0102030405, KEY},
     0x07000000,
     "0100000000000000 0000000000000000 050403020100 0000 00000000 0300 0000"
     "6b6579"},
    {{.opcode = OKV_OP_INCR, .sequence = 1, .argument = (uint64_t)-2, KEY},
     0x08000000,
     "0100000000000000 feffffffffffffff 000000000000 0000 00000000 0300 0000"
     "6b6579"},
    {{.opcode = OKV_OP_FLUSH,
      .sequence = 1,
      .argument = 0x40,
      .value = TEXT("\3\0\0\0\0\0\0\0"),
      .value_length = 8},
     0x09000000,
     "0100000000000000 4000000000000000 000000000000 0000 08000000 0000 0000"
     "0300000000000000"},
    {{.opcode = OKV_OP_REPORT, .sequence = 8, .value = TEXT("r"), .value_length = 1},
     0x0b000000,
     "0800000000000000 0000000000000000 000000000000 0000 01000000 0000 0000 72"},
    {{.opcode = OKV_OP_INCR_TTL,
      .sequence = 1,
      .argument = (uint64_t)-2,
      .ttl_ms = 0x0102030405,
      KEY},
     0x0c000000,
     "0100000000000000 feffffffffffffff 050403020100 0000 00000000 0300 0000"
     "6b6579"},
    {{.opcode = OKV_OP_GET_TOUCH, .sequence = 1, .ttl_ms = 0x0102030405, KEY},
     0x0d000000,
     "0100000000000000 0000000000000000 050403020100 0000 00000000 0300 0000"
     "6b6579"},
    {{.opcode = OKV_OP_GOODBYE, .slot = 1, .sequence = 9},
     0x7f000001,
     "0900000000000000 0000000000000000 000000000000 0000 00000000 0000 0000"},
};

static void assert_requests_equal(const struct okv_request_message *a,
                                  const struct okv_request_message *b)
{
    assert_int_equal(a->opcode, b->opcode);
    assert_int_equal(a->slot, b->slot);
    assert_int_equal(a->flags, b->flags);
    assert_int_equal(a->sequence, b->sequence);
    assert_int_equal(a->argument, b->argument);
    assert_int_equal(a->ttl_ms, b->ttl_ms);
    assert_int_equal(a->key_length, b->key_length);
    assert_int_equal(a->value_length, b->value_length);
    assert_int_equal(a->rendezvous_address, b->rendezvous_address);
    assert_int_equal(a->rendezvous_key, b->rendezvous_key);
    if (a->key_length)
        assert_memory_equal(a->key, b->key, a->key_length);
    if (a->value_length && !(a->flags & OKV_REQUEST_RENDEZVOUS))
        assert_memory_equal(a->value, b->value, a->value_length);
}

TEST(request_bytes)
{
    uint8_t bytes[128];
    struct okv_request_message back;

    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        const struct okv_request_message *request = &requests[i].request;
        uint32_t length = okv_request_encode(request, bytes);
        assert_int_equal(okv_immediate(request->opcode, request->slot), requests[i].immediate);
        assert_bytes(bytes, length, requests[i].bytes);
        assert_int_equal(okv_request_decode(requests[i].immediate, bytes, length, &back), 0);
        assert_requests_equal(&back, request);
        if (request->flags & OKV_REQUEST_RENDEZVOUS)
            assert_null(back.value);
    }
}

static void reply_expect(const struct okv_reply_message *reply, const char *expected)
{
    uint8_t bytes[64];
    uint32_t length = okv_reply_encode(reply, bytes);
    struct okv_reply_message back;

    assert_bytes(bytes, length, expected);
    assert_int_equal(okv_reply_decode(0x82000007, bytes, length, &back), 0);
    assert_int_equal(back.opcode, OKV_OP_GET);
    assert_int_equal(back.slot, 7);
    assert_int_equal(back.status, reply->status);
    assert_int_equal(back.sequence, reply->sequence);
    assert_int_equal(back.version, reply->version);
    assert_int_equal(back.value_length, reply->value_length);
    if (reply->value_length)
        assert_memory_equal(back.value, reply->value, reply->value_length);
}

TEST(reply_bytes)
{
    const struct okv_wire_number number = {.number = okv_le64_of((uint64_t)INT64_MIN)};
    const struct okv_wire_flush flush = {.next = okv_le64_of(0x40), .splits = okv_le64_of(3)};

    reply_expect(&(struct okv_reply_message){.sequence = 0x0102, .status = OKV_ENOTFOUND},
                 "0201000000000000 0000000000000000 01000000 00000000");
    reply_expect(
        &(struct okv_reply_message){
            .sequence = 1, .version = 0x42, .value = TEXT("v"), .value_length = 1},
        "0100000000000000 4200000000000000 00000000 01000000 76");
    reply_expect(&(struct okv_reply_message){.sequence = 1,
                                             .version = 0x010203040506,
                                             .status = OKV_ECONFLICT},
                 "0100000000000000 0605040302010000 18000000 00000000");
    reply_expect(&(struct okv_reply_message){.sequence = 1,
                                             .version = 0x42,
                                             .value = (const uint8_t *)&number,
                                             .value_length = sizeof number},
                 "0100000000000000 4200000000000000 00000000 08000000 0000000000000080");
    reply_expect(&(struct okv_reply_message){.sequence = 1,
                                             .value = (const uint8_t *)&flush,
                                             .value_length = sizeof flush},
                 "0100000000000000 0000000000000000 00000000 10000000"
                 "4000000000000000 0300000000000000");
    reply_expect(&(struct okv_reply_message){.status = OKV_ESHUTDOWN},
                 "0000000000000000 0000000000000000 0b000000 00000000");
    assert_int_equal(OKV_IMMEDIATE_REPLY | okv_immediate(OKV_OP_GOODBYE, 0), 0xff000000);
}

TEST(superblock_bytes)
{
    const struct okv_superblock block = {
        .boot_id = 0x1122334455667788,
        .hash_seed = 0x99aabbccddeeff00,
        .region_length = 0x100000,
        .directory_offset = 4096,
        .boot_wall_ms = 0x18f00000000,
        .directory_entries = 1024,
        .segment_buckets = 64,
        .bucket_size = 512,
    };
    struct okv_wire_superblock wire;
    struct okv_superblock back;

    okv_superblock_encode(&block, &wire);
    assert_bytes(&wire, sizeof wire,
                 "6f6b767461626c65 02000000 00020000 8877665544332211 00ffeeddccbbaa99"
                 "0000100000000000 0010000000000000 00040000 40000000 0000000000000000"
                 "000000008f010000 e9f2e585c3bc5151");
    assert_int_equal(okv_superblock_decode((uint8_t *)&wire, sizeof wire, &back), 0);
    assert_memory_equal(&back, &block, offsetof(struct okv_superblock, bucket_size));
    assert_int_equal(back.bucket_size, block.bucket_size);
}

TEST(status_bytes)
{
    const struct okv_table_status status = {
        0x415, 99, {0x0102030405, 3, 0x41, 0x1000, OKV_LEASE_MEMBER}};
    struct okv_table_status back;
    struct okv_wire_status wire;

    okv_status_encode(&status, 0x1122334455667788, &wire);
    assert_bytes(&wire, sizeof wire,
                 "1504000000000000 6300000000000000"
                 "0504030201000000 0300000000000000 4100000000000000 0010000000000000"
                 "0100000000000000"
                 "28a572c7b18eef43");
    assert_int_equal(okv_status_decode((uint8_t *)&wire, 0x1122334455667788, &back), 0);
    assert_memory_equal(&back, &status, sizeof status);
}

/* The offsets of the region's blocks, and one entry of the directory. */
TEST(layout)
{
    okv_le64 entry = okv_le64_of(0x123456789000);

    assert_int_equal(OKV_STATUS_OFFSET, 128);
    assert_int_equal(OKV_DIRECTORY_OFFSET, 4096);
    assert_int_equal(OKV_DIRECTORY_SIZE, 8192);
    assert_int_equal(OKV_HEAP_OFFSET, 12288);
    assert_bytes(&entry, sizeof entry, "0090785634120000");
}

#define VERSION 0x010203040506
#define EXPIRY 0xa0a1a2a3a4a5
#define BOOT 0x1122334455667788

static void append(uint8_t *image, uint32_t size, const struct okv_entry *entry)
{
    assert_int_equal(okv_bucket_append(image, size, entry), 0);
}

static void append_inline(uint8_t *image, uint32_t size, const uint8_t *letters)
{
    append(image, size,
           &(struct okv_entry){.key_length = 3,
                               .value_length = 5,
                               .version = VERSION,
                               .key = TEXT("key"),
                               .value = TEXT("value")});
    append(image, size,
           &(struct okv_entry){.key_length = 1,
                               .value_length = 256,
                               .version = VERSION - 1,
                               .key = TEXT("a"),
                               .value = letters + 256});
    append(image, size,
           &(struct okv_entry){.key_length = 1,
                               .value_length = 0,
                               .version = VERSION - 0x100,
                               .expiry_ms = EXPIRY,
                               .key = TEXT("b"),
                               .value = TEXT("")});
    append(image, size,
           &(struct okv_entry){.key_length = 256,
                               .value_length = 1,
                               .version = VERSION - 0x10000,
                               .key = letters,
                               .value = TEXT("v")});
    append(image, size,
           &(struct okv_entry){.key_length = 1,
                               .value_length = 1,
                               .version = VERSION - 0x100000000,
                               .key = TEXT("d"),
                               .value = TEXT("v")});
}

static void append_references(uint8_t *image, uint32_t size)
{
    append(image, size,
           &(struct okv_entry){.tag = 0x1234,
                               .is_reference = true,
                               .key_in_extent = true,
                               .key_length = 2,
                               .value_length = 65535,
                               .version = VERSION - 0xff,
                               .extent = 0xfedcba98,
                               .checksum = 0x1122334455667788});
    append(image, size,
           &(struct okv_entry){.tag = 0xabcd,
                               .is_reference = true,
                               .key_in_extent = true,
                               .key_length = 1024,
                               .value_length = 65536,
                               .version = VERSION,
                               .expiry_ms = EXPIRY,
                               .extent = 0x1000,
                               .checksum = 0x0102030405060708});
    append(image, size,
           &(struct okv_entry){.is_reference = true,
                               .key_length = 3,
                               .value_length = 4096,
                               .version = VERSION,
                               .key = TEXT("key"),
                               .extent = 0x2000,
                               .checksum = 0x0807060504030201});
    append(image, size,
           &(struct okv_entry){.is_reference = true,
                               .key_length = 1,
                               .value_length = 0x4000000,
                               .version = VERSION,
                               .expiry_ms = 1,
                               .key = TEXT("e"),
                               .extent = 0x3000,
                               .checksum = 0x1817161514131211});
}

TEST(bucket_bytes)
{
    uint8_t letters[512], image[1024];
    const uint32_t length = 24 + 0x297;

    memset(letters, 'c', 256);
    memset(letters + 256, 'v', 256);
    memset(image, 0xee, sizeof image);
    okv_bucket_begin(image, 10, VERSION, 0xabcdef, 1);
    append_inline(image, sizeof image, letters);
    append_references(image, sizeof image);
    okv_bucket_seal(image, sizeof image, BOOT, 99);
    assert_bytes(image, length,
                 "c66fcbf73face154 060504030201 9702 efcdab000000 0a 01"
                 "00 03 05 00 6b6579 76616c7565"
                 "10 01 0001 01 61 76*256 "
                 "24 01 00 0001 a5a4a3a2a1a0 62"
                 "48 0001 01 00000100 63*256 76 "
                 "60 01 01 000000000100 64 76"
                 "01 02 ffff ff 3412 98badcfe0000 8877665544332211"
                 "1d 0004 00000100 00 a5a4a3a2a1a0 cdab 001000000000 0807060504030201"
                 "02 03 0010 00 6b6579 002000000000 0102030405060708"
                 "16 01 00000004 00 010000000000 65 003000000000 1112131415161718");
    for (size_t i = length; i < sizeof image; i++)
        assert_int_equal(image[i], 0);
    assert_int_equal(okv_bucket_check(image, sizeof image, BOOT, 99, 1), 0);
}

TEST(quiet_bytes)
{
    uint8_t image[256];

    okv_bucket_begin(image, 6, 7, 0, 0);
    append(image, sizeof image,
           &(struct okv_entry){.is_quiet = true,
                               .key_length = 3,
                               .value_length = 1,
                               .version = 6,
                               .key = TEXT("key"),
                               .value = TEXT("v")});
    append(image, sizeof image,
           &(struct okv_entry){.is_quiet = true,
                               .is_reference = true,
                               .key_length = 1,
                               .value_length = 300,
                               .version = 7,
                               .key = TEXT("e"),
                               .extent = 0x3000,
                               .checksum = 0x1817161514131211});
    assert_bytes(image + 24, 28,
                 "80 03 01 01 6b6579 76"
                 "82 01 2c01 00 65 003000000000 1112131415161718");
}

/* Bucket 100 was merged into bucket 36, whose depth is 6. */
TEST(merged_bucket_bytes)
{
    uint8_t image[256];

    okv_bucket_begin(image, 6, 7, 0, 0);
    okv_bucket_seal(image, sizeof image, BOOT, 100);
    assert_bytes(image, 24, "4f5614a5f3ce5917 070000000000 0000 000000000000 06 00");
}

/* A request and its reply, as they stand in the memory of a connection. */
TEST(local_ring_bytes)
{
    static const uint8_t request[] = "request", reply[] = "rep";
    struct okv_local_ring client, server;
    uint8_t bytes[16];
    uint32_t length, immediate;
    int fd;

    assert_int_equal(okv_local_ring_create(2000, &server, &fd), 0);
    assert_int_equal(okv_local_ring_map(fd, &client), 0);
    assert_int_equal(okv_local_ring_put(&client, request, 7, 0x11121314), 0);
    assert_int_equal(okv_local_ring_put(&client, request, 0, 0x15161718), 0);
    okv_local_ring_publish(&client);
    assert_int_equal(okv_local_ring_take(&server, bytes, sizeof bytes, &length, &immediate), 1);
    okv_local_ring_release(&server);
    assert_int_equal(okv_local_ring_put(&server, reply, 3, 0x80000001), 0);
    okv_local_ring_publish(&server);
    assert_int_equal(okv_local_ring_take(&client, bytes, sizeof bytes, &length, &immediate), 1);
    okv_local_ring_release(&client);
    assert_true(okv_local_ring_wait(&client));
    const uint8_t *memory = (const uint8_t *)server.page;
    assert_bytes(memory, 64, "6f6b7652 03000000 00100000 00*52");
    assert_bytes(memory + 64, 64, "18000000 00*60");
    assert_bytes(memory + 128, 64, "10000000 00*60");
    assert_bytes(memory + 192, 64, "01000000 00*60");
    assert_bytes(memory + 256, 64, "10000000 00*60");
    assert_bytes(memory + 320, 64, "10000000 00*60");
    assert_bytes(memory + 384, 64, "00*64");
    struct okv_local_advert_slot *place = &client.page->adverts[1];
    atomic_store(&place->key, 0x21222324);
    atomic_store(&place->size, 0x25262728);
    atomic_store(&place->page, 0x292a2b2c);
    assert_bytes(memory + 4096, 48, "00*16 24232221 28272625 2c2b2a29 00*20");
    assert_bytes(memory + 8192, 24, "07000000 14131211 72657175657374 00 00000000 18171615");
    assert_bytes(memory + 12288, 16, "03000000 01000080 726570 00*5");
    okv_local_ring_unmap(&client);
    okv_local_ring_unmap(&server);
    close(fd);
}

TEST(discovery_bytes)
{
    const struct okv_discovery_query query = {.nonce = 0x8877665544332211, .name = "cache"};
    const struct okv_discovery_answer answer = {
        .nonce = 0x8877665544332211,
        .boot_id = 0x0123456789abcdef,
        .items = 1200000,
        .memory_used = 0x0102030405,
        .name = "cache",
        .release = "0.3.0",
        .uri_count = 2,
        .uris = {"rdma://10.0.0.1:7471", "local:///run/okv.sock"},
    };
    struct okv_discovery_query back_query;
    struct okv_discovery_answer back;
    struct okv_wire_discovery wire;

    memset(&back, 0, sizeof back); /* with the bytes behind its fields */
    okv_discovery_query_encode(&query, &wire);
    assert_bytes(&wire, sizeof wire,
                 "6f6b7664 0100 8003 01000000 00000000 1122334455667788 6361636865 00*867");
    assert_int_equal(okv_discovery_query_decode((uint8_t *)&wire, sizeof wire, &back_query), 0);
    assert_memory_equal(&back_query, &query, sizeof query);
    okv_discovery_answer_encode(&answer, &wire);
    assert_bytes(&wire, sizeof wire,
                 "6f6b7664 0100 8003 02000000 00000000 1122334455667788 6361636865 00*27"
                 " efcdab8967452301 804f120000000000 0504030201000000 302e332e30 00*43"
                 " 72646d613a2f2f31302e302e302e313a37343731 00*172"
                 " 6c6f63616c3a2f2f2f72756e2f6f6b762e736f636b 00*555");
    assert_int_equal(okv_discovery_answer_decode((uint8_t *)&wire, sizeof wire, &back), 0);
    assert_memory_equal(&back, &answer, sizeof answer);
}
