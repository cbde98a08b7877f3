/* Damaged files at every kind of place: what a start, a check and a salvage make of them. */
#include "tests/support/test.h"

#include "server/wal/listing.h"
#include "shared/base/error.h"
#include "shared/base/random.h"
#include "tests/support/wal_trial.h"

TEST(what_is_whole_comes_out_as_it_was)
{
    struct trial *trial = trial_begin(*state);
    struct okv_diag diag;
    uint64_t bytes, superseded;
    unsigned last = wal_scene_frames(&trial->disk, trial->scene->first) - 1;

    wal_scene_frame(&trial->disk, trial->scene->first, last, &superseded);
    trial_check(trial);
    assert_int_equal(trial->survey.damages, 0);
    assert_int_equal(trial->survey.cut, 0);
    assert_int_equal(trial->survey.items, WAL_SCENE_KEYS);
    /* The second segment has the last batch of the first, where it does not count any more. */
    assert_int_equal(trial->survey.records, 2 * WAL_SCENE_CHANGED);
    assert_int_equal(trial->survey.segments, 2);
    assert_int_equal(okv_wal_list_bytes(&trial->disk.files, &bytes, &diag), 0);
    bytes -= trial->survey.bytes + superseded + 3 * OKV_WAL_HEADER_SIZE;
    assert_in_range(bytes, 0, 2 * 4095); /* segments end with their last page */
    assert_true(trial->survey.wall_ms > 0);
    trial_expect_start(trial);
    assert_int_equal(trial->machine.reads,
                     trial->survey.frames + wal_scene_frames(&trial->disk, trial->scene->snapshot));
    trial_expect_counts(trial_salvage(trial), 0, 0, 0);
    assert_int_equal(trial->salvaged.buckets, 0);
    trial_end(trial);
}

TEST(the_header_of_a_snapshot)
{
    struct wal_scene *scene = *state;
    struct trial *trial = trial_begin(scene);

    trial_flip(trial, scene->snapshot, 20);
    trial_expect_damage(trial, scene->snapshot, "at byte 0: it has no header");
    assert_int_equal(trial->to, OKV_WAL_HEADER_SIZE);
    trial_expect_counts(trial_salvage(trial), 0, 0, 0);
    trial_end(trial);
}

TEST(a_header_that_counts_too_many_buckets)
{
    struct wal_scene *scene = *state;
    struct okv_wal_header header;
    uint64_t size;

    for (uint64_t count = UINT64_C(1) << 18; count; count <<= 1) {
        struct trial *trial = trial_begin(scene);
        uint8_t *bytes = wal_scene_bytes(&trial->disk, scene->snapshot, &size);
        okv_wal_header_decode(bytes, &header);
        header.bucket_count = count;
        okv_wal_header_encode(&header, bytes);
        trial_expect_damage(trial, scene->snapshot,
                            "at byte 0: it counts more buckets than it can have");
        trial_expect_counts(trial_salvage(trial), 0, 0, 0);
        trial_end(trial);
    }
}

/* No table has so few: a start reads it into one that has more. */
TEST(a_header_that_counts_too_few_buckets)
{
    struct trial *trial = trial_begin(*state);
    struct wal_machine *machine = &trial->machine;
    struct okv_wal_header header;
    uint64_t size;

    crash_disk_fini(&trial->disk);
    crash_disk_init(&trial->disk, 1);
    wal_machine_init(machine, &trial->disk, WAL_SCENE_REGION);
    assert_int_equal(wal_machine_start(machine), 0);
    wal_scene_change(machine, 0, OKV_STORE_BUCKETS_MIN / 2, 1, false);
    assert_int_equal(wal_machine_snapshot(machine), 0);
    wal_machine_kill(machine);
    uint8_t *bytes = wal_scene_bytes(&trial->disk, "snapshot.0000000000000002", &size);
    okv_wal_header_decode(bytes, &header);
    assert_int_equal(header.bucket_count, OKV_STORE_BUCKETS_MIN);
    header.bucket_count = 1;
    okv_wal_header_encode(&header, bytes);
    trial_check(trial);
    assert_int_equal(trial->survey.damages, 0);
    trial_expect_start(trial);
    trial_salvage(trial);
    assert_int_equal(trial->salvaged.buckets, 0);
    trial_end(trial);
}

