/* The fixture of a test of scripts: two clients of a small table, and short names for what they
 * ask. */
#ifndef OKV_TESTS_RESP_SCRIPT_H
#define OKV_TESTS_RESP_SCRIPT_H

#include "tests/support/test.h"

#include "tests/support/resp_fixture.h"

static const struct okv_store_params params = {
    .length = 4u << 20, .bucket_size = 256, .extra_reads = 1, .max_value = 1u << 20};

static struct resp_fixture fixture;
static struct okv_resp_client *one, *other;

static inline int begin_with(void (*configure)(struct okv_server *server))
{
    resp_fixture_open_with(&fixture, &params, configure);
    one = resp_fixture_client(&fixture);
    other = resp_fixture_client(&fixture);
    return 0;
}

static inline void configure_nothing(struct okv_server *server)
{
    (void)server;
}

static inline int begin(void **state)
{
    (void)state;
    return begin_with(configure_nothing);
}

static inline int end(void **state)
{
    (void)state;
    resp_fixture_end(one);
    resp_fixture_end(other);
    fixture.core.server->config.workers = 1;
    resp_fixture_close(&fixture);
    return 0;
}

#define SCRIPT_TEST(name) TEST_WITH(name, begin, end)

static inline void expect(struct okv_resp_client *client, const char *line, const char *reply)
{
    const char *got = resp_fixture_call(client, line);

    if (!got || strcmp(got, reply))
        print_error("%s\n", line);
    assert_non_null(got);
    assert_string_equal(got, reply);
}

static inline void expect_part(struct okv_resp_client *client, const char *line, const char *part)
{
    const char *got = resp_fixture_call(client, line);

    if (!got || !strstr(got, part))
        fail_msg("%s: %s", line, got ? got : "it waits");
}

#define OK "+OK\r\n"
#define NIL "$-1\r\n"

#endif
