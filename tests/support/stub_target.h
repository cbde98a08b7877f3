/*
 * A target of kv-bench without a server, on a clock of its own: link with
 *   -Wl,--wrap=clock_gettime,--wrap=nanosleep,--wrap=sched_yield
 * and time passes only where the stub says so: a poll that finds nothing, a yield, a sleep and a
 * wait. Every operation takes `service_ns` whatever else is under way, but nothing ends while
 * the target stands still.
 */
#ifndef OKV_TEST_STUB_TARGET_H
#define OKV_TEST_STUB_TARGET_H

#include <okv.h>
#include <stdbool.h>
#include <stdint.h>

#include "bench/targets/target.h"

#define STUB_TARGET_ITEMS 4096
#define STUB_TARGET_PENDING 1024

struct stub_item {
    char key[32];
    size_t key_length; /* 0: there is none */
    char value[128];
    size_t value_length;
    int64_t number;
    uint64_t version;
};

struct stub_target {
    struct target base; /* first; given to the loop */
    uint64_t service_ns;
    uint64_t still_from_ns; /* it stands still from here */
    uint64_t still_until_ns;
    uint32_t room; /* operations it takes at once */
    int code;      /* what every operation ends with; 0: as it should */
    int put_code;  /* what every put ends with; 0: as it should */
    int poll_code; /* what polling ends with */
    bool meddles;  /* another client puts each item between a get and a put */
    bool corrupts; /* values come back changed */

    uint32_t pending;
    uint32_t pending_max;
    uint64_t submits;              /* calls with at least a command */
    uint64_t counts[OKV_PING + 1]; /* operations of each kind */
    size_t last_value_length;
    uint64_t first_ns; /* when the first operation was submitted, and the last */
    uint64_t last_ns;
    struct stub_operation {
        uint64_t end_ns;
        struct okv_result result;
    } operations[STUB_TARGET_PENDING];
    struct stub_item items[STUB_TARGET_ITEMS];
};

void stub_target_init(struct stub_target *target);
/* The item of a key, or an empty one; items are never more than the room for them. */
struct stub_item *stub_target_item(struct stub_target *target, const void *key, size_t key_length);

/* The clock, ns; it starts anew with each stub_target_init(). */
uint64_t stub_target_now(void);
void stub_target_pass(uint64_t ns);

#endif
