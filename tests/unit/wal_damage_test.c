/* Damaged files at every kind of place: what a start, a check and a salvage make of them. */
#include "tests/support/test.h"

#include "server/store/commands.h"
#include "server/wal/listing.h"
#include "server/wal/offline/salvage.h"
#include "shared/base/error.h"
#include "shared/base/random.h"
#include "tests/support/wal_scene.h"

#define WAL_SCENE_REGION (UINT64_C(8) << 20)
#define BUCKET_SIZE 256 /* of a wal_machine */

/* A copy of a scene, that a test damages. */
struct trial {
    struct wal_scene *scene;
    struct crash_disk disk, saved, started;
    struct wal_machine machine; /* here, since a failed test leaves it running */
    struct okv_wal_survey survey;
    struct okv_wal_salvaged salvaged;
    struct okv_diag first; /* what was reported first */
    uint64_t from, to;     /* where */
};

static struct trial *trial_begin(struct wal_scene *scene)
{
    struct trial *trial = calloc(1, sizeof *trial);

    trial->scene = scene;
    wal_scene_copy(&scene->disk, &trial->disk);
    crash_disk_init(&trial->saved, 1);
    return trial;
}

static void trial_end(struct trial *trial)
{
    crash_disk_fini(&trial->disk);
    crash_disk_fini(&trial->saved);
    free(trial);
}

static void flip(struct trial *trial, const char *name, uint64_t at)
{
    uint64_t size;
    uint8_t *bytes = wal_scene_bytes(&trial->disk, name, &size);

    assert_in_range(at, 0, size - 1);
    bytes[at] ^= 4;
}

/* ---- what is made of it ---- */

static void note(void *user, const char *name, uint64_t from, uint64_t to, const char *text)
{
    struct trial *trial = user;

    (void)name;
    if (trial->first.text[0])
        return;
    snprintf(trial->first.text, sizeof trial->first.text, "%s", text);
    trial->from = from;
    trial->to = to;
}

static void check(struct trial *trial)
{
    const struct okv_wal_damage_report report = {note, trial};
    struct okv_diag diag;

    trial->first.text[0] = '\0';
    assert_int_equal(okv_wal_verify(&trial->disk.files, &report, NULL, NULL, &trial->survey, &diag),
                     0);
}

/* A start refuses what a check does not call whole, with the same sentence. */
static void expect_start_agrees(struct trial *trial)
{
    struct wal_machine *machine = &trial->machine;

    wal_scene_copy(&trial->disk, &trial->started);
    wal_machine_init(machine, &trial->started, WAL_SCENE_REGION);
    int rc = wal_machine_start(machine);
    if (trial->survey.damages) {
        assert_int_equal(rc, OKV_ECORRUPT);
        assert_string_equal(machine->diag.text, trial->first.text);
    } else {
        assert_int_equal(rc, 0);
        assert_int_equal(machine->found.records, trial->survey.records);
        assert_int_equal(machine->found.snapshot_items, trial->survey.items);
        assert_int_equal(machine->found.is_cut, trial->survey.cut > 0);
        assert_int_equal(machine->found.bytes, trial->survey.bytes);
        assert_int_equal(machine->read, trial->survey.bytes);
        wal_machine_kill(machine);
    }
    crash_disk_fini(&trial->started);
}

struct counts {
    unsigned lost;     /* keys without a value that they had, one of round 1 or 2 */
    unsigned older;    /* of round 1 that were of round 2 */
    unsigned returned; /* that were deleted */
};

static struct counts count_keys(struct wal_machine *machine)
{
    struct counts counts = {0};

    for (uint32_t key = 0; key < WAL_SCENE_KEYS; key++) {
        uint32_t round = wal_scene_salvaged_round(machine, key);
        assert_in_range(round, 0, 2);
        bool is_gone = key >= WAL_SCENE_CHANGED && key < 2 * WAL_SCENE_CHANGED;
        counts.returned += is_gone && round != 0;
        counts.lost += !is_gone && round == 0;
        counts.older += key < WAL_SCENE_CHANGED && round == 1;
    }
    return counts;
}

