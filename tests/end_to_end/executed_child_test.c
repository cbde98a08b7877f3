/*
 * Programs that a client executes get none of its descriptors: not those of a connection, nor of
 * what waits for one, nor those that libfabric opens by itself.
 */
#include <signal.h>
#include <stdlib.h>

#include "tests/support/test.h"

#include "tests/support/server_process.h"

#define LONG_VALUE ((size_t)300000)
#define LISTING 16384

/* What a program finds open that this process executes. Returns how many lines that is. */
static unsigned list_descriptors(char text[LISTING])
{
    FILE *listing = popen("exec ls -l /proc/self/fd", "re");
    size_t length = 0, got;
    unsigned lines = 0;

    assert_non_null(listing);
    while (length < LISTING - 1 && (got = fread(text + length, 1, LISTING - 1 - length, listing)))
        length += got;
    text[length] = '\0';
    assert_int_equal(pclose(listing), 0);
    for (const char *at = text; (at = strchr(at, '\n')); at++)
        lines++;
    return lines;
}

static void assert_closed(const char *after, unsigned before)
{
    char text[LISTING];
    unsigned lines = list_descriptors(text);

    if (lines != before)
        fail_msg("after %s a program that is executed finds %u lines and not %u:\n%s", after, lines,
                 before, text);
}

static void talk(okv *handle)
{
    char *value = calloc(1, LONG_VALUE), back[8];
    size_t length;

    assert_non_null(value);
    assert_int_equal(okv_put(handle, "key", 3, "value", 5, NULL), OKV_OK);
    assert_int_equal(okv_get(handle, "key", 3, back, sizeof back, &length, NULL), OKV_OK);
    assert_int_equal(okv_put(handle, "long", 4, value, LONG_VALUE, NULL), OKV_OK);
    assert_int_equal(okv_get(handle, "long", 4, value, LONG_VALUE, &length, NULL), OKV_OK);
    free(value);
}

TEST(a_program_that_is_executed_finds_no_descriptor_of_a_handle)
{
    static const char *const arguments[] = {"--memory", "16M", NULL};
    struct server_process first, next;
    okv *handles[3];
    char text[LISTING];

    server_start(&first, arguments);
    unsigned before = list_descriptors(text);
    for (size_t i = 0; i < sizeof handles / sizeof *handles; i++) {
        handles[i] = server_connect(&first, NULL);
        assert_closed("a connect", before);
    }
    talk(handles[0]);
    assert_true(okv_fd(handles[0]) >= 0);
    assert_closed("some operations", before);

    server_signal(&first, SIGKILL);
    server_start_after(&next, &first, arguments);
    while (okv_ping(handles[0]) != OKV_OK)
        continue;
    talk(handles[0]);
    assert_closed("a connect to the next server", before);
    for (size_t i = 0; i < sizeof handles / sizeof *handles; i++)
        okv_close(&handles[i]);
    assert_closed("the end of all handles", before);
    server_stop(&next);
    server_wait(&first); /* its directory */
}