TEST(a_header_whose_buckets_have_no_size)
{
    static const uint32_t sizes[] = {0, 7, 300, 1u << 31};
    struct wal_scene *scene = *state;
    struct okv_wal_header header;
    uint64_t size;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct trial *trial = trial_begin(scene);
        uint8_t *bytes = wal_scene_bytes(&trial->disk, scene->snapshot, &size);
        okv_wal_header_decode(bytes, &header);
        header.bucket_size = sizes[i];
        okv_wal_header_encode(&header, bytes);
        trial_expect_damage(trial, scene->snapshot, "at byte 0: its buckets have no valid size");
        trial_expect_counts(trial_salvage(trial), 0, 0, 0);
        trial_end(trial);
    }
}

/* Its keys are lost, but for those that the log has. The first one is long. */
TEST(a_frame_of_a_snapshot)
{
    struct wal_scene *scene = *state;
    struct trial *trial = trial_begin(scene);
    uint64_t length, at = wal_scene_frame(&trial->disk, scene->snapshot, 0, &length);

    trial_flip(trial, scene->snapshot, at + length / 2);
    trial_expect_damage(trial, scene->snapshot, "it is not whole");
    assert_int_equal(trial->survey.damages, 1);
    assert_int_equal(trial->from, at);
    assert_int_equal(trial->to, at + length);
    struct trial_counts counts = trial_salvage(trial);
    assert_in_range(counts.lost, 1, WAL_SCENE_KEYS - trial->survey.items);
    assert_int_equal(counts.older, 0);
    assert_int_equal(counts.returned, 0);
    assert_int_equal(trial->survey.expected, WAL_SCENE_KEYS);
    assert_true(trial->salvaged.buckets > 0);
    trial_end(trial);
}

/* Their keys get no version that a lost item had: trial_salvage() looks. */
TEST(lost_buckets_without_a_log)
{
    struct wal_scene *scene = *state;
    struct trial *trial = trial_begin(scene);
    struct okv_files *files = &trial->disk.files;
    uint64_t length;

    trial_flip(trial, scene->snapshot,
               wal_scene_frame(&trial->disk, scene->snapshot, 0, &length) + 8);
    files->ops->remove(files, scene->first, NULL);
    files->ops->remove(files, scene->second, NULL);
    trial_expect_damage(trial, "", "a segment of the log is missing");
    assert_true(trial_salvage(trial).lost > 0);
    assert_true(trial->salvaged.buckets > 0);
    trial_end(trial);
}

TEST(the_end_of_a_snapshot)
{
    struct wal_scene *scene = *state;
    struct trial *trial = trial_begin(scene);
    unsigned last = wal_scene_frames(&trial->disk, scene->snapshot) - 1;
    uint64_t length, at = wal_scene_frame(&trial->disk, scene->snapshot, last, &length);

    trial_flip(trial, scene->snapshot, at + 8);
    trial_expect_damage(trial, scene->snapshot, "it is not whole");
    assert_int_equal(trial->from, at);
    assert_int_equal(trial->to, at + length);
    assert_false(trial->survey.is_ended);
    trial_salvage(trial); /* it may have no items */
    trial_end(trial);
}

/* Cut off between two frames. */
TEST(a_snapshot_without_its_end)
{
    struct wal_scene *scene = *state;
    struct trial *trial = trial_begin(scene);
    unsigned last = wal_scene_frames(&trial->disk, scene->snapshot) - 1;
    uint64_t length, at = wal_scene_frame(&trial->disk, scene->snapshot, last, &length);

    trial->disk.files.ops->trim(&trial->disk.files, scene->snapshot, at, NULL);
    trial_expect_damage(trial, scene->snapshot, "it is not whole");
    assert_int_equal(trial->from, at);
    assert_int_equal(trial->to, at);
    trial_end(trial);
}

