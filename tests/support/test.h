/*
 * A test program. It includes this header, which brings cmocka and what cmocka needs, and has no
 * main() of its own:
 *
 *     TEST(a_key_is_found_again)
 *     {
 *         assert_int_equal(find("key"), 1);
 *     }
 *
 * The tests of a file run from top to bottom, those of several files in the order in which these
 * are linked. OKV_TEST_FILTER selects tests by name, with * and ? as in a shell; a program where it
 * selects none fails.
 */
#ifndef OKV_TESTS_TEST_H
#define OKV_TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TEST(name) TEST_WITH(name, NULL, NULL)

/* Runs between a setup and a teardown, either of which may be NULL; `state` is cmocka's. */
#define TEST_WITH(name, setup, teardown)         \
    static void name(void **state);              \
    TEST_CASE(name, name, setup, teardown, NULL) \
    static void name(__attribute__((unused)) void **state)

/* A test called `name` that runs `function`; its setup finds `initial` in `*state`. */
#define TEST_CASE(name, function, setup, teardown, initial)                            \
    __attribute__((constructor)) static void name##_is_registered(void)                \
    {                                                                                  \
        static struct test test = {                                                    \
            {#name, function, setup, teardown, initial}, __FILE__, __COUNTER__, NULL}; \
        test_register(&test);                                                          \
    }

/* The setup and the teardown of the whole program; either may be NULL. */
#define TEST_PROGRAM(setup, teardown)                                    \
    __attribute__((constructor)) static void program_is_registered(void) \
    {                                                                    \
        test_program(setup, teardown);                                   \
    }

struct test {
    struct CMUnitTest test;
    const char *file;
    int number; /* rises from test to test of the file */
    struct test *next;
};

/* For the macros above; both keep the pointers. */
void test_register(struct test *test);
void test_program(CMFixtureFunction setup, CMFixtureFunction teardown);

/* For programs with a main() of their own: runs the tests and returns the exit status. */
int test_run(void);

/* The same for tests with a setup of their own, and for those that only some runs have. */
#define test_run_group(name, tests, setup, teardown) \
    test_run_array(name, tests, sizeof(tests) / sizeof *(tests), setup, teardown)
int test_run_array(const char *name, const struct CMUnitTest *tests, size_t count,
                   CMFixtureFunction setup, CMFixtureFunction teardown);

#endif