/* The log ends with the record that no client of before goes on. */
static void expect_forgotten(struct crash_disk *saved)
{
    uint64_t size;
    const uint8_t *log = crash_disk_bytes(saved, "log.0000000000000002", &size);

    assert_non_null(log);
    assert_int_equal(log[size - sizeof(struct okv_wal_wire_record)], OKV_WAL_FORGOTTEN);
}

/* Salvages, checks what came out, starts on it, and changes every key there. */
static struct counts salvage(struct trial *trial)
{
    const struct okv_wal_damage_report report = {note, trial};
    struct okv_wal_survey survey;
    struct wal_machine *machine = &trial->machine;
    struct okv_diag diag = {.text = ""};
    uint64_t damages = trial->survey.damages;
    int rc = okv_wal_salvage(&trial->disk.files, &trial->saved.files, BUCKET_SIZE, &report,
                             &trial->survey, &trial->salvaged, &diag);

    if (rc)
        fail_msg("salvage: %s", diag.text);
    assert_int_equal(trial->survey.damages, damages);
    assert_int_equal(okv_wal_verify(&trial->saved.files, &report, NULL, NULL, &survey, &diag), 0);
    assert_int_equal(survey.damages, 0);
    assert_int_equal(survey.items, trial->survey.items);
    assert_int_equal(survey.records, trial->survey.records);
    expect_forgotten(&trial->saved);
    wal_machine_init(machine, &trial->saved, WAL_SCENE_REGION);
    if (wal_machine_start(machine))
        fail_msg("start: %s", machine->diag.text);
    struct counts counts = count_keys(machine);
    wal_scene_change(machine, 0, WAL_SCENE_KEYS, 3, false);
    for (uint32_t key = 0; key < WAL_SCENE_KEYS; key++)
        assert_int_equal(wal_scene_salvaged_round(machine, key), 3); /* of a raised version */
    wal_machine_stop(machine);
    return counts;
}

static struct trial *expect_damage(struct trial *trial, const char *name, const char *what)
{
    check(trial);
    expect_start_agrees(trial);
    if (trial->survey.damages == 0 || !strstr(trial->first.text, name) ||
        !strstr(trial->first.text, what))
        fail_msg("%s: not %s of %s", trial->first.text, what, name);
    return trial;
}

static void expect_counts(struct counts counts, unsigned lost, unsigned older, unsigned returned)
{
    assert_int_equal(counts.lost, lost);
    assert_int_equal(counts.older, older);
    assert_int_equal(counts.returned, returned);
}

/* ---- the places ---- */

TEST(what_is_whole_comes_out_as_it_was)
{
    struct trial *trial = trial_begin(*state);
    struct okv_diag diag;
    uint64_t bytes, superseded;
    unsigned last = wal_scene_frames(&trial->disk, trial->scene->first) - 1;

    wal_scene_frame(&trial->disk, trial->scene->first, last, &superseded);
    check(trial);
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
    expect_start_agrees(trial);
    assert_int_equal(trial->machine.reads,
                     trial->survey.frames + wal_scene_frames(&trial->disk, trial->scene->snapshot));
    expect_counts(salvage(trial), 0, 0, 0);
    assert_int_equal(trial->salvaged.buckets, 0);
    trial_end(trial);
}

TEST(the_header_of_a_snapshot)
{
    struct wal_scene *scene = *state;
    struct trial *trial = trial_begin(scene);

    flip(trial, scene->snapshot, 20);
    expect_damage(trial, scene->snapshot, "at byte 0: it has no header");
    assert_int_equal(trial->to, OKV_WAL_HEADER_SIZE);
    expect_counts(salvage(trial), 0, 0, 0);
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
        expect_damage(trial, scene->snapshot, "at byte 0: it counts more buckets than it can have");
        expect_counts(salvage(trial), 0, 0, 0);
        trial_end(trial);
    }
}

