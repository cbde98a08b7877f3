#include "tests/support/wal_trial.h"

#include "tests/support/test.h"

#include "shared/base/error.h"

struct trial *trial_begin(struct wal_scene *scene)
{
    struct trial *trial = calloc(1, sizeof *trial);

    trial->scene = scene;
    wal_scene_copy(&scene->disk, &trial->disk);
    crash_disk_init(&trial->saved, 1);
    return trial;
}

void trial_end(struct trial *trial)
{
    crash_disk_fini(&trial->disk);
    crash_disk_fini(&trial->saved);
    free(trial);
}

void trial_flip(struct trial *trial, const char *name, uint64_t at)
{
    uint64_t size;
    uint8_t *bytes = wal_scene_bytes(&trial->disk, name, &size);

    assert_in_range(at, 0, size - 1);
    bytes[at] ^= 4;
}

void trial_note(void *user, const char *name, uint64_t from, uint64_t to, const char *text)
{
    struct trial *trial = user;

    (void)name;
    if (trial->first.text[0])
        return;
    snprintf(trial->first.text, sizeof trial->first.text, "%s", text);
    trial->from = from;
    trial->to = to;
}

void trial_check(struct trial *trial)
{
    const struct okv_wal_damage_report report = {trial_note, trial};
    struct okv_diag diag;

    trial->first.text[0] = '\0';
    assert_int_equal(okv_wal_verify(&trial->disk.files, &report, NULL, NULL, &trial->survey, &diag),
                     0);
}

void trial_expect_start(struct trial *trial)
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

struct trial_counts trial_count(struct wal_machine *machine)
{
    struct trial_counts counts = {0};

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

struct trial_counts trial_salvage(struct trial *trial)
{
    const struct okv_wal_damage_report report = {trial_note, trial};
    struct okv_wal_survey survey;
    struct wal_machine *machine = &trial->machine;
    struct okv_diag diag = {.text = ""};
    uint64_t damages = trial->survey.damages;
    int rc = okv_wal_salvage(&trial->disk.files, &trial->saved.files, TRIAL_BUCKET_SIZE, &report,
                             &trial->survey, &trial->salvaged, &diag);

    if (rc)
        fail_msg("salvage: %s", diag.text);
    assert_int_equal(trial->survey.damages, damages);
    assert_int_equal(okv_wal_verify(&trial->saved.files, &report, NULL, NULL, &survey, &diag), 0);
    assert_int_equal(survey.damages, 0);
    /* Items of a snapshot without a header come out as records. */
    uint64_t items = trial->survey.header.bucket_count ? trial->survey.items : 0;
    assert_int_equal(survey.items, items);
    assert_int_equal(survey.records, trial->survey.records + trial->survey.items - items);
    expect_forgotten(&trial->saved);
    wal_machine_init(machine, &trial->saved, WAL_SCENE_REGION);
    if (wal_machine_start(machine))
        fail_msg("start: %s", machine->diag.text);
    struct trial_counts counts = trial_count(machine);
    wal_scene_change(machine, 0, WAL_SCENE_KEYS, 3, false);
    for (uint32_t key = 0; key < WAL_SCENE_KEYS; key++)
        assert_int_equal(wal_scene_salvaged_round(machine, key), 3); /* of a raised version */
    wal_machine_stop(machine);
    return counts;
}

struct trial *trial_expect_damage(struct trial *trial, const char *name, const char *what)
{
    trial_check(trial);
    trial_expect_start(trial);
    if (trial->survey.damages == 0 || !strstr(trial->first.text, name) ||
        !strstr(trial->first.text, what))
        fail_msg("%s: not %s of %s", trial->first.text, what, name);
    return trial;
}

void trial_expect_counts(struct trial_counts counts, unsigned lost, unsigned older,
                         unsigned returned)
{
    assert_int_equal(counts.lost, lost);
    assert_int_equal(counts.older, older);
    assert_int_equal(counts.returned, returned);
}
