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

REPORT_TEST(several_targets_end_side_by_side)
{
    static const uint64_t first[] = {100, 200, 400}, second[] = {400, 400, 800};
    struct fixture *fixture = *state;

    struct report_target *target = run_of(fixture, 0, "okv", first);
    const char *of_one = strstr(printed(fixture), "\nin short: ");
    assert_non_null(of_one);
    assert_string_equal(
        of_one, "\nin short: medians of the rounds, times in us, server CPU per operation\n"
                "            operations/s      get p50      get p99      put p50   server CPU\n"
                "better when       higher        lower        lower        lower        lower\n"
                "okv              5000000        0.200        0.200            -            -\n");
    for (uint32_t i = 0; i < ROUNDS; i++)
        target->run[i].server_cpu_ms = 1;
    run_of(fixture, 1, "a server that has a long name", second);
    const char *found = strstr(printed(fixture), "\nside by side: ");
    assert_non_null(found);
    assert_string_equal(
        found, "\nside by side: medians of the rounds, times in us, server CPU per operation\n"
               "                         operations/s      get p50      get p99      put p50   "
               "server CPU\n"
               "better when                    higher        lower        lower        lower       "
               " lower\n"
               "okv                           5000000        0.200        0.200            -       "
               " 10.00\n"
               "a server that has a long name\n"
               "                              2500000        0.400        0.400            -       "
               "     -\n"
               "\noperations/s: higher is better\n"
               "okv                       ######################################## 5000000\n"
               "a server that has a long name\n"
               "                          #################### 2500000\n"
               "\nget p50, us: lower is better\n"
               "okv                       #################### 0.200\n"
               "a server that has a long name\n"
               "                          ######################################## 0.400\n");
}

REPORT_TEST(a_figure_of_one_target_has_no_bars)
{
    static const uint64_t times[] = {100, 200, 400};
    struct fixture *fixture = *state;

    run_of(fixture, 0, "gets", times);
    struct report_target *target = run_of(fixture, 1, "puts", times);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct histogram *latency = target->run[i].tally.latency;
        latency[OPERATION_PUT] = latency[OPERATION_GET];
        histogram_init(&latency[OPERATION_GET]);
    }
    assert_non_null(strstr(printed(fixture), "\noperations/s: higher is better\n"));
    assert_null(strstr(printed(fixture), "get p50, us: "));
    assert_non_null(strstr(printed(fixture), "\nputs             5000000            -            -"
                                             "        0.200            -\n"));
}

static struct report_target *floor_of(struct fixture *fixture, uint32_t index, const char *name,
                                      uint64_t get_ns)
{
    struct report_target *target = target_of(fixture, index, name);
    struct floor_round *round = calloc(1, sizeof *round);

    assert_non_null(round);
    target->floor = round;
    target->rounds = 1;
    for (int kind = 0; kind < FLOOR_KIND_COUNT; kind++) {
        histogram_init(&round->latency[kind]);
        histogram_init(&round->pace[kind]);
    }
    histogram_record(&round->latency[FLOOR_GET], get_ns);
    histogram_record(&round->pace[FLOOR_GET], get_ns * 1000);
    round->cpu_known = true;
    round->cpu_gets_ms = 6;
    round->stretch_gets = 1000;
    return target;
}

/* What is comparable of a floor and of a run of another target: latencies alone. */
REPORT_TEST(floors_are_beside_each_other)
{
    static const uint64_t times[] = {200, 200, 200};
    struct fixture *fixture = *state;

    fixture->options.floor = true;
    fixture->options.rounds = 1;
    floor_of(fixture, 0, "one", 100);
    floor_of(fixture, 1, "two", 400);
    run_of(fixture, 2, "redis", times)->rounds = 1;
    const char *text = printed(fixture);
    assert_non_null(strstr(text, "\nside by side: times in us, server CPU per get\n"
                                 "                  gets/s      get p50 "));
    const char *line = strstr(strstr(text, "\nbetter when"), "\none ");
    double rate, p50, p99, cpu;
    assert_int_equal(sscanf(line, " one %lf %lf %lf - %lf\n", &rate, &p50, &p99, &cpu), 4);
    assert_true(rate > 9.9e6 && rate < 10.1e6 && p50 == 0.1 && p99 == 0.1 && cpu == 6);
    assert_non_null(strstr(text, "\nredis                  -        0.200        0.200            "
                                 "-            -\n"));
    assert_non_null(strstr(text, "\ngets/s: higher is better\none "));
    assert_non_null(strstr(text, "\nredis        -\n"));
    assert_non_null(strstr(text, "\nredis        #################### 0.200\n"));
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
