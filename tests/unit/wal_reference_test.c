/* Snapshots that refer to the files of long values. */
#include <errno.h>
#include <sched.h>

#include "tests/support/test.h"

#include "server/wal/append.h"
#include "server/wal/blob/files.h"
#include "server/wal/frame.h"
#include "server/wal/listing.h"
#include "server/wal/offline/salvage.h"
#include "shared/base/error.h"
#include "shared/format/hash.h"
#include "tests/support/wal_machine.h"

#define REGION (UINT64_C(8) << 20)
#define LENGTH (WAL_MACHINE_LONG + 100)
#define BUCKET_SIZE 256 /* of a wal_machine */
#define HOLD 100000u    /* batches while a snapshot is made */
#define FIRST "value.0000000000000001"

struct trial {
    struct crash_disk disk; /* first: its operations know the trial by it */
    struct wal_machine machine;
    const struct okv_file_ops *real;
    struct okv_file_ops ops; /* that wish for a snapshot */
    uint64_t wish;           /* its number; 0: none so far */
    bool fails;              /* the segment that begins next */
};

static struct trial *trial_begin(uint64_t sync_within_ns)
{
    struct trial *trial = calloc(1, sizeof *trial);

    crash_disk_init(&trial->disk, 1);
    wal_machine_init(&trial->machine, &trial->disk, REGION);
    trial->machine.sync_within_ns = sync_within_ns;
    assert_int_equal(wal_machine_start(&trial->machine), 0);
    return trial;
}

static void trial_end(struct trial *trial)
{
    crash_disk_fini(&trial->disk);
    free(trial);
}

static void put(struct trial *trial, unsigned key, uint32_t number)
{
    struct wal_machine *machine = &trial->machine;
    struct okv_store_outcome outcome;
    uint8_t value[LENGTH];

    memset(value, (int)(uint8_t)number, sizeof value);
    memcpy(value, &number, sizeof number);
    const struct okv_store_write write = {
        .key = &key, .key_length = sizeof key, .value = value, .value_length = sizeof value};
    wal_machine_enter(machine);
    assert_int_equal(wal_machine_put_long(machine, &write, &outcome), 0);
    assert_int_equal(wal_machine_leave(machine), 0);
}

static void expect(struct trial *trial, unsigned key, uint32_t number)
{
    assert_int_equal(wal_machine_number(&trial->machine.store, key), number);
}

static void await_files(struct trial *trial, unsigned count)
{
    while (crash_disk_count(&trial->disk, OKV_WAL_BLOB) != count)
        sched_yield();
}

static uint64_t newest_snapshot(struct trial *trial)
{
    struct okv_wal_listing listing;

    assert_int_equal(okv_wal_list(&trial->disk.files, &listing, NULL), 0);
    return listing.snapshot;
}

static uint64_t snapshot_size(struct trial *trial)
{
    char name[OKV_WAL_NAME_SIZE];
    uint64_t size;

    okv_wal_name(OKV_WAL_SNAPSHOT, newest_snapshot(trial), name);
    assert_non_null(crash_disk_bytes(&trial->disk, name, &size));
    return size;
}

/* One that the log's length is the reason for. */
static void let_refer(struct trial *trial)
{
    struct okv_snapshot *snapshot = &trial->machine.wal->snapshot;
    uint64_t before = atomic_load(&snapshot->completed);

    wal_machine_let_grow(&trial->machine);
    wal_machine_enter(&trial->machine);
    assert_int_equal(wal_machine_leave(&trial->machine), 0);
    while (atomic_load(&snapshot->completed) == before)
        okv_wal_wake(trial->machine.wal);
    assert_int_equal(okv_snapshot_await(snapshot), 0);
}

static void restart(struct trial *trial)
{
    if (wal_machine_start(&trial->machine))
        fail_msg("%s", trial->machine.diag.text);
}

/* Files stay as long as a snapshot refers to them, across starts. */
TEST(it_refers_to_files)
{
    for (unsigned is_relaxed = 0; is_relaxed < 2; is_relaxed++) {
        struct trial *trial = trial_begin(is_relaxed ? OKV_WAL_NEVER : 0);
        for (unsigned key = 0; key < 3; key++)
            put(trial, key, 10 + key);
        put(trial, 0, 20);
        await_files(trial, 4);
        let_refer(trial);
        await_files(trial, 3);
        assert_in_range(snapshot_size(trial), OKV_WAL_HEADER_SIZE, OKV_WAL_HEADER_SIZE + LENGTH);
        wal_machine_kill(&trial->machine);
        restart(trial);
        put(trial, 1, 30);
        await_files(trial, 4);
        let_refer(trial);
        await_files(trial, 3);
        wal_machine_kill(&trial->machine);
        crash_disk_crash(&trial->disk);
        restart(trial);
        await_files(trial, 3);
        expect(trial, 0, 20);
        expect(trial, 1, 30);
        expect(trial, 2, 12);
        wal_machine_stop(&trial->machine);
        trial_end(trial);
    }
}

