/*
 * A get or a head, one-sided: docs/consistency.md section 3.
 *
 *            +------- torn, or in another bucket: again (bounded) ------+
 *            v                                                          |
 *   READ bucket -> whole? its depth? -> entry? -- inline ------------> hit
 *     (and the hinted extent)           |----- none, no chain -------> miss
 *            ^                          |----- chain: READ the next part
 *            |                          +----- reference: READ the extent
 *            +---- extent torn, freed or reused ---------+--- whole, right key -> hit
 *
 * Nothing that was read is believed before its checksum held, and every offset
 * that it leads to is checked against the region before it is used. Which bucket
 * is READ first, and where it lies, are guesses; only the image says what is so.
 */
#include "client/handle.h"

#include <string.h>

#include "shared/base/error.h"
#include "shared/format/hash.h"

/* A bucket under constant writing tears nearly every image for as long as the
 * writer copies it; past this many the server is asked instead. */
#define LOOKUP_ATTEMPTS 16
/* After the server had no room for the value in its answer. */
#define LOOKUP_ATTEMPTS_ALL 64
/* Images that send a reader on to another bucket, before an old place is suspected. */
#define REDIRECTS_MAX 3
/* Where STEP_CONFIRM puts the bucket's image: behind the key, in the extent's buffer. */
#define CONFIRM_OFFSET 2048u
_Static_assert(OKV_KEY_MAX <= CONFIRM_OFFSET &&
                   CONFIRM_OFFSET + OKV_BUCKET_SIZE_MAX <= EXTENT_BUFFER_SIZE,
               "room for a key and an image");

/* ---- reading ---- */

/* READs what the directory says of the place of the bucket, which comes next. */
static void read_entry(okv *handle, struct operation *operation)
{
    operation->step = STEP_DIRECTORY;
    operation->lookup.image_wanted = true;
    operation_advance(handle, operation);
}

/* Adds the READ of a bucket's first part at once where nothing is in its way, as is nearly always
 * so; what operation_advance() comes to otherwise. */
static bool post_bucket(okv *handle, struct operation *operation)
{
    if (operation->blocked || !link_is_up(handle) || !extent_is_posted(operation))
        return false;
    struct okv_read *read = reads_add(handle, operation, READ_IMAGE, handle->table.bucket_size);
    if (!read)
        return false;
    read->memory = handle->memory;
    read->offset = operation->lookup.part_offset;
    read->destination = operation->image;
    operation->lookup.image_wanted = false;
    return true;
}

static void read_bucket(okv *handle, struct operation *operation, uint64_t bucket)
{
    struct lookup *lookup = &operation->lookup;

    lookup->bucket = bucket;
    lookup->part = 0;
    if (!directory_locate(handle, bucket, &lookup->part_offset)) {
        read_entry(handle, operation);
        return;
    }
    operation->step = STEP_BUCKET;
    if (post_bucket(handle, operation))
        return;
    lookup->image_wanted = true;
    operation_advance(handle, operation);
}

/* What a step READs besides an extent. */
static int post_image(okv *handle, struct operation *operation)
{
    struct lookup *lookup = &operation->lookup;
    bool of_entry = operation->step == STEP_DIRECTORY;
    struct okv_read *read =
        reads_add(handle, operation, of_entry ? READ_DIRECTORY : READ_IMAGE,
                  of_entry ? (uint32_t)sizeof(okv_le64) : handle->table.bucket_size);

    lookup->image_wanted = !read;
    if (!read)
        return OKV_EAGAIN;
    read->memory = handle->memory;
    read->offset = of_entry ? directory_entry(handle, lookup->bucket) : lookup->part_offset;
    read->destination = operation->image;
    if (of_entry)
        read->destination = operation->extent;
    else if (operation->step == STEP_CONFIRM)
        read->destination = operation->extent + CONFIRM_OFFSET;
    return 0;
}

int lookup_post(okv *handle, struct operation *operation)
{
    if (operation->lookup.image_wanted) {
        int rc = post_image(handle, operation);
        if (rc)
            return rc;
    }
    return extent_post(handle, operation);
}

/* ---- when what was read leads nowhere ---- */

