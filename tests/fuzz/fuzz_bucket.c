/*
 * Bucket images and extents as a client sees them: any bytes, and images made of entries
 * whose bytes are then changed, with `used` and checksum made right, so that what walks a
 * whole image is reached.
 */
#include "shared/base/error.h"
#include "shared/format/bucket_edit.h"
#include "shared/format/hash.h"
#include "tests/fuzz/fuzz_input.h"

#define BOOT UINT64_C(0x5eedf00dcafe0001)
#define SEED 42
#define VERSION_MAX ((UINT64_C(1) << 48) - 1)

/* An image in memory of exactly its size. */
struct image {
    uint8_t *bytes;
    uint32_t size;
    uint64_t bucket;
    unsigned page;
};

static const uint8_t letters[] = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz0123456789+";

static struct okv_entry any_entry(struct fuzz_input *input, uint64_t version, const uint8_t *bytes)
{
    uint8_t kind = fuzz_u8(input);
    struct okv_entry entry = {
        .is_reference = kind % 3 != 0,
        .key_in_extent = kind % 3 == 1,
        .key_length = 1 + (kind & 0x40 ? fuzz_u16(input) % OKV_KEY_MAX : fuzz_below(input, 30)),
        .value_length = kind & 0x20 ? fuzz_u16(input) : fuzz_below(input, 60),
        .expiry_ms = kind & 0x80 ? fuzz_number(input) & VERSION_MAX : 0,
        .extent = fuzz_u16(input),
        .checksum = fuzz_u16(input),
        .key = bytes,
        .value = bytes,
    };
    uint64_t age = fuzz_number(input) & VERSION_MAX;

    if (entry.is_reference && okv_entry_extent_length(&entry) == 0)
        entry.value_length = 1;
    entry.version = age < version ? version - age : 0;
    entry.tag = okv_hash_tag(okv_hash_key(letters, entry.key_length % sizeof letters, SEED));
    return entry;
}

static bool is_same(const struct okv_entry *a, const struct okv_entry *b)
{
    return a->is_reference == b->is_reference && a->key_length == b->key_length &&
           a->value_length == b->value_length && a->version == b->version &&
           a->expiry_ms == b->expiry_ms &&
           (!a->is_reference || (a->key_in_extent == b->key_in_extent && a->extent == b->extent &&
                                 a->checksum == b->checksum)) &&
           (!a->key || memcmp(a->key, b->key, a->key_length) == 0) &&
           (!a->value || memcmp(a->value, b->value, a->value_length) == 0);
}

/* Entries, each of which must read as it was written. */
static void add_entries(struct fuzz_input *input, struct image *image)
{
    static const uint8_t bytes[65536];
    uint64_t version = okv_bucket_version(image->bytes);

    for (unsigned n = fuzz_below(input, 12); n > 0; n--) {
        const uint8_t *from = fuzz_u8(input) & 1 ? letters : bytes;
        struct okv_entry entry = any_entry(input, version, from), read;
        uint32_t at = okv_bucket_used(image->bytes);

        if (from == letters && entry.key_length >= sizeof letters)
            entry.key_length %= sizeof letters - 1, entry.key_length++;
        if (from == letters && entry.value_length >= sizeof letters)
            entry.value = bytes;
        if (okv_bucket_append(image->bytes, image->size, &entry))
            continue;
        FUZZ_CHECK(okv_bucket_used(image->bytes) == at + okv_entry_size(&entry, version));
        FUZZ_CHECK(okv_bucket_next(image->bytes, &at, &read) == 1);
        FUZZ_CHECK(at == okv_bucket_used(image->bytes) && is_same(&read, &entry));
    }
}

/* Bytes of entries are changed, and `used` is as it was, shorter, or up to the end. */
static void spoil(struct fuzz_input *input, struct image *image)
{
    const uint32_t header = (uint32_t)sizeof(struct okv_wire_bucket);
    uint32_t used = okv_bucket_used(image->bytes);
    uint8_t choice = fuzz_u8(input);

    if (choice & 1)
        used = fuzz_u16(input) % (okv_bucket_room(image->size) + 1);
    ((struct okv_wire_bucket *)image->bytes)->used = okv_le16_of((uint16_t)used);
    for (unsigned n = choice >> 5; n > 0 && used > 0; n--)
        image->bytes[header + fuzz_u16(input) % used] = fuzz_u8(input);
    if (choice & 2) {
        uint32_t from = fuzz_u16(input) % (used + 1);
        fuzz_copy(input, image->bytes + header + from, used - from);
    }
}

static struct image make_image(struct fuzz_input *input)
{
    uint8_t choice = fuzz_u8(input);
    struct image image = {
        .size = OKV_BUCKET_SIZE_MIN << (choice & 3) % 5,
        .bucket = fuzz_number(input) & ((UINT64_C(1) << 47) - 1),
        .page = fuzz_below(input, OKV_BUCKET_PAGES_MAX),
    };

