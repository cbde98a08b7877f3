/*
 * What tests of a client over the stub have in common: one handle, and results
 * kept by their tags, each seen exactly once.
 */
#ifndef OKV_TESTS_STUB_CLIENT_H
#define OKV_TESTS_STUB_CLIENT_H

#include "tests/support/stub_transport.h"

#define TAGS 16
#define HELD 1000000000u /* polls that no test makes: until stub_release_events */

extern okv *handle;
extern unsigned seen[TAGS];
extern struct okv_result results[TAGS];
extern char buffer[TAGS][16];
extern size_t length;

/* cmocka's: a reset stub and no handle; the handle closed. */
int client_setup(void **state);
int client_teardown(void **state);

/* For stub.answer: a server that says nothing. */
bool no_answer(const struct stub_request *request, struct stub_reply *reply);

/* One poll; results are kept by their tags. Returns what okv_poll returned. */
int collect_once(void);
/* Polls until every result came; whoever has none by then never gets it. */
void collect(void);

/* Calls on the key "key"; the value of get goes to buffer[0], of get_submit to buffer[tag]. */
int get(void);
void put_submit(uint64_t tag);
void get_submit(uint64_t tag);

#endif
