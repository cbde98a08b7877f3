/* The stub's server with one item, for tests of one get: in BUCKET, in an extent, in a further part
 * of the bucket, or in another bucket after a split. */
#ifndef OKV_TESTS_SUPPORT_STUB_ONE_H
#define OKV_TESTS_SUPPORT_STUB_ONE_H

#include "client/handle.h"
#include "tests/support/pace.h"
#include "tests/support/stub_client.h"

#define BUCKET 3
#define EXTENT (STUB_HEAP + 8192)
#define PART (STUB_HEAP + 16384)
#define HOUR_MS 3600000u
#define TIMEOUT_MS PACE_GUARD_MS

extern char key[16];   /* of BUCKET, at STUB_DEPTH and at the next */
extern char moved[16]; /* of BUCKET before it was split, of another one after */
extern uint64_t version;

/* client_setup(), and the keys. */
int one_setup(void **state);
/* okv_get() into buffer[0], length and version. */
int get_key(const char *of);
/* BUCKET has this entry alone. */
void write_item(const struct okv_entry *entry);
/* The same, of key. */
void write_inline(const char *value);
struct okv_counters counters(void);

#endif
