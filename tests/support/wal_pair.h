/* Two copies of a database in one process: a test is what carries frames from one to the other, and
 * says what is published and who leads. */
#ifndef OKV_TESTS_WAL_PAIR_H
#define OKV_TESTS_WAL_PAIR_H

#include "tests/support/wal_machine.h"

#define WAL_PAIR_BEGIN 4096u /* position of the first frame */
#define WAL_PAIR_REGION (UINT64_C(8) << 20)
#define WAL_PAIR_VALUE 40u /* bytes */

struct wal_copy {
    struct crash_disk disk;
    struct wal_machine machine;
    struct okv_wal_copies_params params;
    atomic_uint changes; /* how often its state is said to have changed */
};

struct wal_pair {
    struct wal_copy of[2];
    uint64_t epoch;
};

/* With logs that keep nothing. */
struct wal_pair *wal_pair_begin(void);
void wal_pair_end(struct wal_pair *pair);

/* With files: its own disk, or with `keeps_nothing` none. Not started. */
void wal_copy_init(struct wal_copy *copy, bool keeps_nothing);
void wal_copy_start(struct wal_copy *copy);
void wal_copy_fini(struct wal_copy *copy);

struct okv_wal_copies_state wal_copy_state(struct wal_copy *copy);
/* Waits until all frames are in the files, which does not depend on others. */
void wal_copy_await_durable(struct wal_copy *copy);
void wal_copy_await_applied(struct wal_copy *copy);
/* Until changes are taken, or are not. */
void wal_copy_await_open(struct wal_copy *copy, bool is_open);

/* Begins the next epoch there, and publishes its first frame in both, as far as they have it. */
void wal_pair_lead(struct wal_pair *pair, unsigned leader);
/* Brings the other copy all frames of `from`. */
void wal_pair_ship(struct wal_pair *pair, unsigned from);
/* Publishes in `from` and in the other copy what the other one has. */
void wal_pair_publish(struct wal_pair *pair, unsigned from);

/* Puts a value of WAL_PAIR_VALUE bytes as wal_machine_number() reads it, during a change. */
int wal_copy_put(struct wal_copy *copy, unsigned key, uint32_t number, uint64_t ttl_ms);
/* A batch of one put is evaluated. Returns its number. */
uint64_t wal_copy_begin_batch(struct wal_copy *copy, unsigned key, uint32_t number);
/* Waits for its end. Returns 0 or OKV_EUNKNOWN. */
int wal_copy_await_batch(struct wal_copy *copy, uint64_t batch);
bool wal_copy_has_ended(struct wal_copy *copy, uint64_t batch);
uint32_t wal_copy_number(struct wal_copy *copy, unsigned key);
uint64_t wal_copy_version(struct wal_copy *copy, unsigned key);

/* Waits until both have applied their logs. They have the same items then, with equal versions and
 * times to live. Returns how many. */
unsigned wal_pair_expect_equal(struct wal_pair *pair);

#endif
