/* The command line of kv-bench: what options mean together. What is wrong with one ends the
 * program: tests/end_to_end/bad_input.sh. */
#include "tests/support/test.h"

#include "bench/options.h"

#define ARGUMENTS_MAX 32

/* Parses a line of words between single blanks. The text lives until the next call. */
static const struct options *parse(const char *line)
{
    static struct options options;
    static char text[512];
    char *words[ARGUMENTS_MAX] = {0};
    int count = 0;

    assert_true(strlen(line) < sizeof text);
    strcpy(text, line);
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
        words[count++] = word;
    options_parse(&options, count, words);
    return &options;
}

static void assert_mix(const struct options *options, const double mix[OPERATION_MIXED_COUNT])
{
    for (int i = 0; i < OPERATION_MIXED_COUNT; i++) {
        double difference = options->mix[i] - mix[i];
        if (difference < -1e-9 || difference > 1e-9)
            fail_msg("%s is %g %% and not %g %%", operation_name((enum operation)i),
                     options->mix[i], mix[i]);
    }
}
#define ASSERT_MIX(options, ...)                           \
    do {                                                   \
        double mix[OPERATION_MIXED_COUNT] = {__VA_ARGS__}; \
        assert_mix(options, mix);                          \
    } while (0)

TEST(defaults_are_those_of_the_manual)
{
    setenv("OKV_SERVER", "local:///from/the/environment", 1);
    const struct options *options = parse("kv-bench");
    assert_int_equal(options->target_count, 1);
    assert_string_equal(options->targets[0].uri, "local:///from/the/environment");
    assert_true(options->server_named);
    assert_int_equal(options->choice.records, 100000);
    assert_int_equal(options->choice.distribution, WORKLOAD_UNIFORM);
    assert_int_equal(options->key_size, 16);
    assert_int_equal(options->values.high, 32);
    assert_true(!options->no_load && !options->load_only);
    ASSERT_MIX(options, [OPERATION_GET] = 95, [OPERATION_PUT] = 5);
    assert_true(options->seconds == 10 && options->operations == 0);
    assert_true(options->rate == 0);
    assert_int_equal(options->threads[0] * options->connections * options->depth, 1);
    assert_int_equal(options->threads_count, 1);
    assert_int_equal(options->targets[0].threads, 1);
    assert_true(options->targets[0].load);
    assert_int_equal(options->rounds, 1);
    unsetenv("OKV_SERVER");
    options = parse("kv-bench");
    assert_false(options->server_named);
    assert_ptr_equal(options->targets[0].uri, options->well_known);
}

TEST(a_replay_has_no_mix_and_no_end_of_its_own)
{
    const struct options *options = parse("kv-bench -s local:///a --replay file --replay-items 2K");

    assert_string_equal(options->replay, "file");
    assert_int_equal(options->replay_items, 2000);
    ASSERT_MIX(options, 0);
    assert_true(options->seconds == 0 && options->operations == 0 && options->warmup == 0);
    assert_int_equal(options->rounds, 1);
    assert_false(options->keep);
}

/* Each server with each of them; its records are stored once. */
TEST(numbers_of_threads_are_compared)
{
    static const struct {
        const char *name, *uri;
        uint32_t threads;
    } wanted[] = {{"a 1 thread", "local:///a", 1},
                  {"a 4 threads", "local:///a", 4},
                  {"redis:///b 1 thread", "redis:///b", 1},
                  {"redis:///b 4 threads", "redis:///b", 4}};
    const struct options *options = parse("kv-bench -s a=local:///a -s redis:///b --threads 1,4");

    assert_int_equal(options->target_count, sizeof wanted / sizeof *wanted);
    for (uint32_t i = 0; i < options->target_count; i++) {
        assert_string_equal(options->targets[i].name, wanted[i].name);
        assert_string_equal(options->targets[i].uri, wanted[i].uri);
        assert_int_equal(options->targets[i].threads, wanted[i].threads);
        assert_int_equal(options->targets[i].load, i % 2 == 0);
    }
    options = parse("kv-bench -s a=local:///a -s b=local:///b --threads 3");
    assert_int_equal(options->target_count, 2);
    assert_string_equal(options->targets[1].name, "b");
    assert_int_equal(options->targets[1].threads, 3);
    assert_true(options->targets[1].load);
}

TEST(servers_may_have_names)
{
    const struct options *options =
        parse("kv-bench -s okv=rdma://10.0.0.1?source=10.0.0.2 -s redis://10.0.0.1:6379 "
              "--server=x=lmdb:///dev/shm/x=y -s rdma://10.0.0.1?source=10.0.0.2");
    static const char *const expected[][2] = {
        {"okv", "rdma://10.0.0.1?source=10.0.0.2"},
        {"redis://10.0.0.1:6379", "redis://10.0.0.1:6379"},
        {"x", "lmdb:///dev/shm/x=y"},
        {"rdma://10.0.0.1?source=10.0.0.2", "rdma://10.0.0.1?source=10.0.0.2"}};
    assert_int_equal(options->target_count, 4);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(options->targets[i].name, expected[i][0]);
        assert_string_equal(options->targets[i].uri, expected[i][1]);
    }
    assert_true(options->server_named);
}

