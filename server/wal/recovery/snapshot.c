#include "server/wal/recovery/snapshot.h"

#include <stdlib.h>
#include <unistd.h>

#include "server/store/compact.h"
#include "server/store/recover.h"
#include "server/store/resize.h"
#include "server/store/store.h"
#include "server/wal/frame.h"
#include "server/wal/recovery/scan.h"
#include "server/wal/recovery/validate.h"
#include "server/wal/state.h"
#include "shared/base/error.h"

#define THREADS_MAX 16

int okv_wal_does_not_fit(int rc, struct okv_diag *diag)
{
    return okv_diag_set(
        diag, rc, "the items do not fit (%s): give as much --memory and --max-value as before",
        okv_error_text(rc));
}

struct okv_store_recovered okv_wal_item_of(const struct okv_wal_record *record)
{
    return (struct okv_store_recovered){
        .key = record->key,
        .key_length = record->key_length,
        .value = record->kind == OKV_WAL_DELETE ? NULL : record->value,
        .value_length = record->value_length,
        .version = record->version,
        .expiry_ms = record->expiry_ms,
    };
}

int okv_wal_recover_client(const struct okv_wal *wal, const struct okv_wal_record *record)
{
    const struct okv_wal_clients *clients = wal->clients;

    return clients ? clients->recover(clients->user, record) : 0;
}

/* ---- frames, each by one of several threads ---- */

struct load {
    struct okv_wal *wal;
    struct okv_store *store;
    struct okv_wal_found *found;
    pthread_mutex_t lock; /* of what follows */
    struct okv_wal_scan scan;
    uint64_t items;    /* so far */
    uint64_t expected; /* in all; known at the end */
    bool is_ended;     /* the record of the end was read */
    bool refers;       /* to blob files */
    bool has_no_more;
    int rc; /* of the first thread that failed */
    struct okv_diag diag;
};

/* One thread's part. */
struct loader {
    struct load *load;
    struct okv_store_work work;
    struct okv_wal_reader frame; /* what it took of the scan's reader: bytes and offset */
    uint64_t items;
    bool refers;
    struct okv_wal_record bucket; /* the last one that was applied of the frame; kind 0: none */
    uint8_t *value;               /* that was read from its file; it belongs to the bucket */
    bool has_bucket;              /* which is locked */
    struct okv_effort effort;     /* to make room for it */
    bool is_forced;
    struct okv_diag diag;
};

static int end_bucket(struct loader *loader)
{
    int rc = 0;

    if (loader->has_bucket)
        rc = okv_store_recover_bucket_end(loader->load->store, &loader->work);
    loader->has_bucket = false;
    free(loader->value);
    loader->value = NULL;
    return rc;
}

static int begin_bucket(struct loader *loader, const struct okv_wal_record *record)
{
    int rc = okv_store_recover_bucket_begin(loader->load->store, &loader->work, record->bucket,
                                            record->version);

    loader->has_bucket = rc == 0;
    return rc;
}

/* Merges are out of the question: the buckets must be those of the snapshot. */
static bool make_room(struct loader *loader)
{
    struct okv_store *store = loader->load->store;

    if (okv_store_make_room(store, &loader->work, 1, &loader->effort))
        return true;
    if (loader->is_forced)
        return false;
    loader->is_forced = true;
    okv_store_recover_force(store, &loader->work, &loader->effort);
    return true;
}

static int add_item(struct loader *loader, const struct okv_wal_record *record,
                    const uint8_t *value)
{
    const struct okv_store_recovered item = {
        .key = record->key,
        .key_length = record->key_length,
        .value = value,
        .value_length = okv_wal_value_length(record),
        .version = record->version,
        .expiry_ms = record->expiry_ms,
    };

    loader->items++;
    return okv_store_recover_bucket_add(loader->load->store, &loader->work, &item);
}

