/* The log: its rate, and the count of lines that it left out. */
#include <fcntl.h>
#include <pty.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "server/core/log.h"

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
    okv_log_init(&fixture->log, fixture->ends[1], OKV_LOG_TEXT);
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

TEST(a_line_is_written_at_once)
{
    struct fixture fixture;

    open_log(&fixture);
    okv_log_line(&fixture.log, OKV_LOG_NOTICE, "part", 5, "10.9.9.2:40213: ended");
    assert_int_equal(read_lines(&fixture), 1);
    assert_string_equal(fixture.text, "okv-server: 10.9.9.2:40213: ended\n");
    close_log(&fixture);
}

TEST(lines_beyond_the_rate_are_counted)
{
    struct fixture fixture;

    open_log(&fixture);
    for (uint64_t i = 0; i < 100; i++)
        okv_log_line(&fixture.log, OKV_LOG_NOTICE, "part", 7 * SECOND + i * MS, "flood");
    assert_int_equal(read_lines(&fixture), OKV_LOG_LINES_MAX);
    okv_log_line(&fixture.log, OKV_LOG_NOTICE, "part", 8 * SECOND - 1, "flood");
    assert_int_equal(read_lines(&fixture), 0);

    /* The next second starts with the count, a line like others. */
    for (uint64_t i = 0; i < 100; i++)
        okv_log_line(&fixture.log, OKV_LOG_NOTICE, "part", 8 * SECOND + i * MS, "flood");
    assert_int_equal(read_lines(&fixture), OKV_LOG_LINES_MAX);
    assert_memory_equal(fixture.text, "okv-server: 91 more ", 20);

    okv_log_line(&fixture.log, OKV_LOG_NOTICE, "part", 20 * SECOND, "after it");
    assert_int_equal(read_lines(&fixture), 2);
    assert_memory_equal(fixture.text, "okv-server: 91 more ", 20);
    assert_non_null(strstr(fixture.text, "after it\n"));
    okv_log_line(&fixture.log, OKV_LOG_NOTICE, "part", 30 * SECOND, "and all is told");
    assert_int_equal(read_lines(&fixture), 1);
    close_log(&fixture);
}

/* One after a quiet minute, then what came in each minute. */
TEST(strangers_have_a_line_a_minute)
{
    const uint64_t minute = 60 * SECOND;
    struct fixture fixture;

    open_log(&fixture);
    okv_log_stranger(&fixture.log, minute, "10.9.9.1: refused: first");
    assert_int_equal(read_lines(&fixture), 1);
    assert_string_equal(fixture.text, "okv-server: 10.9.9.1: refused: first\n");
    for (uint64_t i = 0; i < 1000; i++)
        okv_log_stranger(&fixture.log, minute + i * MS, "10.9.9.2: refused: again");
    okv_log_tick(&fixture.log, 2 * minute - 1);
    assert_int_equal(read_lines(&fixture), 0);
    okv_log_tick(&fixture.log, 2 * minute);
    assert_int_equal(read_lines(&fixture), 1);
    assert_string_equal(fixture.text, "okv-server: 1000 more clients were refused; the last was "
                                      "10.9.9.2: refused: again\n");
    okv_log_tick(&fixture.log, 3 * minute);
    assert_int_equal(read_lines(&fixture), 0);
    okv_log_stranger(&fixture.log, 3 * minute, "10.9.9.3: refused: quiet before");
    assert_int_equal(read_lines(&fixture), 1);
    okv_log_stranger(&fixture.log, 3 * minute + 1, "10.9.9.4: refused: and the end");
    okv_log_fini(&fixture.log);
    assert_int_equal(read_lines(&fixture), 1);
    assert_non_null(strstr(fixture.text, "1 more clients were refused; the last was 10.9.9.4"));
    close(fixture.ends[0]);
    close(fixture.ends[1]);
}

