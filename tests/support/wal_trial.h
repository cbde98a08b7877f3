/* What a start, a check and a salvage make of a wal_scene that a test damages. */
#ifndef OKV_TESTS_WAL_TRIAL_H
#define OKV_TESTS_WAL_TRIAL_H

#include "server/wal/offline/salvage.h"
#include "tests/support/wal_scene.h"

#define TRIAL_BUCKET_SIZE 256 /* of a wal_machine */

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

struct trial_counts {
    unsigned lost;     /* keys without a value that they had, one of round 1 or 2 */
    unsigned older;    /* of round 1 that were of round 2 */
    unsigned returned; /* that were deleted */
};

struct trial *trial_begin(struct wal_scene *scene);
void trial_end(struct trial *trial);

/* Changes a bit of a byte. */
void trial_flip(struct trial *trial, const char *name, uint64_t at);

/* For a report of damages of this trial: keeps the first. */
void trial_note(void *user, const char *name, uint64_t from, uint64_t to, const char *text);
void trial_check(struct trial *trial);
/* A start refuses what a check does not call whole, with the same sentence. */
void trial_expect_start(struct trial *trial);
struct trial_counts trial_count(struct wal_machine *machine);
/* Salvages, checks what came out, starts on it, and changes every key there. */
struct trial_counts trial_salvage(struct trial *trial);
/* A check and a start find it. Returns `trial`. */
struct trial *trial_expect_damage(struct trial *trial, const char *name, const char *what);
void trial_expect_counts(struct trial_counts counts, unsigned lost, unsigned older,
                         unsigned returned);

#endif