/* Its keys are lost, but for those that the log has. The first one is long. */
TEST(a_frame_of_a_snapshot)
{
    struct wal_scene *scene = *state;
    struct trial *trial = trial_begin(scene);
    uint64_t length, at = wal_scene_frame(&trial->disk, scene->snapshot, 0, &length);

    flip(trial, scene->snapshot, at + length / 2);
    expect_damage(trial, scene->snapshot, "it is not whole");
    assert_int_equal(trial->survey.damages, 1);
    assert_int_equal(trial->from, at);
    assert_int_equal(trial->to, at + length);
    struct counts counts = salvage(trial);
    assert_in_range(counts.lost, 1, WAL_SCENE_KEYS - trial->survey.items);
    assert_int_equal(counts.older, 0);
    assert_int_equal(counts.returned, 0);
    assert_int_equal(trial->survey.expected, WAL_SCENE_KEYS);
    assert_true(trial->salvaged.buckets > 0);
    trial_end(trial);
}

/* Their keys get no version that a lost item had: salvage() looks. */
TEST(lost_buckets_without_a_log)
{
    struct wal_scene *scene = *state;
    struct trial *trial = trial_begin(scene);
    struct okv_files *files = &trial->disk.files;
    uint64_t length;

    flip(trial, scene->snapshot, wal_scene_frame(&trial->disk, scene->snapshot, 0, &length) + 8);
    files->ops->remove(files, scene->first, NULL);
    files->ops->remove(files, scene->second, NULL);
    expect_damage(trial, "", "a segment of the log is missing");
    assert_true(salvage(trial).lost > 0);
    assert_true(trial->salvaged.buckets > 0);
    trial_end(trial);
}

TEST(the_end_of_a_snapshot)
{
    struct wal_scene *scene = *state;
    struct trial *trial = trial_begin(scene);
    unsigned last = wal_scene_frames(&trial->disk, scene->snapshot) - 1;
    uint64_t length, at = wal_scene_frame(&trial->disk, scene->snapshot, last, &length);

    flip(trial, scene->snapshot, at + 8);
    expect_damage(trial, scene->snapshot, "it is not whole");
    assert_int_equal(trial->from, at);
    assert_int_equal(trial->to, at + length);
    assert_false(trial->survey.is_ended);
    salvage(trial); /* it may have no items */
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
    expect_damage(trial, scene->snapshot, "it is not whole");
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

    flip(trial, scene->first, at);
    expect_damage(trial, scene->first, "a batch is not whole, and later ones are");
    assert_int_equal(trial->from, at);
    assert_int_equal(trial->to, at + length);
    expect_counts(salvage(trial), 0, WAL_SCENE_BATCH, 0);
    trial_end(trial);
}

/* Two that are not side by side are two. */
TEST(deletes_that_are_lost_return_items)
{
    struct wal_scene *scene = *state;
    struct trial *trial = trial_begin(scene);
    uint64_t length;

    flip(trial, scene->second, wal_scene_frame(&trial->disk, scene->second, 2, &length) + 60);
    flip(trial, scene->second, wal_scene_frame(&trial->disk, scene->second, 5, &length) + 60);
    expect_damage(trial, scene->second, "a batch is not whole");
    assert_int_equal(trial->survey.damages, 2);
    expect_counts(salvage(trial), 0, 0, 2 * WAL_SCENE_BATCH);
    trial_end(trial);
}

/* Frames say their positions themselves. */
TEST(the_header_of_a_segment)
{
    struct wal_scene *scene = *state;
    struct trial *trial = trial_begin(scene);
    uint64_t length;

    flip(trial, scene->first, 0);
    expect_damage(trial, scene->first, "at byte 0: it has no header");
    assert_int_equal(trial->survey.damages, 1);
    expect_counts(salvage(trial), 0, 0, 0);
    trial_end(trial);
    trial = trial_begin(scene);
    flip(trial, scene->first, 0);
    flip(trial, scene->first, wal_scene_frame(&trial->disk, scene->first, 0, &length) + 60);
    expect_damage(trial, scene->first, "at byte 0: it has no header");
    assert_int_equal(trial->survey.damages, 2);
    expect_counts(salvage(trial), 0, WAL_SCENE_BATCH, 0);
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
    expect_damage(trial, scene->first, "a record makes no sense");
    expect_counts(salvage(trial), 0, WAL_SCENE_BATCH, 0);
    trial_end(trial);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        trial = trial_begin(scene);
        reseal(trial, scene->snapshot, 0, places[i].is_bucket, places[i].in_record);
        if (places[i].has_no_header)
            flip(trial, scene->snapshot, 20);
        expect_damage(trial, scene->snapshot,
                      places[i].has_no_header ? "it has no header" : "a record makes no sense");
        assert_int_equal(trial->survey.damages, 1 + places[i].has_no_header);
        assert_true(salvage(trial).lost > 0);
        trial_end(trial);
    }
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
    check(trial);
    assert_int_equal(trial->survey.damages, 0);
    assert_int_equal(trial->survey.cut, length);
    expect_start_agrees(trial);
    expect_counts(salvage(trial), 0, 0, WAL_SCENE_BATCH);
    trial_end(trial);
}

