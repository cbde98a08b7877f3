/*
 * The fixture of a test of RESP clients on socket pairs, and short names for what it does. The test
 * defines `params`, of both tables.
 */
#ifndef OKV_TESTS_RESP_TALK_H
#define OKV_TESTS_RESP_TALK_H

#include "tests/support/resp_fixture.h"

static const struct okv_store_params params;
static struct resp_fixture fixture;

static inline int begin(void **state)
{
    (void)state;
    resp_fixture_open(&fixture, &params);
    return 0;
}

static inline int end(void **state)
{
    (void)state;
    resp_fixture_close(&fixture);
    return 0;
}

static inline void pass(void)
{
    resp_fixture_poll(&fixture);
}

static inline void say(int fd, const char *bytes)
{
    resp_fixture_say(fd, bytes);
}

static inline void hear_bytes(int fd, uint8_t *bytes, size_t length)
{
    resp_fixture_hear_bytes(&fixture, fd, bytes, length);
}

static inline void hear(int fd, const char *expected)
{
    resp_fixture_hear(&fixture, fd, expected);
}

static inline void hear_nothing(int fd)
{
    resp_fixture_hear_nothing(&fixture, fd);
}

static inline void hear_end(int fd)
{
    resp_fixture_hear_end(&fixture, fd);
}

static inline void leave(int fd)
{
    resp_fixture_leave(&fixture, fd);
}

#endif
