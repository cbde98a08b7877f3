#include "tests/fuzz/fuzz_hostile.h"

#include "shared/base/error.h"
#include "shared/format/bucket_edit.h"
#include "shared/format/hash.h"

#define BOOT UINT64_C(0x5eedf00dcafe0001)
#define SEED 42
#define REGION (UINT64_C(1) << 20)
#define REGION_MAX (UINT64_C(1) << 44)
#define SEGMENTS_AT 16384u
#define CHAINS_AT 0xa0000u
#define HEAP_AT 0xc0000u
#define BITS48 ((UINT64_C(1) << 48) - 1)
/* Bits of a version that goes with a number of too few bytes. */
#define SHORT_NUMBER 0x18u
/* Images of one READ that are more than empty buckets. */
#define IMAGES_MAX 4

void hostile_init(struct hostile *server, struct fuzz_input *input)
{
    memset(server, 0, sizeof *server);
    server->input = input;
    memset(server->heap, 'h', sizeof server->heap);
}

const uint8_t *hostile_key(unsigned number, uint32_t *length)
{
    static const uint8_t keys[] = "abcdefgh";
    static const uint8_t long_key[OKV_KEY_MAX] = "long";

    *length = number < 6 ? 1 + number % 2 : number == 6 ? 40 : OKV_KEY_MAX;
    return number < 6 ? keys + number : long_key;
}

/* ---- the handshake ---- */

/* Over RDMA a client cannot see how large it is. */
static uint64_t choose_region(struct fuzz_input *input)
{
    uint8_t choice = fuzz_u8(input);

    if (choice >= 0xf0)
        return fuzz_number(input) % REGION_MAX;
    return choice & 1 ? REGION << (choice >> 1) % 25 : REGION;
}

static void choose_lease(struct hostile *server)
{
    struct fuzz_input *input = server->input;

    if (!(fuzz_u8(input) & 1))
        return;
    server->welcome.features |= OKV_FEATURE_LEASE;
    server->welcome.lease_ms = 1 + fuzz_u16(input);
    server->welcome.epoch = fuzz_u8(input) & 1;
    server->welcome.lease_clock_us = fuzz_number(input);
    server->welcome.valid_until_us = fuzz_number(input);
}

static void welcome_choose(struct hostile *server, const struct okv_connect_params *params)
{
    struct fuzz_input *input = server->input;
    uint8_t choice = fuzz_u8(input);
    struct okv_hello hello;

    FUZZ_CHECK(okv_hello_decode(params->hello, params->hello_length, &hello) == 0);
    server->welcome = (struct okv_welcome){
        .features = hello.features & ~(uint32_t)OKV_FEATURE_LEASE,
        .rkey = 9,
        .boot_id = BOOT + (choice >> 7 ? server->connects : 0),
        .region_length = REGION,
        .directory_offset = OKV_DIRECTORY_OFFSET,
        .bucket_count = 1 + (choice & 15),
        .hash_seed = SEED,
        .bucket_size =
            choice & 16 ? OKV_BUCKET_SIZE_MIN << fuzz_below(input, 5) : OKV_BUCKET_SIZE_DEFAULT,
        .segment_buckets = OKV_SEGMENT_BUCKETS_MIN,
        .slot_size = choice & 32 ? (uint32_t)OKV_SLOT_SIZE_MIN : OKV_SLOT_SIZE_DEFAULT,
        .credits = 1 + fuzz_below(input, 16) % params->limits.credits,
        .max_key = OKV_KEY_MAX,
        .max_value = 20000,
        .session_id = 1,
        .clock_ms = 5000000,
        .rights = OKV_RIGHTS_ALL,
        .resumed = choice >> 6 & 1,
        .remember_ms = 60000,
    };
    if (choice & 16) {
        server->welcome.bucket_count = 1 + fuzz_number(input) % OKV_BUCKETS_MAX;
        server->welcome.segment_buckets = OKV_SEGMENT_BUCKETS_MIN << fuzz_below(input, 25);
        server->welcome.clock_ms = fuzz_number(input) | 1;
        server->welcome.region_length = choose_region(input);
        choose_lease(server);
    }
}

