/*
 * What tests of okv_get_many() over the stub have in common: a table of MANY items, spread over the
 * buckets, each of which is its own key, and a get for each.
 */
#ifndef OKV_TESTS_STUB_MANY_H
#define OKV_TESTS_STUB_MANY_H

#include "tests/support/stub_client.h"

#define MANY 12
#define MANY_ODD 5 /* the one that tests make unlike the others */

extern char many_keys[MANY][16];
extern char many_got[MANY][32]; /* the buffers of the gets */
extern struct okv_command many_commands[MANY];
extern struct okv_result many_answers[MANY];

/* cmocka's: client_setup(), the table and the gets. */
int many_setup(void **state);
uint64_t many_bucket(unsigned n);
/* Makes gets of the commands, and fills buffers and results with what no get leaves there. */
void many_write_commands(void);
/* The items of a bucket, of which the odd one may be another; how many. */
unsigned many_items(uint64_t bucket, const struct okv_entry *odd, struct okv_entry entries[MANY]);
struct okv_entry many_item(unsigned n);
/* Writes all, of which the odd one may be another. */
void many_write_items(const struct okv_entry *odd);

/* Moves the odd one to a bucket that its own was split into, which the handle does not know yet. */
void many_split_odd(void);
/* Moves the odd one to a further part of its bucket, which is returned to be written anew. */
struct stub_image many_chain_odd(void);
/* For stub.before_read: the image is wrong in the odd one's READ alone. */
void many_tear_odd(unsigned n);
/* Likewise: the connection ends before READ number many_hang_up_at, and at no later one. */
extern unsigned many_hang_up_at;
void many_hang_up_once(unsigned n);

/* Runs the commands. */
int many_get(void);
struct okv_counters many_counters(void);
/* The result has this value and all else that a plain get has. */
void many_assert_answer(unsigned n, const char *value);
/* It has this status and nothing else. */
void many_assert_status(unsigned n, int status);
/* All but the odd one have their values. */
void many_assert_others(void);
/* Nothing is left of the call. */
void many_assert_idle(void);
/* Runs all gets anew: all have their values, which took so many operations and READs, and are
 * counted once. */
void many_assert_all(unsigned operations, unsigned reads);

#endif
