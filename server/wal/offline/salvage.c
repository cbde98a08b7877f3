#include "server/wal/offline/salvage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "server/wal/blob/files.h"
#include "server/wal/frame.h"
#include "server/wal/listing.h"
#include "server/wal/recovery/validate.h"
#include "shared/base/error.h"

/* Of the snapshot and the segment that are written. The first segment alone would be a database
 * without items; this one alone is refused, so the snapshot's name is the last step. */
#define NUMBER 2
/* Written between two syncs. */
#define BYTES_PER_SYNC (UINT64_C(16) << 20)
/* Records of a frame that has lost buckets. */
#define BUCKETS_PER_FRAME 8192u

/* A file that is written. */
struct output {
    struct okv_files *files;
    struct okv_file *file;
    const char *name;
    uint64_t position; /* of the next frame */
    uint64_t unsynced; /* bytes */
};

struct salvage {
    struct okv_files *from;
    const struct okv_wal_survey *survey; /* its header is known before frames are */
    struct output snapshot, segment;
    uint64_t *found;            /* a bit for each bucket of the snapshot; NULL: there is none */
    uint64_t items;             /* of the snapshot that is written */
    uint64_t version;           /* the highest of the snapshot, raised */
    uint64_t clock_ms, wall_ms; /* of the snapshot */
    uint64_t last_clock_ms, last_wall_ms; /* of the last frame */
    uint64_t last_session;                /* the highest id of a session in a record */
};

/* Ids of sessions that left no record are at most this far above those that did. */
#define SESSIONS (UINT64_C(1) << 31)

/* ---- files ---- */

static int explain(const struct output *output, int rc, const struct okv_diag *why,
                   struct okv_diag *diag)
{
    return rc ? okv_diag_set(diag, rc, "cannot write %s: %s", output->name, why->text) : 0;
}

static int create(struct output *output, struct okv_files *files, const char *name,
                  struct okv_diag *diag)
{
    struct okv_diag why;

    *output = (struct output){.files = files, .name = name};
    int rc = files->ops->create(files, name, &output->file, &why);
    if (rc)
        output->file = NULL;
    return explain(output, rc, &why, diag);
}

static void close_output(struct output *output)
{
    if (output->file)
        output->files->ops->close(output->file);
    output->file = NULL;
}

static int write_frame(struct output *output, const struct okv_wal_frame *like, uint64_t length,
                       uint8_t *bytes, struct okv_diag *diag)
{
    const struct okv_file_ops *ops = output->files->ops;
    const struct okv_wal_frame frame = {
        .length = length,
        .position = output->position,
        .durable = output->position,
        .clock_ms = like->clock_ms,
        .wall_ms = like->wall_ms,
    };
    struct iovec vector = {bytes, length};
    struct okv_diag why;

    okv_wal_frame_seal(&frame, NUMBER, bytes);
    int rc = ops->write(output->file, &vector, 1, OKV_WAL_HEADER_SIZE + output->position, &why);
    output->position += length;
    output->unsynced += length;
    if (rc == 0 && output->unsynced >= BYTES_PER_SYNC) {
        rc = ops->sync(output->file, &why);
        output->unsynced = 0;
    }
    return explain(output, rc, &why, diag);
}

/* And makes the file durable. */
static int write_header(struct output *output, const struct okv_wal_header *header,
                        struct okv_diag *diag)
{
    struct okv_diag why;
    int rc = okv_wal_header_write(output->files, output->file, header, &why);

    if (rc == 0)
        rc = output->files->ops->sync(output->file, &why);
    return explain(output, rc, &why, diag);
}

/* ---- frames ---- */

/* Without its header nothing says how many buckets the snapshot had, and so to which one an item
 * belongs. Its items then begin the segment, as changes. */
static bool has_buckets(const struct salvage *salvage)
{
    return salvage->survey->header.bucket_count > 0;
}

static int note_bucket(struct salvage *salvage, uint64_t number)
{
    uint64_t words = okv_wal_bucket_count(&salvage->survey->header) / 64 + 1;

    if (!salvage->found)
        salvage->found = calloc(words, sizeof *salvage->found);
    if (!salvage->found)
        return OKV_ENOMEM;
    salvage->found[number / 64] |= UINT64_C(1) << number % 64;
    return 0;
}

static void note_session(struct salvage *salvage, uint64_t id)
{
    if (salvage->last_session < id)
        salvage->last_session = id;
}

static int note_record(struct salvage *salvage, const struct okv_wal_record *record)
{
    if (record->kind != OKV_WAL_BUCKET) {
        salvage->items++;
        return 0;
    }
    if (record->version + OKV_WAL_SALVAGE_RAISE > salvage->version)
        salvage->version = record->version + OKV_WAL_SALVAGE_RAISE;
    return has_buckets(salvage) ? note_bucket(salvage, record->bucket) : 0;
}