static int refuse(struct hostile *server, struct okv_answer *out)
{
    struct fuzz_input *input = server->input;
    const struct okv_reject reject = {
        .version = fuzz_u8(input), .reason = fuzz_below(input, 12), .detail = fuzz_u8(input)};

    okv_reject_encode(&reject, (struct okv_wire_reject *)out->bytes);
    out->rejected = true;
    out->length =
        fuzz_u8(input) & 1 ? fuzz_below(input, OKV_REJECT_MAX) : sizeof(struct okv_wire_reject);
    return OKV_EREFUSED;
}

int hostile_connect(struct hostile *server, const struct okv_connect_params *params,
                    struct okv_answer *out)
{
    static const int failures[] = {OKV_EREFUSED, OKV_ETIMEDOUT, OKV_EIO, OKV_EPROTO, OKV_ENOMEM};
    struct fuzz_input *input = server->input;
    uint8_t choice = fuzz_u8(input);

    *out = (struct okv_answer){.length = 0};
    if (++server->connects > 1 && input->left == 0)
        return OKV_EREFUSED;
    if (choice >= 0xf8)
        return failures[choice % (sizeof failures / sizeof *failures)];
    if (choice >= 0xf0)
        return refuse(server, out);
    welcome_choose(server, params);
    memset(server->directory, 0, sizeof server->directory);
    server->bucket_count = server->welcome.bucket_count;
    okv_welcome_encode(&server->welcome, (struct okv_wire_welcome *)out->bytes);
    out->length = sizeof(struct okv_wire_welcome);
    if (choice >= 0xe0)
        out->bytes[8 + fuzz_below(input, sizeof(struct okv_wire_welcome) - 8)] = fuzz_u8(input);
    if (choice >= 0xec)
        out->length = fuzz_below(input, OKV_WELCOME_MAX + 1);
    if (choice >= 0xe0 && okv_welcome_decode(out->bytes, out->length, &server->welcome) == 0)
        server->bucket_count = server->welcome.bucket_count;
    return 0;
}

/* ---- entries ---- */

/* The extent is in the heap, with its key and its checksum, unless the input wants it else. */
static void refer(struct hostile *server, struct okv_entry *entry)
{
    struct fuzz_input *input = server->input;
    uint8_t choice = fuzz_u8(input);

    entry->is_reference = true;
    entry->key_in_extent = choice & 1;
    entry->value_length = 1 + (choice & 2 ? fuzz_u16(input) : fuzz_u8(input));
    entry->extent = HEAP_AT + fuzz_u16(input) % 4096;
    if (choice >= 0xc0)
        entry->extent = fuzz_number(input) & BITS48;
    if (choice >= 0xe0)
        entry->value_length = (uint32_t)fuzz_number(input);
    uint64_t length = okv_entry_extent_length(entry);
    entry->checksum = choice;
    if (length == 0)
        entry->value_length = 1;
    if (entry->extent < HEAP_AT || entry->extent > HEAP_AT + HOSTILE_HEAP_SIZE ||
        length > HEAP_AT + HOSTILE_HEAP_SIZE - entry->extent || choice & 4)
        return;
    uint8_t *extent = server->heap + (entry->extent - HEAP_AT);
    if (entry->key_in_extent)
        memcpy(extent, entry->key, entry->key_length);
    entry->checksum = okv_extent_checksum(extent, length, server->welcome.boot_id);
}

static void add_entries(struct hostile *server, uint8_t *image)
{
    static const uint8_t value[300] = "value";
    struct fuzz_input *input = server->input;
    uint64_t version = okv_bucket_version(image);

    for (unsigned n = 1 + fuzz_below(input, 8); n > 0; n--) {
        uint8_t choice = fuzz_u8(input);
        struct okv_entry entry = {.value = value, .value_length = choice};
        uint64_t age = choice & 16 ? fuzz_number(input) & BITS48 : choice >> 5;

        entry.key = hostile_key(choice & 7, &entry.key_length);
        entry.tag =
            okv_hash_tag(okv_hash_key(entry.key, entry.key_length, server->welcome.hash_seed));
        entry.version = age < version ? version - age : 0;
        if (choice & 32)
            entry.expiry_ms = fuzz_number(input) & BITS48;
        if (choice & 8)
            refer(server, &entry);
        okv_bucket_append(image, server->welcome.bucket_size, &entry);
    }
}

