/* Reports of runs that never were: spreads, ratios, and what the files say. */
#include "tests/support/test.h"
#include <jansson.h>
#include <math.h>
#include <unistd.h>

#include "bench/report/report_figures.h"
#include "tests/support/report_fixture.h"

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fabs(b);
}

/* ---- over the rounds ----------------------------------------------------- */

#define REPORT_TEST(name) TEST_WITH(name, report_fixture_setup, report_fixture_teardown)

REPORT_TEST(spread_is_the_middle_and_the_ends)
{
    double odd[] = {5, 1, 9}, even[] = {4, 1, 2, 9}, one[] = {7};

    struct report_spread spread = report_spread(odd, 3);
    assert_true(spread.median == 5 && spread.min == 1 && spread.max == 9);
    spread = report_spread(even, 4);
    assert_true(spread.median == 3 && spread.min == 1 && spread.max == 9);
    spread = report_spread(one, 1);
    assert_true(spread.median == 7 && spread.min == 7 && spread.max == 7);
}

/* The ratio of medians would be 2: rounds are compared with their like. */
REPORT_TEST(ratios_compare_each_round_with_its_like)
{
    static const uint64_t first[] = {100, 200, 400}, second[] = {400, 400, 400};
    struct fixture *fixture = *state;
    struct report_rounds rounds[2];
    struct report_spread spread;

    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(
            report_rounds_init(&rounds[i], run_of(fixture, i, "a", i ? second : first)), 0);
    uint32_t p50 = REPORT_LATENCY(OPERATION_GET, REPORT_P50);
    assert_string_equal(rounds[0].names[p50], "get_p50_us");
    assert_true(report_rounds_spread(&rounds[0], p50, &spread));
    assert_true(near(spread.median, 0.2) && near(spread.min, 0.1) && near(spread.max, 0.4));
    assert_true(report_rounds_ratio(&rounds[1], &rounds[0], p50, &spread));
    assert_true(near(spread.median, 2) && near(spread.min, 1) && near(spread.max, 4));
    assert_true(report_rounds_ratio(&rounds[1], &rounds[0], REPORT_RATE, &spread));
    assert_true(near(spread.median, 0.5) && near(spread.min, 0.25) && near(spread.max, 1));

    rounds[0].rounds = 1; /* another one ended early */
    assert_true(report_rounds_ratio(&rounds[1], &rounds[0], p50, &spread));
    assert_true(near(spread.median, 4) && near(spread.min, 4));
    rounds[0].rounds = 0;
    assert_false(report_rounds_ratio(&rounds[1], &rounds[0], p50, &spread));
    report_rounds_fini(&rounds[0]);
    report_rounds_fini(&rounds[1]);
}

REPORT_TEST(unknown_figures_have_no_spread)
{
    static const uint64_t times[] = {100, 200, 300};
    struct fixture *fixture = *state;
    struct report_target *target = run_of(fixture, 0, "a", times);
    struct report_rounds rounds;
    struct report_spread spread;

    target->run[1].server_cpu_ms = 5; /* of 100 operations */
    assert_int_equal(report_rounds_init(&rounds, target), 0);
    assert_false(report_rounds_spread(&rounds, REPORT_LATENCY(OPERATION_PUT, 0), &spread));
    assert_false(report_rounds_spread(&rounds, REPORT_READS_PER_GET, &spread));
    assert_false(report_rounds_spread(&rounds, REPORT_WIRE_BYTES, &spread));
    assert_true(report_rounds_spread(&rounds, REPORT_SERVER_CPU, &spread));
    assert_true(near(spread.min, 50) && near(spread.max, 50));
    assert_true(report_rounds_spread(&rounds, REPORT_CLIENT_CPU, &spread));
    assert_true(near(spread.median, 20));
    report_rounds_fini(&rounds);
}