static int add_long(struct loader *loader, const struct okv_wal_record *record)
{
    struct okv_wal *wal = loader->load->wal;

    if (wal->imported)
        return okv_diag_set(&loader->diag, OKV_EINVAL,
                            "%s refers to values in other files: make a copy with okv admin "
                            "snapshot, or copy the whole directory of the database",
                            wal->imported);
    int rc = okv_blobs_recover(&wal->blobs, record, &loader->value, &loader->diag);
    loader->refers = true;
    return rc ? rc : add_item(loader, record, loader->value);
}

static void note_end(struct load *load, const struct okv_wal_record *record)
{
    pthread_mutex_lock(&load->lock);
    load->is_ended = true;
    load->expected = record->version;
    pthread_mutex_unlock(&load->lock);
}

static int apply_record(struct loader *loader, const struct okv_wal_record *record)
{
    switch (record->kind) {
    case OKV_WAL_BUCKET:
        return begin_bucket(loader, record);
    case OKV_WAL_PUT:
        return add_item(loader, record, record->value);
    case OKV_WAL_LONG:
        return add_long(loader, record);
    case OKV_WAL_END:
        note_end(loader->load, record);
        return 0;
    case OKV_WAL_CLIENT:
    case OKV_WAL_REPLY:
    case OKV_WAL_FORGOTTEN:
        return okv_wal_recover_client(loader->load->wal, record);
    case OKV_WAL_DELETE:
    case OKV_WAL_RAISE:
    case OKV_WAL_CLEAN:
    case OKV_WAL_EPOCH:
        break; /* in no snapshot */
    }
    return OKV_ECORRUPT;
}

/* Applies the records of the bucket at `*at`, or one record that is of none, and moves past them,
 * or to the one that fails. A bucket with long values has as many parts, so that there is memory
 * for one of them. */
static int apply_bucket(struct loader *loader, uint64_t length, uint64_t *at)
{
    struct okv_wal_record bucket = loader->bucket, record;
    bool is_first = true;

    while (*at < length) {
        uint64_t next = *at;
        int rc = okv_wal_snapshot_record(&loader->frame, length, &next, &bucket, &record);
        if (rc == 0 && !is_first && !okv_wal_is_change(&record))
            break;
        if (rc == 0 && is_first && okv_wal_is_change(&record)) /* after a long value */
            rc = begin_bucket(loader, &bucket);
        if (rc == 0)
            rc = apply_record(loader, &record);
        if (rc)
            return rc;
        *at = next;
        loader->bucket = bucket;
        if (record.kind == OKV_WAL_LONG)
            break;
        is_first = false;
    }
    return end_bucket(loader);
}

static int apply_frame(struct loader *loader, uint64_t length)
{
    uint64_t at = OKV_WAL_FRAME_HEADER;
    int rc = 0;

    loader->bucket.kind = 0;
    while (at < length && rc == 0) {
        uint64_t begin = at, items = loader->items;
        loader->effort = okv_store_recover_effort(loader->load->store);
        loader->is_forced = false;
        while ((rc = apply_bucket(loader, length, &at)) == OKV_EFULL && make_room(loader)) {
            at = begin;
            loader->items = items;
        }
    }
    if (loader->has_bucket)
        okv_store_recover_bucket_cancel(loader->load->store, &loader->work);
    loader->has_bucket = false;
    free(loader->value);
    loader->value = NULL;
    if (loader->diag.text[0]) /* a value in another file */
        return rc;
    if (rc == OKV_ECORRUPT)
        return okv_wal_reader_damaged(&loader->frame, loader->frame.offset - length + at,
                                      "a record makes no sense", &loader->diag);
    return rc ? okv_wal_does_not_fit(rc, &loader->diag) : 0;
}

/* Takes the next frame from the shared reader. OKV_WAL_NONE: there is none. */
static int take_frame(struct loader *loader, struct okv_wal_frame *frame)
{
    struct load *load = loader->load;
    struct okv_wal_reader *reader = &load->scan.reader;
    int rc = OKV_WAL_NONE;

    pthread_mutex_lock(&load->lock);
    if (!load->rc && !load->has_no_more)
        rc = okv_wal_scan_frame(&load->scan, frame, &loader->diag);
    if (rc == OKV_WAL_NONE) {
        load->has_no_more = true;
    } else if (rc == 0) {
        struct okv_wal_reader before = loader->frame;
        loader->frame = *reader;
        reader->bytes = before.bytes;
        reader->capacity = before.capacity;
        load->found->bytes += frame->length;
        if (load->wal->progress)
            load->wal->progress(load->wal->progress_user, load->found->bytes);
        load->found->clock_ms = frame->clock_ms;
        load->found->wall_ms = frame->wall_ms;
    }
    pthread_mutex_unlock(&load->lock);
    return rc;
}