/* Counts an attempt. False when it was the last: the operation has gone another way. */
static bool may_try_again(okv *handle, struct operation *operation)
{
    struct lookup *lookup = &operation->lookup;

    if (++lookup->attempts < lookup->limit)
        return true;
    if (lookup->asked) {
        operation_end(handle, operation, OKV_ECORRUPT);
        return false;
    }
    lookup->asked = true;
    handle->counters.fallbacks++;
    request_start(handle, operation);
    return false;
}

static void read_again(okv *handle, struct operation *operation, uint64_t bucket)
{
    if (may_try_again(handle, operation))
        read_bucket(handle, operation, bucket);
}

/* The bucket that the present estimate gives for the key, or, when that is the one
 * that was looked at in vain, the one that it would have been split from. */
static uint64_t another_bucket(const okv *handle, const struct lookup *lookup)
{
    uint64_t likely = okv_linear_bucket(lookup->hash, handle->bucket_count);

    if (likely < lookup->bucket)
        return likely;
    if (lookup->bucket == 0)
        return 0;
    return okv_hash_bucket(lookup->bucket, okv_linear_level(lookup->bucket));
}

/* No image of the bucket: it was torn, or its place is not what it was. First the bucket is
 * READ again, then the directory's entry for it, then a bucket of lower number: its image
 * tells by its depth whether the other one is there at all. Once there was a good image,
 * tearing is the likely cause, and the place is doubted only half the time. */
static void image_rejected(okv *handle, struct operation *operation)
{
    struct lookup *lookup = &operation->lookup;

    unsigned doubt = ++lookup->doubts % (lookup->settled ? 4 : 2);
    if (lookup->doubts == 1 || (lookup->settled && doubt < 2)) {
        read_again(handle, operation, lookup->bucket);
    } else if (doubt % 2 == 0) {
        clock_status_soon(handle);
        if (may_try_again(handle, operation))
            read_entry(handle, operation);
    } else {
        read_again(handle, operation, another_bucket(handle, lookup));
    }
}

static void entry_done(okv *handle, struct operation *operation)
{
    struct lookup *lookup = &operation->lookup;
    uint64_t place;

    directory_learn(handle, lookup->bucket, operation->extent);
    if (directory_locate(handle, lookup->bucket, &place))
        read_bucket(handle, operation, lookup->bucket);
    else
        read_again(handle, operation, another_bucket(handle, lookup));
}

/* A good image says that the key is in another bucket, and the count that was learnt from it,
 * in which; the depth alone may name one that is not there yet. Going to and fro between two
 * means that one of them is READ where it was once. */
static void redirect(okv *handle, struct operation *operation)
{
    struct lookup *lookup = &operation->lookup;

    handle->counters.wrong_depths++;
    if (!may_try_again(handle, operation))
        return;
    lookup->bucket = okv_linear_bucket(lookup->hash, handle->bucket_count);
    lookup->part = 0;
    if (++lookup->redirects >= REDIRECTS_MAX)
        read_entry(handle, operation);
    else
        read_bucket(handle, operation, lookup->bucket);
}

/* ---- what was found ---- */

/* The item is there; `value` is where it was read to, NULL when it is unwanted. */
static void item_found(okv *handle, struct operation *operation, const struct okv_entry *entry,
                       const uint8_t *value)
{
    struct okv_result *result = &operation->result;

    result->length = entry->value_length;
    if (operation->kind == OPERATION_GET && entry->value_length > operation->buffer_size) {
        operation_end(handle, operation, OKV_ETOOSMALL);
        return;
    }
    if (operation->kind == OPERATION_GET && value && entry->value_length &&
        value != operation->buffer)
        memcpy(operation->buffer, value, entry->value_length);
    int64_t ttl_ms = clock_ttl_ms(handle, entry->expiry_ms);
    result->ttl_ms = ttl_ms > 0 ? ttl_ms : 1; /* it expired while its extent was read */
    result->version = entry->version;
    operation_end(handle, operation, OKV_OK);
}

/* True when the value itself is of no use to the caller. */
static bool value_is_unwanted(const struct operation *operation, const struct okv_entry *entry)
{
    return operation->kind == OPERATION_HEAD || entry->value_length > operation->buffer_size;
}