/* Changes of that batch are lost, and later ones are not. */
TEST(a_frame_in_the_middle_of_a_segment)
{
    struct wal_scene *scene = *state;
    struct trial *trial = trial_begin(scene);
    uint64_t length, at = wal_scene_frame(&trial->disk, scene->first, 3, &length);

    trial_flip(trial, scene->first, at);
    trial_expect_damage(trial, scene->first, "a batch is not whole, and later ones are");
    assert_int_equal(trial->from, at);
    assert_int_equal(trial->to, at + length);
    trial_expect_counts(trial_salvage(trial), 0, WAL_SCENE_BATCH, 0);
    trial_end(trial);
}

/* Two that are not side by side are two. */
TEST(deletes_that_are_lost_return_items)
{
    struct wal_scene *scene = *state;
    struct trial *trial = trial_begin(scene);
    uint64_t length;

    trial_flip(trial, scene->second, wal_scene_frame(&trial->disk, scene->second, 2, &length) + 60);
    trial_flip(trial, scene->second, wal_scene_frame(&trial->disk, scene->second, 5, &length) + 60);
    trial_expect_damage(trial, scene->second, "a batch is not whole");
    assert_int_equal(trial->survey.damages, 2);
    trial_expect_counts(trial_salvage(trial), 0, 0, 2 * WAL_SCENE_BATCH);
    trial_end(trial);
}

/* Frames say their positions themselves. */
TEST(the_header_of_a_segment)
{
    struct wal_scene *scene = *state;
    struct trial *trial = trial_begin(scene);
    uint64_t length;

    trial_flip(trial, scene->first, 0);
    trial_expect_damage(trial, scene->first, "at byte 0: it has no header");
    assert_int_equal(trial->survey.damages, 1);
    trial_expect_counts(trial_salvage(trial), 0, 0, 0);
    trial_end(trial);
    trial = trial_begin(scene);
    trial_flip(trial, scene->first, 0);
    trial_flip(trial, scene->first, wal_scene_frame(&trial->disk, scene->first, 0, &length) + 60);
    trial_expect_damage(trial, scene->first, "at byte 0: it has no header");
    assert_int_equal(trial->survey.damages, 2);
    trial_expect_counts(trial_salvage(trial), 0, WAL_SCENE_BATCH, 0);
    trial_end(trial);
}

/* Where the first put of a frame begins, and the record before it. */
static void find_put(const uint8_t *bytes, uint64_t length, uint64_t *before, uint64_t *put)
{
    uint64_t at = sizeof(struct okv_wal_wire_frame);
    struct okv_wal_record record = {.kind = OKV_WAL_END};

    for (*put = at; record.kind != OKV_WAL_PUT;) {
        *before = *put;
        *put = at;
        assert_int_equal(okv_wal_record_decode(bytes, length, &at, &record), 0);
    }
}

/* Changes a byte of the first put of a frame, or of the record before it, and gives the frame a
 * checksum that fits. */
static void reseal(struct trial *trial, const char *name, unsigned index, bool is_before,
                   uint64_t in_record)
{
    struct okv_wal_header header;
    struct okv_wal_frame frame;
    uint64_t length, size, before, put;
    uint64_t at = wal_scene_frame(&trial->disk, name, index, &length);
    uint8_t *bytes = wal_scene_bytes(&trial->disk, name, &size);

    assert_int_equal(okv_wal_header_decode(bytes, &header), 0);
    assert_true(okv_wal_frame_peek(bytes + at, OKV_WAL_FRAME_MAX, &frame));
    find_put(bytes + at, length, &before, &put);
    bytes[at + (is_before ? before : put) + in_record] ^= 4;
    okv_wal_frame_seal(&frame, header.number, bytes + at);
}

TEST(a_record_that_makes_no_sense)
{
    struct wal_scene *scene = *state;
    struct trial *trial = trial_begin(scene);
    /* Of a snapshot: kind, number and another number of a bucket; kind and version of an item.
     * Without a header, a number that the file cannot have. */
    const struct {
        bool is_bucket;
        uint64_t in_record;
        bool has_no_header;
    } places[] = {{true, 0, false},   {true, 22, false}, {true, 16, false}, {false, 0, false},
                  {false, 13, false}, {true, 18, true},  {true, 23, true}};

    reseal(trial, scene->first, 3, false, 0);
    trial_expect_damage(trial, scene->first, "a record makes no sense");
    trial_expect_counts(trial_salvage(trial), 0, WAL_SCENE_BATCH, 0);
    trial_end(trial);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        trial = trial_begin(scene);
        reseal(trial, scene->snapshot, 0, places[i].is_bucket, places[i].in_record);
        if (places[i].has_no_header)
            trial_flip(trial, scene->snapshot, 20);
        trial_expect_damage(trial, scene->snapshot,
                            places[i].has_no_header ? "it has no header"
                                                    : "a record makes no sense");
        assert_int_equal(trial->survey.damages, 1 + places[i].has_no_header);
        assert_true(trial_salvage(trial).lost > 0);
        trial_end(trial);
    }
}