/* Bytes of entries are any, and `used` may reach further. */
static void spoil(struct hostile *server, uint8_t *image)
{
    struct fuzz_input *input = server->input;
    uint32_t used = okv_bucket_used(image);
    uint8_t choice = fuzz_u8(input);

    if (choice & 1)
        used = fuzz_u16(input) % (okv_bucket_room(server->welcome.bucket_size) + 1);
    ((struct okv_wire_bucket *)image)->used = okv_le16_of((uint16_t)used);
    for (unsigned n = choice >> 5; n > 0 && used > 0; n--)
        image[sizeof(struct okv_wire_bucket) + fuzz_u16(input) % used] = fuzz_u8(input);
}

/* ---- images ---- */

/* Where the next page is, as the image says; it is remembered which page that is. */
static uint64_t choose_chain(struct hostile *server, uint64_t bucket, unsigned page)
{
    uint8_t choice = fuzz_u8(server->input);
    struct hostile_chain *chain = &server->chains[choice % HOSTILE_CHAINS];

    *chain = (struct hostile_chain){
        .offset = CHAINS_AT + choice % HOSTILE_CHAINS * (uint64_t)server->welcome.bucket_size,
        .bucket = bucket,
        .page = page + 1,
    };
    if (choice >= 0xe0)
        chain->offset = fuzz_number(server->input) & BITS48;
    server->endless |= (choice & 0xf0) == 0x70;
    return chain->offset;
}

enum image_choice {
    IMAGE_ENTRIES = 1,
    IMAGE_CHAIN = 2,
    IMAGE_DEPTH = 4,
    IMAGE_VERSION = 8,
    IMAGE_SPOILED = 16,
    IMAGE_TORN = 32,
    IMAGE_ELSEWHERE = 64,
    IMAGE_ANY = 128,
};

static void write_image(struct hostile *server, uint8_t *image, uint64_t bucket, unsigned page)
{
    struct fuzz_input *input = server->input;
    uint32_t size = server->welcome.bucket_size;
    uint8_t choice = fuzz_u8(input);
    unsigned depth = okv_linear_depth(bucket, server->bucket_count);

    memset(image, 0, size);
    /* What is hostile in an image is worth little in most of them. */
    if (choice & (IMAGE_TORN | IMAGE_ELSEWHERE | IMAGE_ANY) && fuzz_u8(input) & 3)
        choice &= IMAGE_ENTRIES | IMAGE_CHAIN | IMAGE_SPOILED;
    if (page > 0 && server->endless)
        choice = IMAGE_CHAIN;
    if (choice & IMAGE_DEPTH)
        depth = fuzz_u8(input) % 50;
    okv_bucket_begin(image, depth, choice & IMAGE_VERSION ? fuzz_number(input) & BITS48 : 9,
                     choice & IMAGE_CHAIN ? choose_chain(server, bucket, page) : 0, page);
    if (choice & IMAGE_ENTRIES)
        add_entries(server, image);
    if (choice & IMAGE_SPOILED)
        spoil(server, image);
    okv_bucket_seal(image, size, server->welcome.boot_id,
                    choice & IMAGE_ELSEWHERE ? bucket + 1 : bucket);
    if (choice & IMAGE_TORN)
        image[fuzz_u16(input) % size] ^= 1;
    if (choice & IMAGE_ANY)
        fuzz_copy(input, image, 64);
}

/* ---- the region ---- */

static void read_superblock(struct hostile *server, uint8_t *out, uint32_t length)
{
    const struct okv_welcome *welcome = &server->welcome;
    const struct okv_superblock block = {
        .boot_id = welcome->boot_id,
        .hash_seed = welcome->hash_seed,
        .region_length = welcome->region_length,
        .directory_offset = welcome->directory_offset,
        .directory_entries = OKV_DIRECTORY_ENTRIES,
        .segment_buckets = welcome->segment_buckets,
        .bucket_size = welcome->bucket_size,
    };
    struct okv_wire_superblock wire;

    okv_superblock_encode(&block, &wire);
    if (fuzz_rarely(server->input, 64))
        ((uint8_t *)&wire)[fuzz_below(server->input, sizeof wire)] ^= 1;
    memset(out, 0, length);
    memcpy(out, &wire, length < sizeof wire ? length : sizeof wire);
}