    image.bytes = calloc(1, image.size);
    FUZZ_CHECK(image.bytes);
    okv_bucket_begin(image.bytes, fuzz_u8(input), fuzz_number(input) & VERSION_MAX,
                     fuzz_number(input) & VERSION_MAX, image.page);
    add_entries(input, &image);
    if (choice & 4)
        spoil(input, &image);
    okv_bucket_seal(image.bytes, image.size, BOOT, image.bucket);
    FUZZ_CHECK(okv_bucket_check(image.bytes, image.size, BOOT, image.bucket + 1, image.page) ==
               OKV_ECORRUPT);
    FUZZ_CHECK(okv_bucket_check(image.bytes, image.size, BOOT ^ 8, image.bucket, image.page) ==
               OKV_ECORRUPT);
    return image;
}

static struct image take_image(struct fuzz_input *input)
{
    struct image image = {.size = OKV_BUCKET_SIZE_MIN << fuzz_below(input, 5),
                          .bucket = fuzz_u8(input)};

    image.bytes = malloc(image.size);
    FUZZ_CHECK(image.bytes);
    fuzz_copy(input, image.bytes, image.size);
    return image;
}

static void check_inside(const struct image *image, const struct okv_entry *entry, uint32_t from,
                         uint32_t to)
{
    const uint8_t *begin = image->bytes + sizeof(struct okv_wire_bucket) + from;
    const uint8_t *end = image->bytes + sizeof(struct okv_wire_bucket) + to;

    FUZZ_CHECK(to >= from + OKV_ENTRY_SIZE_MIN && to <= okv_bucket_used(image->bytes));
    FUZZ_CHECK(entry->key_length >= 1 && entry->key_length <= OKV_KEY_MAX);
    FUZZ_CHECK(entry->version <= okv_bucket_version(image->bytes));
    if (entry->key_in_extent)
        FUZZ_CHECK(entry->is_reference && !entry->key);
    else
        FUZZ_CHECK(entry->key > begin && entry->key + entry->key_length <= end);
    if (entry->is_reference)
        FUZZ_CHECK(!entry->value && okv_entry_extent_length(entry) > 0);
    else
        FUZZ_CHECK(entry->value + entry->value_length == end);
}

/* An extent is what its reference says only with its bytes, its key and its checksum. */
static void read_extent(struct fuzz_input *input, const struct okv_entry *found)
{
    uint64_t length = okv_entry_extent_length(found);
    struct okv_entry entry = *found;

    if (length > 4096)
        return;
    uint8_t *extent = malloc(length);
    FUZZ_CHECK(extent);
    memset(extent, 'a', length);
    fuzz_copy(input, extent, length < 16 ? length : 16);
    int rc = okv_extent_check(&entry, extent, BOOT, letters, 3);
    FUZZ_CHECK(rc == OKV_ECORRUPT || entry.checksum == okv_extent_checksum(extent, length, BOOT));
    entry.checksum = okv_extent_checksum(extent, length, BOOT);
    rc = okv_extent_check(&entry, extent, BOOT, letters, 3);
    FUZZ_CHECK(rc == 0 || (rc == OKV_ENOTFOUND && entry.key_in_extent));
    if (rc == 0 && entry.key_in_extent)
        FUZZ_CHECK(entry.key_length == 3 && memcmp(extent, letters, 3) == 0);
    free(extent);
}

static void walk(struct fuzz_input *input, const struct image *image)
{
    struct okv_entry entry;
    uint32_t at = 0, before = 0;
    int rc;

    while ((rc = okv_bucket_next(image->bytes, &at, &entry)) == 1) {
        check_inside(image, &entry, before, at);
        before = at;
        if (entry.is_reference)
            read_extent(input, &entry);
    }
    FUZZ_CHECK(at == before && (rc == 0 || rc == OKV_ECORRUPT));
    FUZZ_CHECK(rc != 0 || at == okv_bucket_used(image->bytes));
}

static void find(struct fuzz_input *input, const struct image *image)
{
    uint32_t key_length = 1 + fuzz_below(input, sizeof letters - 1);
    uint8_t *key = malloc(key_length);
    uint32_t at = 0, before = 0;
    struct okv_entry entry;
    int rc;

    FUZZ_CHECK(key);
    memcpy(key, letters, key_length);
    uint64_t hash = okv_hash_key(key, key_length, SEED);
    while ((rc = okv_bucket_find(image->bytes, hash, key, key_length, &at, &entry)) == 1) {
        check_inside(image, &entry, before, at);
        FUZZ_CHECK(entry.key_length == key_length);
        FUZZ_CHECK(!entry.key || memcmp(entry.key, key, key_length) == 0);
        FUZZ_CHECK(entry.key || entry.tag == okv_hash_tag(hash));
        before = at;
    }
    FUZZ_CHECK(rc == 0 || rc == OKV_ECORRUPT);
    free(key);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    struct image image = fuzz_u8(&input) & 1 ? take_image(&input) : make_image(&input);

    if (okv_bucket_check(image.bytes, image.size, BOOT, image.bucket, image.page) == 0) {
        FUZZ_CHECK(okv_bucket_depth(image.bytes) <= OKV_DEPTH_MAX);
        FUZZ_CHECK(okv_linear_learn(1 + fuzz_number(&input) % OKV_BUCKETS_MAX, image.bucket,
                                    okv_bucket_depth(image.bytes)) <= OKV_BUCKETS_MAX);
        walk(&input, &image);
        find(&input, &image);
    }
    free(image.bytes);
    return 0;
}