REPORT_TEST(figures_have_names_of_their_own)
{
    static const uint64_t times[] = {100, 200, 300};
    struct fixture *fixture = *state;
    struct report_target *floor = target_of(fixture, 1, "floor");
    struct report_rounds rounds[2];
    struct report_spread spread;

    floor->floor = calloc(1, sizeof *floor->floor);
    assert_non_null(floor->floor);
    floor->rounds = 1;
    assert_int_equal(report_rounds_init(&rounds[0], run_of(fixture, 0, "run", times)), 0);
    assert_int_equal(report_rounds_init(&rounds[1], floor), 0);
    for (int r = 0; r < 2; r++) {
        for (uint32_t i = 0; i < rounds[r].figures; i++) {
            assert_non_null(rounds[r].names[i]);
            for (uint32_t k = 0; k < i; k++)
                assert_string_not_equal(rounds[r].names[k], rounds[r].names[i]);
            assert_false(report_rounds_ratio(&rounds[1], &rounds[0], i % 5, &spread));
        }
        report_rounds_fini(&rounds[r]);
    }
}

REPORT_TEST(bytes_are_of_reads_and_messages)
{
    struct phase *phase = calloc(1, sizeof *phase);

    assert_non_null(phase);
    round_of(phase, 10, 100);
    phase->counters = (struct okv_counters){
        .gets = 8, .reads = 12, .read_bytes = 4000, .request_bytes = 900, .reply_bytes = 100};
    assert_true(near(report_wire_bytes(phase), 500));
    assert_true(near(report_reads_per_get(&phase->counters), 1.5));
    free(phase);
}

/* A slice that took a thousand times as long does not change the rate. */
REPORT_TEST(floor_compares_like_with_like)
{
    static const uint64_t ns[FLOOR_KIND_COUNT] = {100, 200, 300, 3000, 2000, 1000};
    struct floor_round *round = calloc(1, sizeof *round);
    struct floor_figures figures;

    assert_non_null(round);
    floor_round_figures(round, &figures);
    assert_true(figures.get_over_read == 0 && figures.rate[FLOOR_GET] == 0);
    for (int kind = 0; kind < FLOOR_KIND_COUNT; kind++) {
        histogram_init(&round->latency[kind]);
        histogram_init(&round->pace[kind]);
        for (int slice = 0; slice < 5; slice++) {
            histogram_record(&round->latency[kind], ns[kind] * (slice == 4 ? 1000 : 1));
            histogram_record(&round->pace[kind], ns[kind] * 1000 * (slice == 4 ? 1000 : 1));
        }
    }
    round->counters = (struct okv_counters){.gets = 10, .reads = 11};
    floor_round_figures(round, &figures); /* what has other bytes is not compared */
    assert_true(figures.get_over_read == 0 && figures.put_over_echo == 0);
    assert_true(figures.get_rate_over_read == 0);
    round->read_whole = round->echo_whole = true;
    floor_round_figures(round, &figures);
    assert_true(fabs(figures.p50_us[FLOOR_PUT] - 3) < 0.02);
    assert_true(fabs(figures.rate[FLOOR_READ] - 5e6) < 5e6 * 0.005);
    assert_true(fabs(figures.get_over_copy - 3) < 0.02);
    assert_true(fabs(figures.get_over_read - 1.5) < 0.01);
    assert_true(fabs(figures.put_over_echo - 1.5) < 0.01);
    assert_true(fabs(figures.get_rate_over_read - 2.0 / 3) < 0.01);
    assert_true(near(figures.reads_per_get, 1.1));
    free(round);
}

/* ---- the outcome --------------------------------------------------------- */

REPORT_TEST(a_run_is_good_without_wrong_missing_or_failed_operations)
{
    static const uint64_t times[] = {100, 200, 300};
    struct fixture *fixture = *state;
    struct report_target *target = run_of(fixture, 0, "a", times);
    struct loop_tally *tally = &target->tally;

    assert_true(report_target_good(&fixture->report, target));
    tally->conflicts = 1;
    tally->missing = 1;
    fixture->options.no_load = true; /* nobody said that all are there */
    assert_true(report_target_good(&fixture->report, target));
    fixture->options.no_load = false;
    assert_false(report_target_good(&fixture->report, target));
    fixture->options.mix[OPERATION_DELETE] = 1;
    assert_true(report_target_good(&fixture->report, target));
    tally->wrong = 1;
    assert_false(report_target_good(&fixture->report, target));
    tally->wrong = 0;
    tally->failed = 1;
    assert_false(report_target_good(&fixture->report, target));
    tally->failed = 0;
    tally->code = OKV_EDISCONNECTED;
    assert_false(report_target_good(&fixture->report, target));
    tally->code = OKV_OK;
    target->rounds--;
    assert_false(report_target_good(&fixture->report, target));
    fixture->options.load_only = true;
    assert_true(report_target_good(&fixture->report, target));
}

