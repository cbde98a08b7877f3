/* The log: its rate, and the count of lines that it left out. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/log.h"

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)

struct fixture {
    struct okv_log log;
    int ends[2];
    char text[8192]; /* of the last read_lines() */
};

static void open_log(struct fixture *fixture)
{
    assert_int_equal(pipe2(fixture->ends, O_NONBLOCK | O_CLOEXEC), 0);
    okv_log_init(&fixture->log, fixture->ends[1]);
}

/* Reads the lines since the last call. Returns their number. */
static unsigned read_lines(struct fixture *fixture)
{
    ssize_t length = read(fixture->ends[0], fixture->text, sizeof fixture->text - 1);
    unsigned lines = 0;

    fixture->text[length > 0 ? length : 0] = '\0';
    for (const char *at = fixture->text; (at = strchr(at, '\n')); at++)
        lines++;
    return lines;
}

static void close_log(struct fixture *fixture)
{
    okv_log_fini(&fixture->log);
    close(fixture->ends[0]);
    close(fixture->ends[1]);
}

static void a_line_is_written_at_once(void **state)
{
    struct fixture fixture;

    (void)state;
    open_log(&fixture);
    okv_log_line(&fixture.log, 5, "10.9.9.2:40213: ended");
    assert_int_equal(read_lines(&fixture), 1);
    assert_string_equal(fixture.text, "okv-server: 10.9.9.2:40213: ended\n");
    close_log(&fixture);
}

static void lines_beyond_the_rate_are_counted(void **state)
{
    struct fixture fixture;

    (void)state;
    open_log(&fixture);
    for (uint64_t i = 0; i < 100; i++)
        okv_log_line(&fixture.log, 7 * SECOND + i * MS, "flood");
    assert_int_equal(read_lines(&fixture), OKV_LOG_LINES_MAX);
    okv_log_line(&fixture.log, 8 * SECOND - 1, "flood");
    assert_int_equal(read_lines(&fixture), 0);

    /* The next second starts with the count, a line like others. */
    for (uint64_t i = 0; i < 100; i++)
        okv_log_line(&fixture.log, 8 * SECOND + i * MS, "flood");
    assert_int_equal(read_lines(&fixture), OKV_LOG_LINES_MAX);
    assert_memory_equal(fixture.text, "okv-server: 91 more ", 20);

    okv_log_line(&fixture.log, 20 * SECOND, "after it");
    assert_int_equal(read_lines(&fixture), 2);
    assert_memory_equal(fixture.text, "okv-server: 91 more ", 20);
    assert_non_null(strstr(fixture.text, "after it\n"));
    okv_log_line(&fixture.log, 30 * SECOND, "and all is told");
    assert_int_equal(read_lines(&fixture), 1);
    close_log(&fixture);
}

static void the_last_line_counts_what_was_left_out(void **state)
{
    struct fixture fixture;

    (void)state;
    open_log(&fixture);
    for (uint64_t i = 0; i < 13; i++)
        okv_log_line(&fixture.log, SECOND, "flood");
    assert_int_equal(read_lines(&fixture), OKV_LOG_LINES_MAX);
    okv_log_fini(&fixture.log);
    assert_int_equal(read_lines(&fixture), 1);
    assert_memory_equal(fixture.text, "okv-server: 3 more ", 19);
    okv_log_init(&fixture.log, fixture.ends[1]);
    close_log(&fixture);
}

/* Threads read the clock before they lock. */
static void an_earlier_time_starts_no_new_second(void **state)
{
    struct fixture fixture;

    (void)state;
    open_log(&fixture);
    for (uint64_t i = 0; i < 50; i++)
        okv_log_line(&fixture.log, SECOND + i % 2 * 10, "flood");
    assert_int_equal(read_lines(&fixture), OKV_LOG_LINES_MAX);
    close_log(&fixture);
}

/* Without a reader no thread of the server waits, and no line is cut. */
static void a_full_pipe_does_not_block(void **state)
{
    struct fixture fixture;
    char filling[4096] = "";

    (void)state;
    open_log(&fixture);
    while (write(fixture.ends[1], filling, sizeof filling) > 0)
        ;
    fcntl(fixture.ends[1], F_SETFL, 0); /* now a write would block */
    for (uint64_t i = 0; i < 25; i++)
        okv_log_line(&fixture.log, SECOND + i * MS, "nobody reads");
    fcntl(fixture.ends[0], F_SETFL, O_NONBLOCK);
    while (read(fixture.ends[0], filling, sizeof filling) > 0)
        ;
    okv_log_line(&fixture.log, 3 * SECOND, "read again");
    assert_int_equal(read_lines(&fixture), 2);
    assert_memory_equal(fixture.text, "okv-server: 25 more ", 20);
    close_log(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_written_at_once),
        cmocka_unit_test(lines_beyond_the_rate_are_counted),
        cmocka_unit_test(the_last_line_counts_what_was_left_out),
        cmocka_unit_test(an_earlier_time_starts_no_new_second),
        cmocka_unit_test(a_full_pipe_does_not_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