TEST(workloads_are_those_of_ycsb)
{
    const struct options *options = parse("kv-bench --workload a");
    ASSERT_MIX(options, [OPERATION_GET] = 50, [OPERATION_PUT] = 50);
    assert_int_equal(options->choice.distribution, WORKLOAD_ZIPFIAN);
    ASSERT_MIX(parse("kv-bench --workload b"), [OPERATION_GET] = 95, [OPERATION_PUT] = 5);
    ASSERT_MIX(parse("kv-bench --workload c"), [OPERATION_GET] = 100);
    options = parse("kv-bench --workload d");
    ASSERT_MIX(options, [OPERATION_GET] = 95, [OPERATION_INSERT] = 5);
    assert_int_equal(options->choice.distribution, WORKLOAD_LATEST);
    options = parse("kv-bench --workload f");
    ASSERT_MIX(options, [OPERATION_GET] = 50, [OPERATION_RMW] = 50);
    assert_int_equal(options->choice.distribution, WORKLOAD_ZIPFIAN);
}

/* Wherever they stand. */
TEST(other_options_go_before_the_workload)
{
    const struct options *options =
        parse("kv-bench --mix get=80,put=20 --distribution uniform --workload d");
    ASSERT_MIX(options, [OPERATION_GET] = 80, [OPERATION_PUT] = 20);
    assert_int_equal(options->choice.distribution, WORKLOAD_UNIFORM);
    options = parse("kv-bench --workload a --hotspot 0.1,0.9");
    assert_int_equal(options->choice.distribution, WORKLOAD_HOTSPOT);
    assert_true(options->choice.hot_records == 0.1 && options->choice.hot_operations == 0.9);
    options = parse("kv-bench --hotspot 0.1,0.9 --distribution latest");
    assert_int_equal(options->choice.distribution, WORKLOAD_LATEST);
}

TEST(mixes_add_up)
{
    ASSERT_MIX(parse("kv-bench --mix put=5,get=95"), [OPERATION_GET] = 95, [OPERATION_PUT] = 5);
    ASSERT_MIX(parse("kv-bench --mix get=70"), [OPERATION_GET] = 70, [OPERATION_PUT] = 30);
    ASSERT_MIX(parse("kv-bench --mix put=30"), [OPERATION_GET] = 70, [OPERATION_PUT] = 30);
    ASSERT_MIX(parse("kv-bench --mix cas=12.5,incr=7.5"), [OPERATION_GET] = 80,
               [OPERATION_CAS] = 12.5, [OPERATION_INCR] = 7.5);
    ASSERT_MIX(parse("kv-bench --mix get=33.3,put=33.3,delete=33.4"), [OPERATION_GET] = 33.3,
               [OPERATION_PUT] = 33.3, [OPERATION_DELETE] = 33.4);
    ASSERT_MIX(parse("kv-bench --mix insert=100"), [OPERATION_INSERT] = 100);
    ASSERT_MIX(parse("kv-bench --mix rmw=100,get=0"), [OPERATION_RMW] = 100);
}

TEST(values_have_one_size_or_many)
{
    const struct workload_values *values = &parse("kv-bench --value-size 4K")->values;
    assert_int_equal(values->sizes, WORKLOAD_SIZES_FIXED);
    assert_int_equal(values->high, 4096);
    values = &parse("kv-bench --value-size 16-4K")->values;
    assert_int_equal(values->sizes, WORKLOAD_SIZES_UNIFORM);
    assert_int_equal(values->low, 16);
    assert_int_equal(values->high, 4096);
    values = &parse("kv-bench --value-size trace")->values;
    assert_int_equal(values->sizes, WORKLOAD_SIZES_TRACE);
    assert_int_equal(values->high, 65536);
    assert_int_equal(parse("kv-bench --value-size trace:1M")->values.high, 1 << 20);
}

TEST(an_open_loop_may_have_many_under_way)
{
    const struct options *options = parse("kv-bench --rate 50K --even");
    assert_true(options->rate == 50000 && options->even);
    assert_int_equal(options->depth, 32);
    assert_int_equal(parse("kv-bench --rate 50K --depth 2")->depth, 2);
}

TEST(batches_are_as_deep_as_they_are_long)
{
    const struct options *options = parse("kv-bench --get-many 100 --workload a");
    assert_int_equal(options->depth, 100);
    ASSERT_MIX(options, [OPERATION_GET] = 100);
    assert_int_equal(parse("kv-bench --get-many 100 --depth 16")->depth, 16);
    assert_int_equal(parse("kv-bench --get-many 5000")->depth, 1024);
}

TEST(the_floor_has_its_own_amounts)
{
    const struct options *options = parse("kv-bench --floor");
    assert_int_equal(options->rounds, 5);
    assert_int_equal(options->operations, 20000);
    assert_true(options->seconds == 0);
    options = parse("kv-bench --floor --seconds 1 --rounds 2 --get-many 32");
    assert_int_equal(options->rounds, 2);
    assert_int_equal(options->operations, 0);
    assert_int_equal(options->get_many, 32);
}

TEST(seconds_may_have_a_unit)
{
    const struct options *options = parse("kv-bench --seconds 2m --warmup 500ms");
    assert_true(options->seconds == 120 && options->warmup == 0.5);
    options = parse("kv-bench --seconds 0.25 --warmup 0");
    assert_true(options->seconds == 0.25 && options->warmup == 0);
}