/* Only with a header it shows that the key is of another bucket. Without one it comes out, too. */
TEST(a_key_of_another_bucket)
{
    struct wal_scene *scene = *state;
    struct trial *trial = trial_begin(scene);
    uint64_t in_record = sizeof(struct okv_wal_wire_record) + 3; /* no key of the scene has it */

    reseal(trial, scene->snapshot, 0, false, in_record);
    trial_expect_damage(trial, scene->snapshot, "a record makes no sense");
    assert_true(trial_salvage(trial).lost > 0);
    trial_end(trial);
    trial = trial_begin(scene);
    reseal(trial, scene->snapshot, 0, false, in_record);
    trial_flip(trial, scene->snapshot, 20);
    trial_expect_damage(trial, scene->snapshot, "it has no header");
    assert_int_equal(trial->survey.damages, 1);
    assert_int_equal(trial->survey.items, WAL_SCENE_KEYS);
    assert_in_range(trial_salvage(trial).lost, 0, 1);
    assert_int_equal(trial->salvaged.buckets, 0);
    trial_end(trial);
}

TEST(an_incomplete_end_is_no_damage)
{
    struct wal_scene *scene = *state;
    struct trial *trial = trial_begin(scene);
    unsigned last = wal_scene_frames(&trial->disk, scene->second) - 1;
    uint64_t length, at = wal_scene_frame(&trial->disk, scene->second, last, &length);
    uint64_t size;
    uint8_t *bytes = wal_scene_bytes(&trial->disk, scene->second, &size);

    memset(bytes + at + 64, 0, length - 64);
    trial_check(trial);
    assert_int_equal(trial->survey.damages, 0);
    assert_int_equal(trial->survey.cut, length);
    trial_expect_start(trial);
    trial_expect_counts(trial_salvage(trial), 0, 0, WAL_SCENE_BATCH);
    trial_end(trial);
}

TEST(a_segment_that_is_missing)
{
    struct wal_scene *scene = *state;
    struct trial *trial = trial_begin(scene);

    trial->disk.files.ops->remove(&trial->disk.files, scene->first, NULL);
    trial_expect_damage(trial, "", "a segment of the log is missing");
    trial_expect_counts(trial_salvage(trial), 0, WAL_SCENE_CHANGED - WAL_SCENE_BATCH,
                        0); /* the second has the last batch */
    trial_end(trial);
}

/* At a position that fits. */
TEST(a_segment_of_another_database)
{
    struct wal_scene *scene = *state;
    struct trial *trial = trial_begin(scene);
    struct okv_wal_header header;
    uint64_t size;
    uint8_t *bytes = wal_scene_bytes(&trial->disk, scene->second, &size);

    assert_int_equal(okv_wal_header_decode(bytes, &header), 0);
    header.database_id[3] ^= 1;
    okv_wal_header_encode(&header, bytes);
    trial_expect_damage(trial, scene->second, "it is of another database");
    assert_int_equal(trial->to, size);
    trial_expect_counts(trial_salvage(trial), 0, 0, WAL_SCENE_CHANGED);
    trial_end(trial);
}

TEST(a_file_under_another_name)
{
    struct wal_scene *scene = *state;
    struct trial *trial = trial_begin(scene);
    struct okv_files *files = &trial->disk.files;

    files->ops->remove(files, scene->second, NULL);
    files->ops->rename(files, scene->first, scene->second, NULL);
    wal_scene_copy_file(&scene->disk, scene->first, &trial->disk);
    trial_expect_damage(trial, scene->second, "at byte 0: it is another file");
    trial_expect_counts(trial_salvage(trial), 0, 0, WAL_SCENE_CHANGED);
    trial_end(trial);
}

