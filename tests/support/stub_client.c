#include "tests/support/stub_client.h"

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/pace.h"

okv *handle;
unsigned seen[TAGS];
struct okv_result results[TAGS];
char buffer[TAGS][16];
size_t length;

int client_setup(void **state)
{
    (void)state;
    stub_reset();
    memset(seen, 0, sizeof seen);
    handle = NULL;
    return 0;
}

int client_teardown(void **state)
{
    (void)state;
    stub_close(&handle);
    return 0;
}

bool no_answer(const struct stub_request *request, struct stub_reply *reply)
{
    (void)request, (void)reply;
    return false;
}

int collect_once(void)
{
    struct okv_result polled[4];
    int n = okv_poll(handle, polled, 4);

    for (int i = 0; i < n; i++) {
        assert_true(polled[i].tag < TAGS);
        results[polled[i].tag] = polled[i];
        assert_int_equal(++seen[polled[i].tag], 1);
    }
    return n;
}

void collect(void)
{
    uint64_t until = pace_guard_end();

    while (okv_pending(handle) > 0 && okv_clock_ns() < until)
        collect_once();
    assert_int_equal(okv_pending(handle), 0);
}

int get(void)
{
    return okv_get(handle, "key", 3, buffer[0], sizeof buffer[0], &length, NULL);
}

void put_submit(uint64_t tag)
{
    assert_int_equal(okv_submit_put(handle, "key", 3, "value", 5, tag), 0);
}

void get_submit(uint64_t tag)
{
    assert_int_equal(okv_submit_get(handle, "key", 3, buffer[tag], sizeof buffer[tag], tag), 0);
}