/* It refers to the value of its moment, which a later one of the key does not take away. */
TEST(it_refers_to_values_of_its_moment)
{
    struct trial *trial = trial_begin(0);
    struct okv_snapshot *snapshot = &trial->machine.wal->snapshot;

    put(trial, 0, 10);
    trial->disk.holds_snapshots = HOLD;
    wal_machine_let_grow(&trial->machine);
    put(trial, 0, 20);
    while (!okv_snapshot_is_active(snapshot))
        okv_wal_wake(trial->machine.wal);
    put(trial, 0, 30);
    crash_disk_release(&trial->disk);
    assert_int_equal(okv_snapshot_await(snapshot), 0);
    await_files(trial, 2);
    wal_machine_kill(&trial->machine);
    restart(trial);
    expect(trial, 0, 30);
    wal_machine_stop(&trial->machine);
    trial_end(trial);
}

static char *name_of_snapshot(struct trial *trial, char name[OKV_WAL_NAME_SIZE])
{
    okv_wal_name(OKV_WAL_SNAPSHOT, newest_snapshot(trial), name);
    return name;
}

/* Begins a database with the newest snapshot of a trial. Returns what the start does. */
static int restore(struct trial *trial, struct trial *to)
{
    char path[] = "/tmp/okv_wal_reference_test.XXXXXX", name[OKV_WAL_NAME_SIZE];
    uint64_t size;
    const uint8_t *bytes = crash_disk_bytes(&trial->disk, name_of_snapshot(trial, name), &size);
    FILE *file = fdopen(mkstemp(path), "w");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    crash_disk_init(&to->disk, 2);
    wal_machine_init(&to->machine, &to->disk, REGION);
    to->machine.restore = path;
    int rc = wal_machine_start(&to->machine);
    remove(path);
    return rc;
}

/* Later ones refer to the files all the same. */
TEST(a_whole_one_needs_no_other_file)
{
    struct trial *trial = trial_begin(0), *other = calloc(1, sizeof *other);

    put(trial, 0, 10);
    let_refer(trial);
    assert_int_equal(wal_machine_snapshot(&trial->machine), 0);
    assert_in_range(snapshot_size(trial), OKV_WAL_HEADER_SIZE + LENGTH, UINT64_MAX);
    assert_int_equal(restore(trial, other), 0);
    expect(other, 0, 10);
    wal_machine_stop(&other->machine);
    trial_end(other);
    put(trial, 1, 20);
    let_refer(trial);
    await_files(trial, 2);
    assert_in_range(snapshot_size(trial), OKV_WAL_HEADER_SIZE, OKV_WAL_HEADER_SIZE + LENGTH);
    wal_machine_kill(&trial->machine);
    restart(trial);
    expect(trial, 0, 10);
    expect(trial, 1, 20);
    wal_machine_stop(&trial->machine);
    trial_end(trial);
}

/* Whoever asked for it has time to copy it. */
TEST(a_whole_one_stays_a_while)
{
    struct trial *trial = trial_begin(0);
    struct okv_wal *wal = trial->machine.wal;
    uint64_t newest;

    put(trial, 0, 10);
    assert_int_equal(wal_machine_snapshot(&trial->machine), 0);
    uint64_t number = atomic_load(&wal->snapshot.made);
    assert_int_equal(okv_wal_snapshot_state(wal, number, &newest), 0);
    atomic_fetch_add(&wal->blobs.logged, UINT64_C(1) << 30); /* the whole one is new, though */
    put(trial, 0, 20);
    put(trial, 0, 30);
    assert_int_equal(okv_wal_snapshot_state(wal, number, &newest), 0);
    assert_int_equal(newest, number);
    let_refer(trial);
    assert_int_equal(okv_wal_snapshot_state(wal, number, &newest), OKV_ECONFLICT);
    wal_machine_stop(&trial->machine);
    trial_end(trial);
}

/* ---- a wish that comes while another snapshot begins ---- */

static uint64_t end_of(struct trial *trial, uint64_t number, int status)
{
    uint64_t newest;
    int rc;

    while ((rc = okv_wal_snapshot_state(trial->machine.wal, number, &newest)) == OKV_EAGAIN)
        sched_yield();
    assert_int_equal(rc, status);
    return newest;
}