TEST(a_long_value)
{
    static const char name[] = "value.0000000000000001";
    static const char *const what[] = {NULL, "is damaged: it is not what was written",
                                       "cannot read"};

    for (unsigned i = 0; i < 3; i++) {
        struct trial *trial = trial_begin(*state);
        wal_scene_put_long(&trial->disk);
        if (i == 1)
            trial_flip(trial, name, 4000);
        if (i == 2)
            trial->disk.files.ops->remove(&trial->disk.files, name, NULL);
        if (what[i])
            trial_expect_damage(trial, name, what[i]);
        else
            trial_check(trial);
        assert_int_equal(trial->survey.damages, i > 0);
        trial_expect_start(trial);
        trial_expect_counts(trial_salvage(trial), 0, 0, 0);
        trial_end(trial);
    }
}

TEST(without_a_snapshot_the_log_comes_out)
{
    struct wal_scene *scene = *state;
    struct trial *trial = trial_begin(scene);

    trial->disk.files.ops->remove(&trial->disk.files, scene->snapshot, NULL);
    trial_expect_damage(trial, "", "a segment of the log is missing");
    trial_expect_counts(trial_salvage(trial), WAL_SCENE_KEYS - 2 * WAL_SCENE_CHANGED, 0, 0);
    trial_end(trial);
}

/* Nor is any seed left. */
TEST(without_any_header_the_items_come_out)
{
    struct wal_scene *scene = *state;
    struct trial *trial = trial_begin(scene);

    trial_flip(trial, scene->snapshot, 16);
    trial_flip(trial, scene->first, 16);
    trial_flip(trial, scene->second, 16);
    trial_expect_damage(trial, scene->snapshot, "it has no header");
    assert_false(trial->survey.has_base);
    trial_expect_counts(trial_salvage(trial), 0, 0, 0);
    trial_end(trial);
}

/* A start then refuses what is there, or finds all of it. */
TEST(a_salvage_that_is_interrupted)
{
    struct wal_scene *scene = *state;
    struct okv_diag diag;
    int rc = OKV_EIO;

    for (unsigned calls = 2; rc; calls++) {
        struct trial *trial = trial_begin(scene);
        const struct okv_wal_damage_report report = {trial_note, trial};
        trial->saved.calls_left = calls;
        rc = okv_wal_salvage(&trial->disk.files, &trial->saved.files, TRIAL_BUCKET_SIZE, &report,
                             &trial->survey, &trial->salvaged, &diag);
        crash_disk_crash(&trial->saved);
        wal_machine_init(&trial->machine, &trial->saved, WAL_SCENE_REGION);
        int started = wal_machine_start(&trial->machine);
        if (started == 0) {
            trial_expect_counts(trial_count(&trial->machine), 0, 0, 0);
            wal_machine_kill(&trial->machine);
        } else {
            assert_int_equal(started, OKV_ECORRUPT);
            assert_true(rc);
        }
        trial_end(trial);
    }
}

TEST(one_changed_byte_anywhere)
{
    struct wal_scene *scene = *state;
    uint64_t random = 1, size;

    for (unsigned i = 0; i < 60; i++) {
        struct trial *trial = trial_begin(scene);
        const char *name = i % 3 == 0 ? scene->snapshot : i % 3 == 1 ? scene->first : scene->second;
        wal_scene_bytes(&trial->disk, name, &size);
        uint64_t at = okv_random_next(&random) % size;
        trial_flip(trial, name, at);
        if (at < 8 || at >= 12) { /* that is the version */
            trial_check(trial);
            trial_expect_start(trial);
            struct trial_counts counts = trial_salvage(trial);
            if (!trial->survey.damages && !trial->survey.cut)
                trial_expect_counts(counts, 0, 0, 0); /* padding, or a batch that is there twice */
        }
        trial_end(trial);
    }
}

static int make_scene(void **state)
{
    struct wal_scene *scene = calloc(1, sizeof *scene);

    wal_scene_make(scene);
    *state = scene;
    return 0;
}

static int end_scene(void **state)
{
    struct wal_scene *scene = *state;

    crash_disk_fini(&scene->disk);
    free(scene);
    return 0;
}

TEST_PROGRAM(make_scene, end_scene)
