/*
 * What tests of values in extents over the stub have in common: one long value, whose
 * beginnings are the values of keys[0].
 */
#ifndef OKV_TESTS_STUB_VALUES_H
#define OKV_TESTS_STUB_VALUES_H

#include "tests/support/stub_client.h"

#define BUCKET 3 /* of the keys */
#define EXTENT (STUB_HEAP + 65536)
#define LONG 700000 /* bytes of the value: three pieces */
#define SHORT 300

extern char keys[3][16]; /* a deeper index has them in the bucket that BUCKET was split into */
extern char value[LONG + 1];
extern uint8_t got[LONG];
extern okv_registration *registration;
extern struct okv_counters counted;

/* cmocka's: client_setup, and all of the above as it was. */
int values_setup(void **state);
/* With `hints` of okv_options, and with `got` registered or not. */
void values_open(uint32_t hints, bool registered);
void values_close(void);

/* Writes the first `size` bytes of the value as that of keys[0], with the key in the
 * extent or not, and the bucket. */
struct okv_entry write_value(uint32_t size, bool key_in_extent, uint64_t offset);
/* Gets keys[0] into got[0..size), and counts. */
int get_into(size_t size);
/* The get of the whole is the first `size` bytes of the value. */
void assert_got(uint32_t size);

/* For damage_begin: the byte at `offset` is wrong for READ number `damaged_read`. */
extern unsigned damaged_read;
void damage_begin(uint64_t offset);
void damage_end(void);

#endif