static void wish(struct trial *trial)
{
    if (!trial->wish)
        trial->wish = okv_wal_snapshot_request(trial->machine.wal);
}

static int rename_late(struct okv_files *files, const char *from, const char *to,
                       struct okv_diag *why)
{
    struct trial *trial = (struct trial *)files;

    if (strcmp(from, OKV_WAL_SEGMENT_PART) == 0) {
        wish(trial);
        if (trial->fails) {
            trial->fails = false;
            return okv_file_failed(EIO, why);
        }
    }
    return trial->real->rename(files, from, to, why);
}

static void wish_before_sync(void *user)
{
    wish(user);
}

static struct trial *trial_begin_with_one(void)
{
    struct trial *trial = trial_begin(0);

    put(trial, 0, 10);
    return trial;
}

static void let_wish_at_rename(struct trial *trial)
{
    trial->real = trial->disk.files.ops;
    trial->ops = *trial->real;
    trial->ops.rename = rename_late;
    trial->disk.files.ops = &trial->ops;
}

/* It is decided that one begins, which then is the one that was wished for. */
TEST(a_wish_for_the_one_that_is_due)
{
    struct trial *trial = trial_begin_with_one();

    trial->disk.user = trial;
    trial->disk.before_sync = wish_before_sync;
    wal_machine_let_grow(&trial->machine);
    put(trial, 0, 20);
    while (atomic_load(&trial->machine.wal->snapshot.completed) == 0)
        sched_yield();
    assert_int_equal(end_of(trial, trial->wish, 0), trial->wish);
    wal_machine_stop(&trial->machine);
    trial_end(trial);
}

/* Its segment has begun: one more follows. */
TEST(a_wish_is_never_too_late)
{
    struct trial *trial = trial_begin_with_one();

    let_wish_at_rename(trial);
    let_refer(trial);
    assert_int_equal(end_of(trial, trial->wish, 0), trial->wish);
    wal_machine_stop(&trial->machine);
    trial_end(trial);
}

/* Whoever was promised a number hears of the end, and the number comes again. */
TEST(a_late_wish_fails_with_the_segment)
{
    struct trial *trial = trial_begin_with_one();
    struct okv_wal *wal = trial->machine.wal;

    trial->fails = true;
    let_wish_at_rename(trial);
    wal_machine_let_grow(&trial->machine);
    put(trial, 0, 20);
    while (atomic_load(&wal->snapshot.failed) == 0)
        sched_yield();
    end_of(trial, trial->wish, OKV_ENOTFOUND);
    assert_int_equal(okv_wal_snapshot_request(wal), trial->wish);
    assert_int_equal(end_of(trial, trial->wish, 0), trial->wish);
    wal_machine_stop(&trial->machine);
    trial_end(trial);
}

/* ---- starts, and starts that fail ---- */

/* Alone it is no database. */
TEST(it_is_no_backup)
{
    struct trial *trial = trial_begin(0), *other = calloc(1, sizeof *other);

    put(trial, 0, 10);
    let_refer(trial);
    assert_int_equal(restore(trial, other), OKV_EINVAL);
    assert_non_null(strstr(other->machine.diag.text, "refers to values in other files"));
    trial_end(other);
    wal_machine_stop(&trial->machine);
    trial_end(trial);
}

static void note(void *user, const char *name, uint64_t from, uint64_t to, const char *text)
{
    struct okv_diag *diag = user;

    (void)name;
    (void)from;
    (void)to;
    okv_diag_set(diag, OKV_ECORRUPT, "%s", text);
}

/* Salvages the directory into that of `saved`. */
static void salvage(struct trial *trial, struct trial *saved, struct okv_diag *first,
                    struct okv_wal_survey *survey)
{
    const struct okv_wal_damage_report report = {note, first};
    struct okv_wal_salvaged salvaged;
    struct okv_diag diag;

    crash_disk_init(&saved->disk, 2);
    assert_int_equal(okv_wal_salvage(&trial->disk.files, &saved->disk.files, BUCKET_SIZE, &report,
                                     survey, &salvaged, &diag),
                     0);
    wal_machine_init(&saved->machine, &saved->disk, REGION);
    restart(saved);
}

/* A salvage has the others. */
static void expect_loss_of_first(struct trial *trial, int status, const char *text)
{
    struct trial *saved = calloc(1, sizeof *saved);
    struct okv_wal_survey survey;
    struct okv_diag first;

    assert_int_equal(wal_machine_start(&trial->machine), status);
    assert_non_null(strstr(trial->machine.diag.text, text));
    salvage(trial, saved, &first, &survey);
    assert_int_equal(survey.damages, 1);
    assert_int_equal(survey.items, 2);
    assert_string_equal(first.text, trial->machine.diag.text);
    expect(saved, 0, 0);
    expect(saved, 1, 11);
    wal_machine_stop(&saved->machine);
    trial_end(saved);
}

