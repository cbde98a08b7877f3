/*
 * A stub whose server is a member of a cluster, with a lease, on a lease clock of the test's own.
 * Link with WRAP clock_gettime.
 */
#ifndef OKV_TESTS_STUB_LEASE_H
#define OKV_TESTS_STUB_LEASE_H

#include "tests/support/stub_values.h"

#define LEASE_MS 1000u
#define EPOCH 3

extern uint64_t lease_ns;     /* CLOCK_BOOTTIME and CLOCK_MONOTONIC_RAW of the client */
extern unsigned clock_reads;  /* of these */
extern unsigned ends_at;      /* the lease ends while this READ is served; 0: never */
extern bool renews;           /* a READ of the status after that finds the next lease */
extern unsigned heartbeat_ms; /* how often the lease is renewed; 0: it is not */

#define LEASE_TEST(name) TEST_WITH(name, lease_setup, client_teardown)
/* cmocka's: values_setup, and a server with a lease that has just begun. */
int lease_setup(void **state);

void pass_ms(uint64_t ms);
/* The server's lease clock. */
uint64_t server_us(void);
/* Writes the status. */
void publish(uint64_t valid_until_us, uint64_t epoch);
void renew(void);
/* For stub.answer: a PING has the clock. */
bool lease_answer(const struct stub_request *request, struct stub_reply *reply);

/* Puts keys[0] into its bucket. */
void write_inline(void);
/* Gets keys[0]. */
int call_get(void);

#endif