TEST(a_segment_that_is_missing)
{
    struct wal_scene *scene = *state;
    struct trial *trial = trial_begin(scene);

    trial->disk.files.ops->remove(&trial->disk.files, scene->first, NULL);
    expect_damage(trial, "", "a segment of the log is missing");
    expect_counts(salvage(trial), 0, WAL_SCENE_CHANGED - WAL_SCENE_BATCH,
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
    expect_damage(trial, scene->second, "it is of another database");
    assert_int_equal(trial->to, size);
    expect_counts(salvage(trial), 0, 0, WAL_SCENE_CHANGED);
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
    expect_damage(trial, scene->second, "at byte 0: it is another file");
    expect_counts(salvage(trial), 0, 0, WAL_SCENE_CHANGED);
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
            flip(trial, name, 4000);
        if (i == 2)
            trial->disk.files.ops->remove(&trial->disk.files, name, NULL);
        if (what[i])
            expect_damage(trial, name, what[i]);
        else
            check(trial);
        assert_int_equal(trial->survey.damages, i > 0);
        expect_start_agrees(trial);
        expect_counts(salvage(trial), 0, 0, 0);
        trial_end(trial);
    }
}

TEST(without_a_snapshot_the_log_comes_out)
{
    struct wal_scene *scene = *state;
    struct trial *trial = trial_begin(scene);

    trial->disk.files.ops->remove(&trial->disk.files, scene->snapshot, NULL);
    expect_damage(trial, "", "a segment of the log is missing");
    expect_counts(salvage(trial), WAL_SCENE_KEYS - 2 * WAL_SCENE_CHANGED, 0, 0);
    trial_end(trial);
}

/* Without a seed nothing says where an item belongs. */
TEST(without_any_header_a_snapshot_is_not_saved)
{
    struct wal_scene *scene = *state;
    struct trial *trial = trial_begin(scene);
    const struct okv_wal_damage_report report = {note, trial};
    struct okv_diag diag;

    flip(trial, scene->snapshot, 16);
    flip(trial, scene->first, 16);
    flip(trial, scene->second, 16);
    assert_int_equal(okv_wal_salvage(&trial->disk.files, &trial->saved.files, BUCKET_SIZE, &report,
                                     &trial->survey, &trial->salvaged, &diag),
                     OKV_ECORRUPT);
    assert_non_null(strstr(diag.text, "the seed"));
    wal_machine_init(&trial->machine, &trial->saved, WAL_SCENE_REGION);
    assert_int_equal(wal_machine_start(&trial->machine), OKV_ECORRUPT); /* it is no half database */
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
        const struct okv_wal_damage_report report = {note, trial};
        trial->saved.calls_left = calls;
        rc = okv_wal_salvage(&trial->disk.files, &trial->saved.files, BUCKET_SIZE, &report,
                             &trial->survey, &trial->salvaged, &diag);
        crash_disk_crash(&trial->saved);
        wal_machine_init(&trial->machine, &trial->saved, WAL_SCENE_REGION);
        int started = wal_machine_start(&trial->machine);
        if (started == 0) {
            expect_counts(count_keys(&trial->machine), 0, 0, 0);
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
        flip(trial, name, at);
        if (at < 8 || at >= 12) { /* that is the version */
            check(trial);
            expect_start_agrees(trial);
            struct counts counts = salvage(trial);
            if (!trial->survey.damages && !trial->survey.cut)
                expect_counts(counts, 0, 0, 0); /* padding, or a batch that is there twice */
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
