/*
 * Gets over the stub through any of the calls that the client has for them: a table of GETS items,
 * each its own key, and a get for each. One item, GETS_ODD, has a bucket of its own, and tests make
 * it unlike the others.
 */
#ifndef OKV_TESTS_SUPPORT_STUB_GETS_H
#define OKV_TESTS_SUPPORT_STUB_GETS_H

#include "client/handle.h"
#include "tests/support/pace.h"
#include "tests/support/stub_client.h"
#include "tests/support/test.h"

#define GETS 12
#define GETS_ODD 5
#define GETS_BUCKET 1 /* of the odd one alone */
#define GETS_EXTENT (STUB_HEAP + 8192)
#define GETS_PAGE (STUB_HEAP + 16384) /* of an overflow page */
#define HOUR_MS 3600000u
#define TIMEOUT_MS PACE_GUARD_MS
#define SHORT_MS 50

enum gets_entry {
    GETS_ONE,     /* okv_get() for each, its READs posted */
    GETS_AT_ONCE, /* the same over a transport with read_now */
    GETS_MANY,    /* okv_call_many() */
    GETS_SUBMIT,  /* okv_submit() and okv_poll() */
    GETS_ENTRIES,
};

/* The initial state of a test is a pointer to its entry point, or begins with one. */
extern enum gets_entry gets_entries[GETS_ENTRIES];
#define GETS_CASE(name, call, entry) \
    TEST_CASE(name##_by_##call, name, gets_setup, client_teardown, &gets_entries[entry])
#define GETS_CASE_GET(name) GETS_CASE(name, get, GETS_ONE)
#define GETS_CASE_AT_ONCE(name) GETS_CASE(name, get_at_once, GETS_AT_ONCE)
#define GETS_CASE_MANY(name) GETS_CASE(name, get_many, GETS_MANY)
#define GETS_CASE_SUBMIT(name) GETS_CASE(name, submit, GETS_SUBMIT)
#define GETS_TEST(name, cases)      \
    static void name(void **state); \
    cases static void name(__attribute__((unused)) void **state)

/* A test of one or several calls. */
#define ON_GET_AT_ONCE(name) GETS_TEST(name, GETS_CASE_AT_ONCE(name))
#define ON_GET_MANY(name) GETS_TEST(name, GETS_CASE_MANY(name))
#define ON_SUBMIT(name) GETS_TEST(name, GETS_CASE_SUBMIT(name))
#define ON_SINGLE(name) GETS_TEST(name, GETS_CASE_GET(name) GETS_CASE_AT_ONCE(name))
#define ON_BATCHES(name) GETS_TEST(name, GETS_CASE_MANY(name) GETS_CASE_SUBMIT(name))
#define ON_SYNCHRONOUS(name) \
    GETS_TEST(name, GETS_CASE_GET(name) GETS_CASE_AT_ONCE(name) GETS_CASE_MANY(name))
#define ON_ALL(name)                                                                 \
    GETS_TEST(name, GETS_CASE_GET(name) GETS_CASE_AT_ONCE(name) GETS_CASE_MANY(name) \
                        GETS_CASE_SUBMIT(name))

extern enum gets_entry gets_entry; /* of the test that runs */
extern char gets_keys[GETS][16];
extern char gets_buffers[GETS][32];
extern struct okv_command gets_commands[GETS];
extern struct okv_result gets_results[GETS];
/* READs since gets_write_commands() that were posted on the fast path. */
extern unsigned gets_fast;
/* Of the latest okv_submit(): operations on the fast path when it returned. */
extern unsigned gets_fast_submitted;
/* Runs before each READ. Tests set this instead of stub.before_read. */
extern void (*gets_before_read)(unsigned n);

/* cmocka's: client_setup(), the entry point, the table and the commands. */
int gets_setup(void **state);
void gets_open(uint32_t depth);
void gets_open_lasting(uint32_t depth); /* one that reconnects */

/* ---- the table ---- */

uint64_t gets_bucket(unsigned n);
struct okv_entry gets_item(unsigned n);
/* Writes the odd one's bucket with this entry alone; NULL: with none. */
void gets_write_odd(const struct okv_entry *entry);
/* Writes the other buckets; those below `split` have been split. */
void gets_write_others(uint64_t split);
/* Splits the buckets up to the odd one's, and gives this a key that has moved to the new one. */
void gets_split_odd(void);

/* ---- the calls ---- */

/* The gets of one entry point are under way at the same time. */
bool gets_are_concurrent(void);
/* Makes plain gets of the commands. Fills buffers and results with other bytes, and counts READs
 * from here. */
void gets_write_commands(void);
/* Runs the commands to their results; returns the handle's failure. */
int gets_run(void);
/* okv_submit() of the commands, all of which are accepted. */
void gets_submit(void);
/* Polls until so many results came, each once. */
void gets_collect(unsigned count);
/* What the entry point's call for the first command returns. */
int gets_call_one(void);
/* Leaves in every slot what a put with all its options leaves there. */
void gets_put_in_all_slots(void);
unsigned gets_on_fast_path(void);
struct okv_counters gets_counters(void);

/* ---- assertions ---- */

/* The result has this value and everything else that a plain get has. */
void gets_assert_value(unsigned n, const char *value);
/* It has this status and nothing else, and the buffer is as it was. */
void gets_assert_status(unsigned n, int status);
/* All have their values. */
void gets_assert_values(void);
/* All but the odd one have their values. */
void gets_assert_others(void);
/* Nothing is left of the calls. */
void gets_assert_idle(void);
/* Runs all gets again: all have their values, and are counted once. So many READs were posted, and
 * so many of them on the fast path. */
void gets_assert_all(unsigned reads, unsigned fast);

#endif