/* Copies the blob file. */
static int save_long(struct salvage *salvage, const struct okv_wal_record *record,
                     struct okv_diag *diag)
{
    struct okv_wal_long at;

    if (record->kind != OKV_WAL_LONG)
        return 0;
    okv_wal_long_decode(record->value, &at);
    return okv_blob_file_copy(salvage->from, salvage->segment.files, &at, diag);
}

static int take_record(struct salvage *salvage, bool is_of_snapshot,
                       const struct okv_wal_record *record, struct okv_diag *diag)
{
    int rc = save_long(salvage, record, diag);

    return rc == 0 && is_of_snapshot ? note_record(salvage, record) : rc;
}

/* Raises the versions of a frame, and removes the end of a snapshot, epochs, what raised versions,
 * and what was known of clients: a part of that would let writes be applied twice. */
static int change_records(struct salvage *salvage, bool is_of_snapshot, uint8_t *bytes,
                          uint64_t *length, struct okv_diag *diag)
{
    struct okv_wal_record record;
    uint64_t at = OKV_WAL_FRAME_HEADER, to = OKV_WAL_FRAME_HEADER;

    while (at < *length) {
        uint64_t begin = at;
        int rc = okv_wal_record_decode(bytes, *length, &at, &record);
        if (rc)
            return rc;
        if (record.kind == OKV_WAL_CLIENT || record.kind == OKV_WAL_FORGOTTEN)
            note_session(salvage, record.version);
        if (!okv_wal_is_change(&record) && record.kind != OKV_WAL_BUCKET)
            continue;
        if (record.version > OKV_LE48_MAX - OKV_WAL_SALVAGE_RAISE)
            return okv_diag_set(diag, OKV_ENUMBER, "its versions are too high to be raised");
        rc = take_record(salvage, is_of_snapshot, &record, diag);
        if (rc == OKV_ECORRUPT)
            continue; /* reported by okv_wal_verify() */
        if (rc)
            return rc;
        if (record.kind == OKV_WAL_BUCKET && !has_buckets(salvage))
            continue;
        memmove(bytes + to, bytes + begin, at - begin);
        okv_wal_record_set_version(bytes + to, record.version + OKV_WAL_SALVAGE_RAISE);
        to += at - begin;
    }
    *length = to;
    return 0;
}

static int copy_frame(void *user, bool is_of_snapshot, const struct okv_wal_frame *frame,
                      uint8_t *bytes, struct okv_diag *diag)
{
    struct salvage *salvage = user;
    uint64_t length = frame->length;
    int rc = change_records(salvage, is_of_snapshot, bytes, &length, diag);

    salvage->last_clock_ms = frame->clock_ms;
    salvage->last_wall_ms = frame->wall_ms;
    if (is_of_snapshot) {
        salvage->clock_ms = frame->clock_ms;
        salvage->wall_ms = frame->wall_ms;
    }
    if (rc || length == OKV_WAL_FRAME_HEADER)
        return rc;
    return write_frame(is_of_snapshot && has_buckets(salvage) ? &salvage->snapshot
                                                              : &salvage->segment,
                       frame, length, bytes, diag);
}

/* No earlier session can be resumed. */
static int write_forgotten(struct salvage *salvage, struct okv_diag *diag)
{
    const struct okv_wal_frame like = {.clock_ms = salvage->last_clock_ms,
                                       .wall_ms = salvage->last_wall_ms};
    const struct okv_wal_record forgotten = {.kind = OKV_WAL_FORGOTTEN,
                                             .version = salvage->last_session + SESSIONS};
    uint8_t bytes[OKV_WAL_FRAME_HEADER + sizeof(struct okv_wal_wire_record)];

    okv_wal_record_encode(&forgotten, bytes + OKV_WAL_FRAME_HEADER);
    return write_frame(&salvage->segment, &like, sizeof bytes, bytes, diag);
}

/* ---- the end of the snapshot ---- */

static bool is_lost(const struct salvage *salvage, uint64_t number)
{
    return !salvage->found || !(salvage->found[number / 64] & UINT64_C(1) << number % 64);
}

static void append(uint8_t *bytes, uint64_t *length, const struct okv_wal_record *record)
{
    okv_wal_record_encode(record, bytes + *length);
    *length += okv_wal_record_size(0, 0);
}

/* Gives lost buckets a version that none of their keys had, and ends the snapshot. Those of an
 * empty table give it to all that are split from them. */