static void read_status(struct hostile *server, uint8_t *out)
{
    struct fuzz_input *input = server->input;
    uint8_t choice = fuzz_u8(input);
    struct okv_table_status status = {.clock_ms = 5000000 + choice,
                                      .bucket_count = server->bucket_count};

    if (choice & 1)
        status.bucket_count = 1 + fuzz_u8(input);
    if (choice >= 0xe0)
        status.bucket_count = fuzz_number(input);
    if (choice & 2)
        status.clock_ms = fuzz_number(input);
    if (server->welcome.lease_ms)
        status.lease = (struct okv_table_lease){.valid_until_us = fuzz_number(input),
                                                .epoch = choice >> 2 & 1};
    okv_status_encode(&status, server->welcome.boot_id, (struct okv_wire_status *)out);
    if (choice >= 0xf8)
        out[fuzz_below(input, sizeof(struct okv_wire_status))] ^= 1;
    if (status.bucket_count >= 1 && status.bucket_count <= OKV_BUCKETS_MAX)
        server->bucket_count = status.bucket_count;
}

static void read_directory(struct hostile *server, uint64_t first, uint8_t *out, uint32_t length)
{
    struct fuzz_input *input = server->input;
    uint8_t choice = fuzz_u8(input);

    for (uint32_t i = 0; i < length / 8; i++) {
        uint64_t segment = first + i;
        uint64_t at = segment < 4 ? SEGMENTS_AT + segment * 32768 : 0;
        if (segment < 8 && choice & 1u << (segment & 7))
            at = fuzz_rarely(input, 4) ? fuzz_number(input) : SEGMENTS_AT + fuzz_u16(input);
        if (segment < OKV_DIRECTORY_ENTRIES)
            server->directory[segment] = at;
        okv_put_u64(out + (size_t)i * 8, at);
    }
}

/* Which page of which bucket is told to be at an offset. */
static bool find_image(const struct hostile *server, uint64_t offset, uint64_t *bucket,
                       unsigned *page)
{
    uint64_t size = server->welcome.bucket_size;
    uint64_t segment_size = size * server->welcome.segment_buckets;

    for (unsigned i = 0; i < HOSTILE_CHAINS; i++) {
        if (server->chains[i].page && server->chains[i].offset == offset) {
            *bucket = server->chains[i].bucket;
            *page = server->chains[i].page;
            return true;
        }
    }
    for (uint64_t i = 0; i < OKV_DIRECTORY_ENTRIES; i++) {
        uint64_t at = server->directory[i];
        if (at && offset >= at && offset - at < segment_size && (offset - at) % size == 0) {
            *bucket = i * server->welcome.segment_buckets + (offset - at) / size;
            *page = 0;
            return true;
        }
    }
    return false;
}

static void read_images(struct hostile *server, uint64_t bucket, unsigned page, uint8_t *out,
                        uint32_t length)
{
    struct fuzz_input none = {NULL, 0};
    struct fuzz_input *input = server->input;
    uint32_t size = server->welcome.bucket_size;

    for (uint32_t i = 0; i < length / size; i++) {
        server->input = i < IMAGES_MAX ? input : &none;
        write_image(server, out + (size_t)i * size, bucket + i, page);
    }
    server->input = input;
}

static void read_anything(struct hostile *server, uint64_t offset, uint8_t *out, uint32_t length)
{
    memset(out, 0, length);
    if (offset >= HEAP_AT && offset < HEAP_AT + HOSTILE_HEAP_SIZE) {
        uint64_t there = HEAP_AT + HOSTILE_HEAP_SIZE - offset;
        memcpy(out, server->heap + (offset - HEAP_AT), there < length ? there : length);
        return;
    }
    fuzz_copy(server->input, out, length < 64 ? length : 64);
}