static void read_extent(okv *handle, struct operation *operation)
{
    const struct okv_entry *reference = &operation->lookup.reference;
    bool unwanted = value_is_unwanted(operation, reference);

    if (unwanted && !reference->key_in_extent) {
        item_found(handle, operation, reference, NULL);
        return;
    }
    /* Only the first part can be asked again whether it still has the reference: another one
     * may have been given up with its old bytes in it. */
    if (unwanted && operation->lookup.part == 0 &&
        okv_entry_extent_length(reference) > EXTENT_BUFFER_SIZE) {
        operation->step = STEP_KEY;
        extent_begin_key(operation, reference);
    } else {
        operation->step = STEP_EXTENT;
        int rc = extent_begin(handle, operation, reference);
        if (rc) {
            operation_end(handle, operation, rc);
            return;
        }
    }
    operation_advance(handle, operation);
}

/* The part in operation->image has no further candidate. */
static void follow_chain(okv *handle, struct operation *operation)
{
    struct lookup *lookup = &operation->lookup;
    uint64_t chain = okv_bucket_chain(operation->image);

    if (chain == 0) {
        operation_end(handle, operation, OKV_ENOTFOUND);
        return;
    }
    if (lookup->part + 1 >= OKV_BUCKET_PARTS_MAX ||
        !okv_range_inside(chain, handle->table.bucket_size, handle->table.region_length)) {
        operation_end(handle, operation, OKV_EPROTO);
        return;
    }
    lookup->part++;
    lookup->part_offset = chain;
    lookup->image_wanted = true;
    operation_advance(handle, operation);
}

static bool is_alive(okv *handle, const struct okv_entry *entry)
{
    if (entry->expiry_ms == 0)
        return true;
    clock_refresh_soon(handle);
    return !okv_entry_is_expired(entry, clock_now_ms(handle));
}

/* The next entry that may be the key and has not expired. An expired one of this key is
 * a miss, one of another key is of no interest. */
static int next_candidate(okv *handle, struct operation *operation, uint32_t *position,
                          struct okv_entry *entry)
{
    int rc;

    while ((rc = okv_bucket_find(operation->image, operation->lookup.hash, operation->key,
                                 operation->key_length, position, entry)) == 1)
        if (is_alive(handle, entry))
            return 1;
    return rc;
}

/* What nearly every get finds: an item that lies in the image and does not expire. */
static inline bool is_plain_item(const struct operation *operation, const struct okv_entry *entry)
{
    return operation->kind == OPERATION_GET && !entry->is_reference && entry->expiry_ms == 0 &&
           entry->value_length <= operation->buffer_size;
}

static inline void plain_item_found(okv *handle, struct operation *operation,
                                    const struct okv_entry *entry)
{
    struct okv_result *result = &operation->result;

    if (entry->value_length)
        memcpy(operation->buffer, entry->value, entry->value_length);
    result->length = entry->value_length;
    result->version = entry->version;
    result->ttl_ms = OKV_TTL_NONE;
    operation_end(handle, operation, OKV_OK);
}

/* Searches the checked image on from lookup.position. */
static void search_image(okv *handle, struct operation *operation)
{
    struct lookup *lookup = &operation->lookup;
    struct okv_entry *entry = &lookup->reference;
    int rc = next_candidate(handle, operation, &lookup->position, entry);

    operation->step = STEP_BUCKET;
    if (rc == 1 && is_plain_item(operation, entry))
        plain_item_found(handle, operation, entry);
    else if (rc < 0)
        operation_end(handle, operation, rc);
    else if (rc == 0)
        follow_chain(handle, operation);
    else if (!entry->is_reference)
        item_found(handle, operation, entry, entry->value);
    else if (!extent_is_possible(handle, entry))
        operation_end(handle, operation, OKV_EPROTO);
    else
        read_extent(handle, operation);
}

/* ---- steps that ended ---- */

static bool image_is_whole(const okv *handle, const struct lookup *lookup, const uint8_t *image,
                           unsigned part)
{
    return okv_bucket_check(image, handle->table.bucket_size, handle->table.boot_id, lookup->bucket,
                            part) == 0;
}