static int write_lost(struct salvage *salvage, uint64_t bucket_count, struct okv_wal_salvaged *out,
                      struct okv_diag *diag)
{
    const struct okv_wal_frame like = {.clock_ms = salvage->clock_ms, .wall_ms = salvage->wall_ms};
    const struct okv_wal_record end = {.kind = OKV_WAL_END,
                                       .version = has_buckets(salvage) ? salvage->items : 0};
    uint64_t most = OKV_WAL_FRAME_HEADER + (BUCKETS_PER_FRAME + 1) * okv_wal_record_size(0, 0);
    uint64_t length = OKV_WAL_FRAME_HEADER;
    uint8_t *bytes = malloc(most);
    int rc = bytes ? 0 : OKV_ENOMEM;

    for (uint64_t number = 0; rc == 0 && number < bucket_count; number++) {
        const struct okv_wal_record bucket = {
            .kind = OKV_WAL_BUCKET, .version = salvage->version, .bucket = number};
        if (!is_lost(salvage, number))
            continue;
        append(bytes, &length, &bucket);
        out->buckets += has_buckets(salvage);
        if (length < most - okv_wal_record_size(0, 0))
            continue;
        rc = write_frame(&salvage->snapshot, &like, length, bytes, diag);
        length = OKV_WAL_FRAME_HEADER;
    }
    if (rc == 0) {
        append(bytes, &length, &end);
        rc = write_frame(&salvage->snapshot, &like, length, bytes, diag);
    }
    free(bytes);
    return rc;
}

/* What both files' headers have. */
static int make_header(const struct okv_wal_survey *survey, struct okv_wal_header *out,
                       struct okv_diag *diag)
{
    *out = (struct okv_wal_header){.number = NUMBER};
    if (getrandom(out->database_id, sizeof out->database_id, 0) < 0 ||
        getrandom(&out->hash_seed, sizeof out->hash_seed, 0) < 0)
        return okv_diag_set(diag, OKV_EIO, "no random bytes from the system: %s", strerror(errno));
    if (survey->has_base)
        out->hash_seed = survey->base.hash_seed;
    return 0;
}

static int end_snapshot(struct salvage *salvage, const struct okv_wal_header *common,
                        uint32_t bucket_size, struct okv_wal_salvaged *out, struct okv_diag *diag)
{
    const struct okv_wal_header *found = &salvage->survey->header;
    struct okv_files *files = salvage->snapshot.files;
    struct okv_wal_header header = *common;
    char name[OKV_WAL_NAME_SIZE];
    struct okv_diag why;

    header.bucket_count = okv_wal_bucket_count(found);
    header.bucket_size = has_buckets(salvage) ? found->bucket_size : bucket_size;
    if (salvage->version < OKV_WAL_SALVAGE_RAISE)
        salvage->version = OKV_WAL_SALVAGE_RAISE;
    int rc = write_lost(salvage, header.bucket_count, out, diag);
    if (rc == 0)
        rc = write_header(&salvage->snapshot, &header, diag);
    if (rc)
        return rc;
    okv_wal_name(OKV_WAL_SNAPSHOT, NUMBER, name);
    rc = files->ops->rename(files, OKV_WAL_PART, name, &why);
    if (rc == 0)
        rc = files->ops->sync_names(files, &why);
    return explain(&salvage->snapshot, rc, &why, diag);
}

/* ---- all of it ---- */

static int end_files(struct salvage *salvage, uint32_t bucket_size, struct okv_wal_salvaged *out,
                     struct okv_diag *diag)
{
    struct okv_wal_header header;
    int rc = make_header(salvage->survey, &header, diag);

    if (rc == 0)
        rc = write_forgotten(salvage, diag);
    if (rc == 0)
        rc = write_header(&salvage->segment, &header, diag);
    return rc ? rc : end_snapshot(salvage, &header, bucket_size, out, diag);
}

static int create_files(struct salvage *salvage, struct okv_files *files, const char *segment,
                        struct okv_diag *diag)
{
    struct okv_diag why;
    int rc = create(&salvage->segment, files, segment, diag);

    if (rc)
        return rc;
    rc = explain(&salvage->segment, files->ops->sync_names(files, &why), &why, diag);
    return rc ? rc : create(&salvage->snapshot, files, OKV_WAL_PART, diag);
}

int okv_wal_salvage(struct okv_files *from, struct okv_files *to, uint32_t bucket_size,
                    const struct okv_wal_damage_report *report, struct okv_wal_survey *survey,
                    struct okv_wal_salvaged *out, struct okv_diag *diag)
{
    struct salvage salvage = {.from = from, .survey = survey};
    char name[OKV_WAL_NAME_SIZE];

    *out = (struct okv_wal_salvaged){0};
    okv_wal_name(OKV_WAL_SEGMENT, NUMBER, name);
    int rc = create_files(&salvage, to, name, diag);
    if (rc == 0)
        rc = okv_wal_verify(from, report, copy_frame, &salvage, survey, diag);
    if (rc == 0)
        rc = end_files(&salvage, bucket_size, out, diag);
    close_output(&salvage.snapshot);
    close_output(&salvage.segment);
    free(salvage.found);
    return rc;
}