static struct trial *trial_begin_with_two(void)
{
    struct trial *trial = trial_begin(0);

    put(trial, 0, 10);
    put(trial, 1, 11);
    let_refer(trial);
    wal_machine_kill(&trial->machine);
    return trial;
}

TEST(a_file_that_is_damaged_is_named)
{
    struct trial *trial = trial_begin_with_two();

    crash_disk_bytes(&trial->disk, FIRST, NULL)[100] ^= 1;
    expect_loss_of_first(trial, OKV_ECORRUPT, FIRST " is damaged");
    trial_end(trial);
}

TEST(a_file_that_cannot_be_read_is_named)
{
    struct trial *trial = trial_begin_with_two();

    trial->disk.unreadable = FIRST;
    expect_loss_of_first(trial, OKV_EIO, "cannot read " FIRST);
    trial_end(trial);
}

/* As when a tail is read twice. */
TEST(a_file_is_copied_once)
{
    struct trial *trial = trial_begin_with_two();
    const uint8_t *bytes = crash_disk_bytes(&trial->disk, FIRST, NULL);
    const struct okv_wal_long at = {
        .number = 1, .length = LENGTH, .checksum = okv_hash_checksum(bytes, LENGTH, 0)};
    struct crash_disk other;
    struct okv_diag diag;

    crash_disk_init(&other, 2);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(okv_blob_file_copy(&trial->disk.files, &other.files, &at, &diag), 0);
    crash_disk_fini(&other);
    trial_end(trial);
}

/* What the files have of long values is no reason for the first snapshot. */
TEST(a_start_counts_no_values)
{
    struct trial *trial = trial_begin_with_two();

    restart(trial);
    const struct okv_wal *wal = trial->machine.wal;
    assert_int_equal(atomic_load(&wal->blobs.logged), 2 * LENGTH);
    assert_int_equal(wal->blobs_tried, 2 * LENGTH);
    wal_machine_stop(&trial->machine);
    trial_end(trial);
}

/* Ends a bucket before its items: what was an empty one becomes it, and it a record of none. */
static void end_bucket_early(struct trial *trial)
{
    char name[OKV_WAL_NAME_SIZE];
    uint8_t *bytes = crash_disk_bytes(&trial->disk, name_of_snapshot(trial, name), NULL);
    uint8_t *first = bytes + OKV_WAL_HEADER_SIZE;
    const struct okv_wal_record forgotten = {.kind = OKV_WAL_FORGOTTEN};
    uint64_t at = OKV_WAL_FRAME_HEADER, size = okv_wal_record_size(0, 0);
    struct okv_wal_record record = {.kind = 0}, bucket = record, empty = record;
    struct okv_wal_header header;
    struct okv_wal_frame frame;

    assert_int_equal(okv_wal_header_decode(bytes, &header), 0);
    assert_true(okv_wal_frame_peek(first, OKV_WAL_FRAME_MAX, &frame));
    do {
        empty = bucket;
        bucket = record;
        assert_int_equal(okv_wal_record_decode(first, frame.length, &at, &record), 0);
    } while (!okv_wal_is_change(&record) || bucket.kind != OKV_WAL_BUCKET ||
             empty.kind != OKV_WAL_BUCKET);
    at -= okv_wal_record_size(record.key_length, record.value_length);
    okv_wal_record_encode(&bucket, first + at - 2 * size);
    okv_wal_record_encode(&forgotten, first + at - size);
    okv_wal_frame_seal(&frame, header.number, first);
}

TEST(an_item_needs_its_bucket)
{
    struct trial *trial = trial_begin(0), *saved = calloc(1, sizeof *saved);
    struct okv_wal_survey survey;
    struct okv_diag first;

    for (unsigned key = 0; key < 50; key++)
        put(trial, key, key);
    let_refer(trial);
    wal_machine_kill(&trial->machine);
    end_bucket_early(trial);
    assert_int_equal(wal_machine_start(&trial->machine), OKV_ECORRUPT);
    assert_non_null(strstr(trial->machine.diag.text, "a record makes no sense"));
    salvage(trial, saved, &first, &survey);
    assert_non_null(strstr(first.text, "a record makes no sense"));
    wal_machine_stop(&saved->machine);
    trial_end(saved);
    trial_end(trial);
}