/* ---- files --------------------------------------------------------------- */

static void assert_quoted(struct fixture *fixture, const char *text, const char *quoted)
{
    FILE *out = text_begin(fixture);

    report_csv_text(text, out);
    fclose(out);
    assert_string_equal(fixture->text, quoted);
}

REPORT_TEST(fields_are_quoted_where_they_must)
{
    struct fixture *fixture = *state;

    assert_quoted(fixture, "", "");
    assert_quoted(fixture, "okv over local", "okv over local");
    assert_quoted(fixture, "a,b", "\"a,b\"");
    assert_quoted(fixture, "say \"when\"", "\"say \"\"when\"\"\"");
    assert_quoted(fixture, "two\nlines", "\"two\nlines\"");
}

static unsigned count_of(const char *text, const char *end, char c)
{
    unsigned count = 0;

    for (; text < end; text++)
        count += *text == c;
    return count;
}

REPORT_TEST(lines_have_equal_numbers_of_fields)
{
    static const uint64_t times[] = {100, 200, 300};
    struct fixture *fixture = *state;
    struct report_target *floor = target_of(fixture, 1, "the floor");
    struct report_target *target = run_of(fixture, 0, "okv", times);
    FILE *out = text_begin(fixture);
    unsigned lines = 0;

    target->loaded = true;
    target->run[1].not_begun = 4321;
    round_of(&target->load, 10, 1000);
    floor->rounds = 1;
    floor->floor = calloc(1, sizeof *floor->floor);
    assert_non_null(floor->floor);
    histogram_record(&floor->floor[0].latency[FLOOR_READ], 5);
    histogram_record(&floor->floor[0].latency[FLOOR_GET], 5);
    assert_int_equal(report_write_csv(&fixture->report, out), 0);
    fclose(out);
    const char *end = strchr(fixture->text, '\n');
    unsigned commas = count_of(fixture->text, end, ',');
    for (const char *line = fixture->text; *line; line = end + 1, lines++) {
        end = strchr(line, '\n');
        assert_int_equal(count_of(line, end, ','), commas);
    }
    assert_int_equal(lines, 1 + 1 + ROUNDS + 2);
    assert_null(strstr(fixture->text, "nan")); /* what is not known is empty */
    assert_non_null(strstr(fixture->text, "\nokv,load,get,1e-05,1000000,10,1,1,1,1,1,1,1,1,"));
    assert_non_null(strstr(fixture->text, "\nokv,2,get,2e-05,5000000,100,0.2,"));
    assert_non_null(strstr(fixture->text, ",4321\n"));
    assert_non_null(strstr(fixture->text, "\nthe floor,1,read,"));
}

/* Five lines for each halving of what is left, up to the last sample. */
REPORT_TEST(histograms_have_percentiles)
{
    static const double shares[] = {0,   0.1,  0.2,   0.3, 0.4,   0.5,  0.55,  0.6,   0.65,
                                    0.7, 0.75, 0.775, 0.8, 0.825, 0.85, 0.875, 0.8875};
    struct fixture *fixture = *state;
    struct histogram *latency = calloc(1, sizeof *latency);
    FILE *out = text_begin(fixture);
    double value, share, inverse, last = 0;
    unsigned long long total;
    unsigned line = 0;

    assert_non_null(latency);
    histogram_init(latency);
    for (uint64_t us = 1; us <= 100; us++)
        histogram_record(latency, us * 1000);
    assert_int_equal(report_hdr_text(latency, out), 0);
    fclose(out);
    const char *at = strstr(fixture->text, "\n\n") + 2;
    assert_non_null(strstr(fixture->text, "Value     Percentile TotalCount 1/(1-Percentile)\n\n"));
    for (; sscanf(at, "%lf %lf %llu %lf\n", &value, &share, &total, &inverse) == 4; line++) {
        if (line < sizeof shares / sizeof *shares)
            assert_true(fabs(share - shares[line]) < 1e-9);
        assert_true(share > last || line == 0);
        assert_true(value >= share * 100 * 0.99 && (double)total >= share * 100);
        assert_true(fabs(inverse - 1 / (1 - share)) < 0.01 * inverse);
        last = share;
        at = strchr(at, '\n') + 1;
    }
    assert_true(line > sizeof shares / sizeof *shares);
    assert_int_equal(sscanf(at, "%lf %lf %llu\n", &value, &share, &total), 3);
    assert_true(value == 100 && share == 1 && total == 100);
    assert_non_null(strstr(at, "#[Mean    =       50.500, StdDeviation   =       28."));
    assert_non_null(strstr(at, "#[Max     =      100.000, Total count    =          100]"));
    free(latency);
}

