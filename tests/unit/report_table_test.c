/* The table of kv-bench, of runs that never were. */
#include "tests/support/test.h"
#include <unistd.h>

#include "tests/support/report_fixture.h"

#define REPORT_TEST(name) TEST_WITH(name, report_fixture_setup, report_fixture_teardown)

static const char *printed(struct fixture *fixture)
{
    FILE *out = text_begin(fixture);

    report_print(&fixture->report, out);
    fclose(out);
    return fixture->text;
}

/* What /proc/stat has, one text for each look, in the place of this host's. */
static const char *const *processor_times;

FILE *__real_fopen(const char *path, const char *mode);
__attribute__((visibility("default"))) FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode)
{
    if (!processor_times || strcmp(path, "/proc/stat") != 0)
        return __real_fopen(path, mode);
    const char *text = *processor_times++;
    return text ? fmemopen((void *)(uintptr_t)text, strlen(text), "r") : NULL;
}
/* Its name with offsets of 64 bits. */
__attribute__((visibility("default"), alias("__wrap_fopen"))) FILE *
__wrap_fopen64(const char *path, const char *mode);

/* As a run of such processors says it. */
static const char *table_of(struct fixture *fixture, const char *const *times)
{
    struct environment *environment = &fixture->report.environment;
    char *arguments[] = {"kv-bench", NULL};

    processor_times = times;
    environment_read(environment, 1, arguments);
    processor_times = NULL;
    environment->busy_cpus *= 4.0 / (double)environment->cpus; /* of a host with four */
    environment->cpus = 4;
    return printed(fixture);
}

REPORT_TEST(a_busy_host_is_told)
{
    /* user, nice, system, idle, iowait, irq, softirq, steal */
    static const char *const busy[] = {"cpu  100 0 0 900 0 0 0 0 7 7\ncpu0 1\n",
                                       "cpu  101 2 3 954 30 4 3 3 9 9\ncpu0 1\n"};
    static const char *const idle[] = {"cpu 100 0 0 900 0 0 0 0\n", "cpu 112 0 0 988 0 0 0 0\n"};
    static const char *const still[] = {"cpu 5 0 0 9 0 0 0 0\n", "cpu 5 0 0 9 0 0 0 0\n"};
    static const char *const unknown[] = {"intr 5\n", NULL}, *const none[] = {NULL};
    static const uint64_t times[] = {100, 200, 400};
    struct fixture *fixture = *state;

    run_of(fixture, 0, "okv", times);
    assert_non_null(strstr(table_of(fixture, busy), "\nbusy     0.6 of 4 CPUs were busy before"));
    assert_null(strstr(table_of(fixture, idle), "busy"));
    assert_null(strstr(table_of(fixture, still), "busy"));
    assert_null(strstr(table_of(fixture, unknown), "busy"));
    assert_null(strstr(table_of(fixture, none), "busy"));
}

REPORT_TEST(table_has_a_block_for_each)
{
    static const uint64_t first[] = {100, 200, 400}, second[] = {400, 400, 400};
    struct fixture *fixture = *state;

    target_of(fixture, 0, "one that never ran");
    assert_string_equal(printed(fixture), "");

    run_of(fixture, 0, "the first", first);
    run_of(fixture, 1, "the second", second);
    printed(fixture);
    assert_non_null(strstr(fixture->text, "\nthe first\n"));
    assert_non_null(strstr(fixture->text, "p50 0.100 to 0.400"));
    assert_non_null(
        strstr(fixture->text, "get_p50_us                           2.000   (1.000 to 4.000)"));
    assert_non_null(strstr(fixture->text, "server CPU us per operation              -\n"));
}

REPORT_TEST(bytes_are_on_the_wire_where_there_is_one)
{
    static const uint64_t times[] = {100, 200, 400};
    static const struct {
        const char *transport;
        bool has_wire;
    } cases[] = {{"local", false}, {"unix", false}, {"process", false},
                 {"rdma", true},   {"tcp", true},   {"ofi", true}};
    struct fixture *fixture = *state;
    struct report_target *target = run_of(fixture, 0, "okv", times);

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        target->info.transport = cases[i].transport;
        const char *text = printed(fixture);
        assert_true(!strstr(text, "\n  bytes on the wire per operation   ") != cases[i].has_wire);
        assert_true(!strstr(text, "\n  bytes read or sent per operation  ") == cases[i].has_wire);
    }
}

REPORT_TEST(the_placement_is_told)
{
    static const uint64_t times[] = {100, 200, 400};
    struct fixture *fixture = *state;
    char *cpus = fixture->report.environment.allowed_cpus;
    char *arguments[] = {"kv-bench", NULL};

    struct report_target *target = run_of(fixture, 0, "okv", times);
    assert_null(strstr(printed(fixture), "\nplaced ")); /* not known */
    strcpy(cpus, "0-3");
    assert_non_null(strstr(printed(fixture), "\nplaced   by the scheduler, on CPUs 0-3\nitems "));
    target->info.transport = "tcp";
    assert_non_null(strstr(printed(fixture), "\nplaced   by the scheduler, on CPUs 0-3\n"
                                             "         on one host, which target is faster "));
    strcpy(cpus, "1,3");
    assert_non_null(strstr(printed(fixture), "\nplaced   by the scheduler, on CPUs 1,3\n  "));
    strcpy(cpus, "3");
    assert_non_null(strstr(printed(fixture), "\nplaced   on CPU 3\nitems "));
    environment_read(&fixture->report.environment, 1, arguments);
    assert_true(cpus[0] >= '0' && cpus[0] <= '9');
}