/* They take no lines from others, nor others from them. */
TEST(strangers_and_others_have_lines_of_their_own)
{
    struct fixture fixture;

    open_log(&fixture);
    for (uint64_t i = 0; i < 100; i++) {
        okv_log_stranger(&fixture.log, 60 * SECOND, "stranger");
        okv_log_line(&fixture.log, OKV_LOG_NOTICE, "part", 60 * SECOND, "flood");
    }
    assert_int_equal(read_lines(&fixture), OKV_LOG_LINES_MAX + 1);
    close_log(&fixture);
}

TEST(the_last_line_counts_what_was_left_out)
{
    struct fixture fixture;

    open_log(&fixture);
    for (uint64_t i = 0; i < 13; i++)
        okv_log_line(&fixture.log, OKV_LOG_NOTICE, "part", SECOND, "flood");
    assert_int_equal(read_lines(&fixture), OKV_LOG_LINES_MAX);
    okv_log_fini(&fixture.log);
    assert_int_equal(read_lines(&fixture), 1);
    assert_memory_equal(fixture.text, "okv-server: 3 more ", 19);
    okv_log_init(&fixture.log, fixture.ends[1], OKV_LOG_TEXT);
    close_log(&fixture);
}

/* Threads read the clock before they lock. */
TEST(an_earlier_time_starts_no_new_second)
{
    struct fixture fixture;

    open_log(&fixture);
    for (uint64_t i = 0; i < 50; i++)
        okv_log_line(&fixture.log, OKV_LOG_NOTICE, "part", SECOND + i % 2 * 10, "flood");
    assert_int_equal(read_lines(&fixture), OKV_LOG_LINES_MAX);
    close_log(&fixture);
}

/* Without a reader no thread of the server waits, and no line is cut. */
TEST(a_full_pipe_does_not_block)
{
    struct fixture fixture;
    char filling[4096] = "";

    open_log(&fixture);
    while (write(fixture.ends[1], filling, sizeof filling) > 0)
        ;
    fcntl(fixture.ends[1], F_SETFL, 0); /* now a write would block */
    for (uint64_t i = 0; i < 25; i++)
        okv_log_line(&fixture.log, OKV_LOG_NOTICE, "part", SECOND + i * MS, "nobody reads");
    fcntl(fixture.ends[0], F_SETFL, O_NONBLOCK);
    while (read(fixture.ends[0], filling, sizeof filling) > 0)
        ;
    okv_log_line(&fixture.log, OKV_LOG_NOTICE, "part", 3 * SECOND, "read again");
    assert_int_equal(read_lines(&fixture), 2);
    assert_memory_equal(fixture.text, "okv-server: 25 more ", 20);
    close_log(&fixture);
}

static void log_in(struct fixture *fixture, enum okv_log_format format)
{
    close_log(fixture);
    assert_int_equal(pipe2(fixture->ends, O_NONBLOCK | O_CLOEXEC), 0);
    okv_log_init(&fixture->log, fixture->ends[1], format);
}

/* The time is left out of the comparison: YYYY-MM-DDTHH:MM:SS.mmmZ. */
static void expect_line(struct fixture *fixture, const char *before, const char *behind)
{
    const char *time = fixture->text + strlen(before);

    assert_int_equal(read_lines(fixture), 1);
    assert_memory_equal(fixture->text, before, strlen(before));
    assert_int_equal(strspn(time, "0123456789-:.TZ"), 24);
    assert_int_equal(time[10], 'T');
    assert_int_equal(time[23], 'Z');
    assert_string_equal(time + 24, behind);
}