/* Names of targets are those of no directory, and two that are alike have files of their own. */
REPORT_TEST(histogram_files_have_safe_and_distinct_names)
{
    static const uint64_t times[] = {100, 200, 300};
    static const char *const names[] = {"h.local____a.get.hgrm", "h.local____a-2.get.hgrm"};
    struct fixture *fixture = *state;
    char directory[] = "/tmp/okv-test.XXXXXX";
    char path[128];

    assert_non_null(mkdtemp(directory));
    run_of(fixture, 0, "local:///a", times);
    run_of(fixture, 1, "local:__/a", times);
    snprintf(path, sizeof path, "%s/h", directory);
    assert_int_equal(report_write_hdr(&fixture->report, path), 0);
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(directory), 0);
    assert_int_equal(report_write_hdr(&fixture->report, path), -1);
}

static double number_at(const json_t *root, const char *target_key, const char *key)
{
    const json_t *target = json_array_get(json_object_get(root, "targets"), 1);
    const json_t *round = json_array_get(json_object_get(target, "rounds"), 0);
    const json_t *found =
        json_object_get(target_key ? json_object_get(round, target_key) : round, key);

    assert_non_null(found);
    return json_is_null(found) ? NAN : json_number_value(found);
}

REPORT_TEST(json_has_all_known_values)
{
    static const uint64_t first[] = {100, 200, 400}, second[] = {400, 400, 400};
    struct fixture *fixture = *state;
    FILE *out = text_begin(fixture);

    run_of(fixture, 0, "a", first);
    run_of(fixture, 1, "b", second)->info.path = "rxe0 port 1, path MTU 4096, ethernet";
    fixture->report.targets[1].run[0].not_begun = 4321;
    strcpy(fixture->report.environment.command, "kv-bench -s \xff");
    assert_int_equal(report_write_json(&fixture->report, out), 0);
    fclose(out);
    json_t *root = json_loads(fixture->text, 0, NULL);
    assert_non_null(root);
    const json_t *environment = json_object_get(root, "environment");
    assert_string_equal(json_string_value(json_object_get(environment, "command")),
                        "kv-bench -s ?");
    assert_int_equal(json_integer_value(json_object_get(environment, "mtu")), 4096);
    assert_true(near(number_at(root, NULL, "operations_per_second"), 2.5e6));
    assert_true(near(number_at(root, NULL, "not_begun"), 4321));
    assert_true(isnan(number_at(root, NULL, "reads_per_get")));
    assert_true(isnan(number_at(root, NULL, "server_cpu_us_per_operation")));
    assert_true(isnan(number_at(root, "fill", "items")));
    const json_t *ratios = json_object_get(root, "ratios");
    bool found = false;
    for (size_t i = 0; i < json_array_size(ratios); i++) {
        const json_t *ratio = json_array_get(ratios, i);
        if (strcmp(json_string_value(json_object_get(ratio, "figure")), "get_p50_us") != 0)
            continue;
        found = true;
        assert_string_equal(json_string_value(json_object_get(ratio, "target")), "b");
        assert_true(near(json_number_value(json_object_get(ratio, "median")), 2));
    }
    assert_true(found);
    json_decref(root);
}