static void note_result(struct loader *loader, int rc)
{
    struct load *load = loader->load;

    pthread_mutex_lock(&load->lock);
    load->items += loader->items;
    load->refers |= loader->refers;
    if (rc && !load->rc) {
        load->rc = rc;
        load->diag = loader->diag;
    }
    pthread_mutex_unlock(&load->lock);
}

static void *run(void *user)
{
    struct load *load = user;
    struct loader loader = {.load = load};
    struct okv_wal_frame frame;
    int rc = okv_store_work_init(&loader.work, load->store->table.bucket_size);

    if (rc) {
        note_result(&loader, rc);
        return NULL;
    }
    while (rc == 0 && (rc = take_frame(&loader, &frame)) == 0)
        rc = apply_frame(&loader, frame.length);
    note_result(&loader, rc == OKV_WAL_NONE ? 0 : rc);
    free(loader.frame.bytes);
    okv_store_work_fini(&loader.work);
    return NULL;
}

/* The calling thread is one of them. */
static void run_threads(struct load *load)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    pthread_t threads[THREADS_MAX];
    unsigned count = 0;

    while (count < THREADS_MAX && count + 1 < processors &&
           pthread_create(&threads[count], NULL, run, load) == 0)
        count++;
    run(load);
    while (count > 0)
        pthread_join(threads[--count], NULL);
}

/* ---- all of it ---- */

/* Buckets of the same number hold the same items when there are as many of the same size. */
static int prepare_table(struct okv_store *store, const struct okv_wal_header *header,
                         struct okv_diag *diag)
{
    struct okv_store_work work;

    if (store->table.bucket_size != header->bucket_size)
        return okv_diag_set(diag, OKV_EINVAL,
                            "its snapshot has buckets of %u bytes, not %u: start with "
                            "--bucket-size %u",
                            header->bucket_size, store->table.bucket_size, header->bucket_size);
    int rc = okv_store_work_init(&work, store->table.bucket_size);
    if (rc)
        return rc;
    rc = okv_store_grow(store, &work, header->bucket_count);
    okv_store_reserve_release(store); /* a full region may have had none */
    okv_store_work_fini(&work);
    return rc ? okv_wal_does_not_fit(rc, diag) : 0;
}

static int check_result(struct load *load, struct okv_diag *diag)
{
    if (load->rc) {
        *diag = load->diag;
        return load->rc;
    }
    return okv_wal_scan_snapshot_end(&load->scan, load->is_ended, load->items, load->expected,
                                     diag);
}

int okv_wal_recover_snapshot(struct okv_wal *wal, struct okv_wal_found *found,
                             struct okv_diag *diag)
{
    struct load load = {
        .wal = wal,
        .store = wal->store,
        .found = found,
        .scan = {.files = wal->files, .listing.snapshot = wal->snapshot_header.number},
    };
    int rc = prepare_table(wal->store, &wal->snapshot_header, diag);

    if (rc == 0)
        rc = okv_wal_scan_snapshot(&load.scan, wal->imported, diag);
    if (rc)
        goto end_scan;
    pthread_mutex_init(&load.lock, NULL);
    run_threads(&load);
    okv_store_reserve_allocate(wal->store);
    okv_store_set_clock(wal->store, found->clock_ms, false);
    pthread_mutex_destroy(&load.lock);
    rc = check_result(&load, diag);
    wal->self_contained = load.refers ? 0 : wal->snapshot_header.number;
    found->snapshot = wal->snapshot_header.number;
    found->snapshot_items = load.items;
    found->snapshot_wall_ms = found->wall_ms;
end_scan:
    okv_wal_scan_end(&load.scan);
    return rc;
}