TEST(lines_have_fields)
{
    struct fixture fixture;

    open_log(&fixture);
    log_in(&fixture, OKV_LOG_LOGFMT);
    okv_log_say(&fixture.log, OKV_LOG_ERROR, "database", "a \"quote\", %d\n", 7);
    expect_line(&fixture, "ts=", " level=error part=database msg=\"a \\\"quote\\\", 7\\u000a\"\n");
    log_in(&fixture, OKV_LOG_AUTO); /* a pipe is no terminal */
    okv_log_say(&fixture.log, OKV_LOG_NOTICE, "server", "text");
    expect_line(&fixture, "ts=", " level=notice part=server msg=\"text\"\n");
    log_in(&fixture, OKV_LOG_JSON);
    okv_log_line(&fixture.log, OKV_LOG_WARNING, "users", SECOND, "back\\slash, \xc3\xa4");
    expect_line(&fixture, "{\"ts\": \"",
                "\", \"level\": \"warning\", \"part\": \"users\", \"msg\": "
                "\"back\\\\slash, ??\"}\n");
    close_log(&fixture);
}

TEST(a_terminal_gets_time_level_and_part)
{
    struct fixture fixture;

    open_log(&fixture);
    close_log(&fixture);
    assert_int_equal(openpty(&fixture.ends[0], &fixture.ends[1], NULL, NULL, NULL), 0);
    okv_log_init(&fixture.log, fixture.ends[1], OKV_LOG_AUTO);
    okv_log_say(&fixture.log, OKV_LOG_WARNING, "users", "a \"quote\"");
    expect_line(&fixture, "", " warning users: a \"quote\"\r\n");
    okv_log_say(&fixture.log, OKV_LOG_WARNING, "users", "\x1b[2J\n\xc2\x9b\x9b\xc3\xa4");
    expect_line(&fixture, "", " warning users: \\x1b[2J\\x0a\\xc2\\x9b\\x9b\xc3\xa4\r\n");
    close_log(&fixture);
}

/* What clients send neither begins a line nor commands the terminal on which the log is read. */
TEST(a_line_has_no_control_characters)
{
    struct fixture fixture;

    open_log(&fixture);
    okv_log_line(&fixture.log, OKV_LOG_NOTICE, "part", SECOND, "user \x1b[2J\nokv-server: forged");
    assert_int_equal(read_lines(&fixture), 1);
    assert_string_equal(fixture.text, "okv-server: user \\x1b[2J\\x0aokv-server: forged\n");
    close_log(&fixture);
}

/* What clients send makes no line longer than a pipe takes at once. */
TEST(a_line_has_an_end)
{
    struct fixture fixture;
    char text[5000];

    memset(text, '\1', sizeof text);
    text[sizeof text - 1] = '\0';
    open_log(&fixture);
    log_in(&fixture, OKV_LOG_JSON);
    okv_log_line(&fixture.log, OKV_LOG_NOTICE, "clients", SECOND, text);
    assert_int_equal(read_lines(&fixture), 1);
    assert_in_range(strlen(fixture.text), 6 * (OKV_LOG_TEXT_MAX - 1), 4095);
    close_log(&fixture);
}

/* The journal reads a level at the beginning of a line, from the descriptor that it gave. */
TEST(the_journal_gets_levels)
{
    struct fixture fixture;
    struct stat status;
    char stream[64];

    open_log(&fixture);
    assert_int_equal(fstat(fixture.ends[1], &status), 0);
    snprintf(stream, sizeof stream, "%llu:%llu", (unsigned long long)status.st_dev,
             (unsigned long long)status.st_ino);
    setenv("JOURNAL_STREAM", stream, 1);
    okv_log_init(&fixture.log, fixture.ends[1], OKV_LOG_AUTO);
    okv_log_say(&fixture.log, OKV_LOG_ERROR, "server", "ends");
    assert_int_equal(read_lines(&fixture), 1);
    assert_string_equal(fixture.text, "<3>okv-server: ends\n");
    setenv("JOURNAL_STREAM", "1:1", 1);
    okv_log_init(&fixture.log, fixture.ends[1], OKV_LOG_TEXT);
    okv_log_say(&fixture.log, OKV_LOG_ERROR, "server", "ends");
    assert_int_equal(read_lines(&fixture), 1);
    assert_string_equal(fixture.text, "okv-server: ends\n");
    unsetenv("JOURNAL_STREAM");
    close_log(&fixture);
}
