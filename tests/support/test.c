#include "tests/support/test.h"

#include <errno.h>
#include <fnmatch.h>
#include <unistd.h>

static struct test *registered; /* in the order in which they run */
static CMFixtureFunction program_setup, program_teardown;
static size_t selected; /* by the filter, of all groups so far */

/* Constructors run in the order of linking, but within a file in any. */
void test_register(struct test *test)
{
    struct test **place = &registered;

    while (*place && strcmp((*place)->file, test->file) != 0)
        place = &(*place)->next;
    while (*place && strcmp((*place)->file, test->file) == 0 && (*place)->number < test->number)
        place = &(*place)->next;
    test->next = *place;
    *place = test;
}

void test_program(CMFixtureFunction setup, CMFixtureFunction teardown)
{
    program_setup = setup;
    program_teardown = teardown;
}

static const char *filter(void)
{
    const char *pattern = getenv("OKV_TEST_FILTER");

    return pattern ? pattern : "*";
}

static void exit_if_none_was_selected(void)
{
    if (selected > 0)
        return;
    fprintf(stderr, "%s has no test called '%s'\n", program_invocation_short_name, filter());
    _exit(2);
}

int test_run_array(const char *name, const struct CMUnitTest *tests, size_t count,
                   CMFixtureFunction setup, CMFixtureFunction teardown)
{
    struct CMUnitTest *chosen = calloc(count + 1, sizeof *chosen);
    size_t chosen_count = 0;
    int failed = 0;

    if (!chosen)
        abort();
    for (size_t i = 0; i < count; i++)
        if (fnmatch(filter(), tests[i].name, 0) == 0)
            chosen[chosen_count++] = tests[i];
    selected += chosen_count;
    if (selected == 0)
        atexit(exit_if_none_was_selected);
    if (chosen_count > 0)
        failed = _cmocka_run_group_tests(name, chosen, chosen_count, setup, teardown);
    free(chosen);
    return failed;
}

int test_run(void)
{
    struct CMUnitTest *tests;
    size_t count = 0;

    for (const struct test *test = registered; test; test = test->next)
        count++;
    if (!(tests = calloc(count + 1, sizeof *tests)))
        abort();
    count = 0;
    for (const struct test *test = registered; test; test = test->next)
        tests[count++] = test->test;
    int failed = test_run_array(program_invocation_short_name, tests, count, program_setup,
                                program_teardown);
    free(tests);
    return failed;
}