static void bucket_done(okv *handle, struct operation *operation)
{
    struct lookup *lookup = &operation->lookup;
    const uint8_t *image = operation->image;
    bool whole = image_is_whole(handle, lookup, image, lookup->part);
    uint64_t version = okv_bucket_version(image);

    if (!whole || (lookup->part > 0 && version != lookup->image_version)) {
        handle->counters.torn_buckets++;
        if (lookup->part > 0)
            read_again(handle, operation, lookup->bucket);
        else
            image_rejected(handle, operation);
        return;
    }
    if (lookup->part == 0) {
        unsigned depth = okv_bucket_depth(image);
        handle->bucket_count = okv_linear_learn(handle->bucket_count, lookup->bucket, depth);
        lookup->settled = true;
        if (okv_hash_bucket(lookup->hash, depth) != lookup->bucket) {
            redirect(handle, operation);
            return;
        }
    }
    lookup->image_version = version;
    lookup->position = 0;
    search_image(handle, operation);
}

static void extent_done(okv *handle, struct operation *operation)
{
    const struct okv_entry *reference = &operation->lookup.reference;
    int rc = extent_check(handle, operation, reference);

    switch (rc) {
    case OKV_OK:
        if (operation->kind == OPERATION_GET && operation->lookup.part == 0)
            hints_remember(handle, operation, reference);
        item_found(handle, operation, reference, extent_value(operation, reference));
        break;
    case OKV_ENOTFOUND: /* another key with the same tag */
        search_image(handle, operation);
        break;
    case OKV_ECORRUPT:
        handle->counters.torn_extents++;
        read_again(handle, operation, operation->lookup.bucket);
        break;
    default:
        operation_end(handle, operation, rc);
    }
}

/* Whether a whole image has a reference to this very place, of an item that has not expired; its
 * checksum, version and expiry are then filled in. */
static bool image_refers_to(okv *handle, struct operation *operation, const uint8_t *image,
                            struct okv_entry *reference)
{
    struct okv_entry entry;
    uint32_t position = 0;

    while (okv_bucket_find(image, operation->lookup.hash, operation->key, operation->key_length,
                           &position, &entry) == 1) {
        if (entry.is_reference && entry.extent == reference->extent &&
            entry.value_length == reference->value_length &&
            entry.key_in_extent == reference->key_in_extent && is_alive(handle, &entry)) {
            *reference = entry;
            return true;
        }
    }
    return false;
}

/* The key that a long extent begins with was read, without the rest that its checksum is
 * over. The bucket is asked again: if it still has the reference, the extent was live
 * in between, and these bytes were its own. */
static void key_done(okv *handle, struct operation *operation)
{
    struct lookup *lookup = &operation->lookup;

    if (!directory_locate(handle, lookup->bucket, &lookup->part_offset)) {
        read_again(handle, operation, lookup->bucket);
        return;
    }
    operation->step = STEP_CONFIRM;
    lookup->image_wanted = true;
    operation_advance(handle, operation);
}

/* Whether STEP_CONFIRM found the reference as it was. */
static bool is_confirmed(okv *handle, struct operation *operation, const uint8_t *image)
{
    struct lookup *lookup = &operation->lookup;
    struct okv_entry entry = lookup->reference;

    /* An equal version proves nothing for an item: removals may leave it as it is. */
    return image_refers_to(handle, operation, image, &entry) &&
           entry.checksum == lookup->reference.checksum &&
           entry.version == lookup->reference.version;
}

static void confirm_done(okv *handle, struct operation *operation)
{
    struct lookup *lookup = &operation->lookup;
    const uint8_t *image = operation->extent + CONFIRM_OFFSET;
    bool is_key = memcmp(operation->extent, operation->key, operation->key_length) == 0;
    bool whole = image_is_whole(handle, lookup, image, 0);

    if (whole && is_key && is_confirmed(handle, operation, image)) {
        item_found(handle, operation, &lookup->reference, NULL);
    } else if (whole && okv_bucket_version(image) == lookup->image_version) {
        search_image(handle, operation);
    } else {
        handle->counters.torn_buckets += !whole;
        read_again(handle, operation, lookup->bucket);
    }
}

/* ---- hints ---- */