void hostile_read(struct hostile *server, uint64_t offset, uint8_t *out, uint32_t length)
{
    uint64_t directory = server->welcome.directory_offset;
    uint64_t bucket;
    unsigned page;

    server->reads++;
    if (offset == 0)
        read_superblock(server, out, length);
    else if (offset == OKV_STATUS_OFFSET && length == sizeof(struct okv_wire_status))
        read_status(server, out);
    else if (offset >= directory && offset - directory < OKV_DIRECTORY_SIZE && length % 8 == 0)
        read_directory(server, (offset - directory) / 8, out, length);
    else if (length % server->welcome.bucket_size == 0 &&
             find_image(server, offset, &bucket, &page))
        read_images(server, bucket, page, out, length);
    else
        read_anything(server, offset, out, length);
}

/* ---- replies ---- */

static void choose_value(struct hostile *server, struct okv_reply_message *reply, uint8_t *value)
{
    struct fuzz_input *input = server->input;

    reply->value = value;
    switch (reply->opcode) {
    case OKV_OP_GET:
    case OKV_OP_GET_TOUCH:
    case OKV_OP_STAT:
        reply->value_length = fuzz_u8(input) & 1 ? fuzz_u16(input) % 12000 : fuzz_u8(input);
        break;
    case OKV_OP_INCR:
    case OKV_OP_INCR_TTL:
    case OKV_OP_APPEND:
        okv_put_u64(value, fuzz_number(input));
        reply->value_length = sizeof(struct okv_wire_number);
        if ((reply->version & SHORT_NUMBER) == SHORT_NUMBER)
            reply->value_length = value[0] % 8u;
        break;
    case OKV_OP_FLUSH:
        okv_put_u64(value, fuzz_below(input, 4));
        okv_put_u64(value + 8, fuzz_u8(input));
        reply->value_length = sizeof(struct okv_wire_flush);
        break;
    default:
        break;
    }
}

/* One field of the message is wrong. */
static void spoil_reply(struct hostile *server, struct okv_reply_message *reply, uint8_t choice)
{
    struct fuzz_input *input = server->input;

    switch (choice & 7) {
    case 0:
        reply->sequence = fuzz_number(input);
        break;
    case 1:
        reply->slot = (uint16_t)fuzz_number(input);
        break;
    case 2:
        reply->opcode = fuzz_u8(input) & 0x7f;
        break;
    case 3:
        reply->value_length = fuzz_u16(input) % (choice & 8 ? 12 : 2048);
        break;
    case 4:
        reply->opcode = OKV_OP_GOODBYE;
        reply->status = OKV_ESHUTDOWN;
        break;
    default:
        reply->sequence += fuzz_u8(input) - 128u;
        break;
    }
}

bool hostile_reply(struct hostile *server, const struct okv_request_message *request, uint8_t *room,
                   uint32_t *length, uint32_t *immediate, bool *has_immediate)
{
    static uint8_t value[OKV_SLOT_SIZE_DEFAULT];
    struct fuzz_input *input = server->input;
    uint8_t choice = fuzz_u8(input);
    struct okv_reply_message reply = {
        .opcode = request->opcode,
        .slot = request->slot,
        .sequence = request->sequence,
        .version = 1 + choice,
        .status = choice & 1 ? 0 : -(int)fuzz_below(input, -OKV_ERROR_LAST + 1),
    };

    if (input->left == 0)
        return false;
    if (reply.status == 0)
        choose_value(server, &reply, value);
    if (choice >= 0xe0)
        spoil_reply(server, &reply, choice);
    reply.value = value;
    *length = okv_reply_encode(&reply, room);
    *immediate = okv_immediate(reply.opcode, reply.slot) | OKV_IMMEDIATE_REPLY;
    *has_immediate = true;
    if (choice >= 0xd8 && choice < 0xe0) {
        *length -= fuzz_below(input, 64) % (*length + 1);
        *has_immediate = fuzz_u8(input) & 1;
        *immediate ^= UINT32_C(1) << fuzz_below(input, 32);
    }
    return choice < 0xc8 || choice >= 0xd8;
}