/* The bucket came, its extent may still be on its way: does the one name the other? */
static void hinted_image_done(okv *handle, struct operation *operation)
{
    struct lookup *lookup = &operation->lookup;

    lookup->confirmed =
        image_is_whole(handle, lookup, operation->image, 0) &&
        okv_hash_bucket(lookup->hash, okv_bucket_depth(operation->image)) == lookup->bucket &&
        image_refers_to(handle, operation, operation->image, &lookup->reference);
    if (!lookup->confirmed)
        extent_stop(operation);
}

static void hinted_done(okv *handle, struct operation *operation)
{
    struct lookup *lookup = &operation->lookup;
    struct okv_entry *reference = &lookup->reference;

    if (lookup->confirmed && extent_check(handle, operation, reference) == OKV_OK) {
        handle->counters.hints_right++;
        handle->bucket_count = okv_linear_learn(handle->bucket_count, lookup->bucket,
                                                okv_bucket_depth(operation->image));
        hints_remember(handle, operation, reference);
        item_found(handle, operation, reference, extent_value(operation, reference));
        return;
    }
    handle->counters.hints_wrong++;
    hints_forget(handle, operation);
    operation->step = STEP_BUCKET;
    bucket_done(handle, operation);
}

/* Starts with bucket and extent at once; false when there is no hint to do so by. */
static bool start_hinted(okv *handle, struct operation *operation)
{
    struct lookup *lookup = &operation->lookup;
    struct okv_entry *reference = &lookup->reference;

    if (operation->kind != OPERATION_GET || !hints_find(handle, operation, reference) ||
        value_is_unwanted(operation, reference) ||
        !directory_locate(handle, lookup->bucket, &lookup->part_offset) ||
        extent_begin(handle, operation, reference))
        return false;
    operation->step = STEP_HINTED;
    lookup->image_wanted = true;
    lookup->confirmed = false;
    operation_advance(handle, operation);
    return true;
}

/* ---- from outside ---- */

/* All that is looked at before it is set. */
static void lookup_init(struct lookup *lookup)
{
    lookup->part = 0;
    lookup->attempts = 0;
    lookup->limit = LOOKUP_ATTEMPTS;
    lookup->doubts = 0;
    lookup->redirects = 0;
    lookup->settled = false;
    lookup->asked = false;
}

void lookup_start(okv *handle, struct operation *operation)
{
    struct lookup *lookup = &operation->lookup;

    lookup_init(lookup);
    lookup->hash = okv_hash_key(operation->key, operation->key_length, handle->table.hash_seed);
    lookup->bucket = okv_linear_bucket(lookup->hash, handle->bucket_count);
    if (handle->hints_kept == 0 || !start_hinted(handle, operation))
        read_bucket(handle, operation, lookup->bucket);
}

void lookup_adopt(struct operation *operation, uint64_t hash, uint64_t bucket)
{
    struct lookup *lookup = &operation->lookup;

    lookup_init(lookup);
    lookup->hash = hash;
    lookup->bucket = bucket;
    lookup->image_wanted = false;
    operation->step = STEP_BUCKET;
    operation->reads = 1;
}

void lookup_resume(okv *handle, struct operation *operation)
{
    struct lookup *lookup = &operation->lookup;

    lookup->limit = LOOKUP_ATTEMPTS_ALL;
    read_again(handle, operation, okv_linear_bucket(lookup->hash, handle->bucket_count));
}

static void step_done(okv *handle, struct operation *operation)
{
    switch (operation->step) {
    case STEP_BUCKET:
        bucket_done(handle, operation);
        break;
    case STEP_DIRECTORY:
        entry_done(handle, operation);
        break;
    case STEP_HINTED:
        hinted_done(handle, operation);
        break;
    case STEP_EXTENT:
        extent_done(handle, operation);
        break;
    case STEP_KEY:
        key_done(handle, operation);
        break;
    case STEP_CONFIRM:
        confirm_done(handle, operation);
        break;
    case STEP_FREE:
    case STEP_WAITING:
    case STEP_REPLY:
    case STEP_ENDED:
        break;
    }
}

void lookup_read_done(okv *handle, struct operation *operation, enum read_kind kind)
{
    if (operation->step == STEP_HINTED && kind == READ_IMAGE)
        hinted_image_done(handle, operation);
    if (!extent_is_posted(operation))
        operation_advance(handle, operation);
    else if (operation->reads == 0)
        step_done(handle, operation);
}
