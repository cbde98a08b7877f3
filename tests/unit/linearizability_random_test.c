/* The checker of histories against its reference on random short ones, and on long ones from a
 * simulated store. $OKV_TEST_SEED repeats a run; $OKV_TEST_STEPS is how many short histories of
 * each sort there are, $OKV_TEST_OPERATIONS how long the long one is. */
#include <time.h>

#include "tests/support/test.h"

#include "tests/support/history_simulation.h"
#include "tests/support/linearizability.h"
#include "tests/support/random.h"

#define STEPS 40000
#define OPERATIONS 1000000

static uint64_t number_from(const char *variable, uint64_t otherwise)
{
    const char *text = getenv(variable);

    return text ? strtoull(text, NULL, 0) : otherwise;
}

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- short histories: both checkers ---- */

struct tally {
    unsigned compared;
    unsigned verdicts[LINEARIZABILITY_NO_MEMORY + 1];
};

static void tally_print(const struct tally *tally)
{
    print_message("linearizable: %u; not: %u; malformed: %u\n",
                  tally->verdicts[LINEARIZABILITY_HOLDS], tally->verdicts[LINEARIZABILITY_VIOLATED],
                  tally->verdicts[LINEARIZABILITY_MALFORMED]);
}

static void describe(const struct history *history)
{
    for (size_t i = 0; i < history->length; i++) {
        char line[300];
        history_record_format(&history->records[i], i, line, sizeof line);
        print_message("  %s\n", line);
    }
}

/* As in a cache, too, one time in three. */
static enum linearizability_verdict compare(const struct history *history, bool incr_needs_item,
                                            uint64_t seed, struct tally *tally)
{
    const struct linearizability_options options = {.incr_needs_item = incr_needs_item,
                                                    .may_vanish = tally->compared++ % 3 == 2};
    struct linearizability_report report;
    enum linearizability_verdict fast =
        linearizability_check_key(history->records, history->length, &options, &report);
    enum linearizability_verdict slow =
        linearizability_check_reference(history->records, history->length, &options);

    tally->verdicts[slow]++;
    if (fast == slow)
        return slow;
    describe(history);
    fail_msg("OKV_TEST_SEED=%llu OKV_TEST_STEPS=1: reference: %s; fast: %s: %s",
             (unsigned long long)seed, linearizability_verdict_text(slow),
             linearizability_verdict_text(fast), report.text);
    return slow;
}

/* What another record has in this field, or a number near it. */
static uint64_t another(const struct history *history, size_t offset, uint64_t *random)
{
    const char *record =
        (const char *)&history->records[history_random_below(random, history->length)];
    uint64_t value;

    memcpy(&value, record + offset, sizeof value);
    if (history_random_below(random, 3) == 0)
        value = value ? value + history_random_below(random, 3) - 1 : 1;
    return value;
}

static void corrupt_time(struct history_record *record, uint64_t *random)
{
    uint64_t length = record->response - record->invoke;

    record->invoke = history_random_below(random, 40) + 1;
    record->response = record->invoke + (record->response ? length : 0);
    if (history_random_below(random, 4) == 0)
        record->response += history_random_below(random, 10);
}

/* Changes something; the result may be linearizable still, or no history at all. */
static void corrupt_one(struct history *history, uint64_t *random)
{
    static const uint8_t results[] = {HISTORY_OK,       HISTORY_OK,      HISTORY_NOTFOUND,
                                      HISTORY_EXISTS,   HISTORY_UNKNOWN, HISTORY_FAILED,
                                      HISTORY_CONFLICT, HISTORY_UNKNOWN};
    struct history_record *record =
        &history->records[history_random_below(random, history->length)];

    switch (history_random_below(random, 8)) {
    case 0:
        record->version = another(history, offsetof(struct history_record, version), random);
        break;
    case 1:
        record->value = another(history, offsetof(struct history_record, value), random);
        break;
    case 2:
        record->value = another(history, offsetof(struct history_record, argument), random);
        record->version = another(history, offsetof(struct history_record, version), random);
        break;
    case 3:
        if (record->kind == HISTORY_CAS || record->kind == HISTORY_DELETE)
            record->expected = another(history, offsetof(struct history_record, version), random);
        break;
    case 4:
    case 5:
        record->result = results[history_random_below(random, sizeof results)];
        break;
    case 6:
        *record = history->records[--history->length];
        break;
    default:
        corrupt_time(record, random);
    }
    history_sort(history->records, history->length);
}

/* The same until it is a history. */
static void corrupt(struct history *history, uint64_t *random)
{
    struct history_record before[LINEARIZABILITY_REFERENCE_MAX];
    const struct history copy = {before, history->length};

    memcpy(before, history->records, history->length * sizeof *before);
    for (unsigned tries = 0; tries < 20; tries++) {
        corrupt_one(history, random);
        if (linearizability_check_key(history->records, history->length, NULL, NULL) !=
            LINEARIZABILITY_MALFORMED)
            return;
        history->length = copy.length;
        memcpy(history->records, before, copy.length * sizeof *before);
    }
}

/* Records out of the air, of one value and version each or nearly so. */
static void nonsense_once(uint64_t seed, struct tally *tally)
{
    struct history_record records[8] = {{0}};
    struct history history = {records, 0};
    uint64_t random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;

    history_random(&random);
    history.length = 2 + history_random_below(&random, 6);
    uint64_t kinds = HISTORY_INCR + history_random_below(&random, 2), times = 4 * history.length;
    for (size_t i = 0; i < history.length; i++) {
        struct history_record *record = &records[i];
        record->kind = (uint8_t)history_random_below(&random, kinds);
        record->result = (uint8_t)history_random_below(&random, HISTORY_FAILED);
        if (history_random_below(&random, 3) == 0)
            record->result = HISTORY_OK;
        record->invoke = 1 + history_random_below(&random, times);
        record->response = record->invoke + history_random_below(&random, times / 2);
        bool reads = record->kind == HISTORY_GET || record->kind == HISTORY_DELETE;
        record->argument = reads ? 0 : i + 1;
        record->value = 1 + history_random_below(&random, history.length + 2);
        if (record->kind == HISTORY_CAS ||
            (record->kind == HISTORY_DELETE && history_random_below(&random, 2)))
            record->expected = 1 + history_random_below(&random, history.length);
        if (record->result == HISTORY_OK && record->kind != HISTORY_DELETE)
            record->version = 1 + history_random_below(&random, history.length);
    }
    history_sort(records, history.length);
    compare(&history, history_random_below(&random, 3) == 0, seed, tally);
}

/* A store and a load that differ from seed to seed. */
static struct history_simulation random_simulation(uint64_t *random, bool counter)
{
    static const uint32_t unknown[] = {0, 100, 400, 700};
    struct history_simulation simulation = {
        .seed = history_random(random),
        .threads = 1 + (uint32_t)history_random_below(random, 5),
        .keys = 1,
        .counters = counter,
        .operations = 2 + history_random_below(random, 11),
        .duration = 1 + (uint32_t)history_random_below(random, 8),
        .version_step = 1 + (uint32_t)history_random_below(random, 3),
        .unknown_permille = unknown[history_random_below(random, 4)],
        .odd_percent = 20 * (uint32_t)history_random_below(random, 3),
        .ambiguous = history_random_below(random, 3) > 0,
        .incr_needs_item = history_random_below(random, 3) == 0,
    };

    return simulation;
}

/* One history as it is, then with one thing changed after another. */
static void agree_once(uint64_t seed, bool counter, struct tally *tally)
{
    uint64_t random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    struct history history;

    history_random(&random);
    struct history_simulation simulation = random_simulation(&random, counter);
    assert_true(history_simulate(&simulation, &history));
    enum linearizability_verdict verdict =
        compare(&history, simulation.incr_needs_item, seed, tally);
    /* Without an INCR nothing says that it is a counter, whose values need not be unique. */
    if (verdict != LINEARIZABILITY_HOLDS && !(counter && verdict == LINEARIZABILITY_MALFORMED)) {
        describe(&history);
        fail_msg("OKV_TEST_SEED=%llu: a history from a store is said to be %s",
                 (unsigned long long)seed, linearizability_verdict_text(verdict));
    }
    for (unsigned i = 0; i < 4 && history.length > 1; i++) {
        corrupt(&history, &random);
        compare(&history, simulation.incr_needs_item, seed, tally);
    }
    history_fini(&history);
}

static void agree(bool counter)
{
    uint64_t seed = random_seed();
    uint64_t steps = number_from("OKV_TEST_STEPS", STEPS);
    struct tally tally = {0};

    for (uint64_t i = 0; i < steps; i++)
        agree_once(seed + i, counter, &tally);
    tally_print(&tally);
    if (steps >= 1000) /* else it says little */
        assert_true(tally.verdicts[LINEARIZABILITY_VIOLATED] > steps / 2 &&
                    tally.verdicts[LINEARIZABILITY_HOLDS] > steps * 3 / 2);
}

TEST(both_agree_on_nonsense)
{
    uint64_t seed = random_seed();
    uint64_t steps = number_from("OKV_TEST_STEPS", STEPS);
    struct tally tally = {0};

    for (uint64_t i = 0; i < 10 * steps; i++)
        nonsense_once(seed + i, &tally);
    tally_print(&tally);
}

TEST(both_agree_on_registers)
{
    agree(false);
}

TEST(both_agree_on_counters)
{
    agree(true);
}

/* ---- long histories ---- */

/* Returns how many records it changed so that no order is left: 1, or 0 if `at` does not suit. */
typedef bool (*corruption)(struct history_record *records, size_t at, size_t count);

static bool is_hit(const struct history_record *record)
{
    return record->kind == HISTORY_GET && record->result == HISTORY_OK;
}

static bool stale_read(struct history_record *records, size_t at, size_t count)
{
    size_t old = at < 200 ? at : at - 200;

    (void)count;
    if (!is_hit(&records[at]) || !is_hit(&records[old]) ||
        records[old].version == records[at].version)
        return false;
    records[at].version = records[old].version;
    records[at].value = records[old].value;
    return true;
}

static bool future_read(struct history_record *records, size_t at, size_t count)
{
    size_t later = at + 200;

    if (later >= count || !is_hit(&records[at]) || !is_hit(&records[later]) ||
        records[later].version == records[at].version)
        return false;
    records[at].version = records[later].version;
    records[at].value = records[later].value;
    return true;
}

static bool foreign_value(struct history_record *records, size_t at, size_t count)
{
    (void)count;
    if (!is_hit(&records[at]))
        return false;
    records[at].value ^= UINT64_C(1) << 50;
    return true;
}

static bool torn_read(struct history_record *records, size_t at, size_t count)
{
    if (at + 1 >= count || !is_hit(&records[at]) || !is_hit(&records[at + 1]) ||
        records[at].version == records[at + 1].version ||
        records[at].value == records[at + 1].value)
        return false;
    records[at].value = records[at + 1].value;
    return true;
}

/* Between two reads of one version the item was not away. */
static bool false_miss(struct history_record *records, size_t at, size_t count)
{
    struct history_record *r = &records[at];

    if (at + 2 >= count || !is_hit(r) || !is_hit(r + 1) || !is_hit(r + 2) ||
        r[0].version != r[2].version || r[0].response >= r[1].invoke ||
        r[1].response >= r[2].invoke)
        return false;
    r[1].result = HISTORY_NOTFOUND;
    r[1].version = r[1].value = 0;
    return true;
}

static bool vanished_item(struct history_record *records, size_t at, size_t count)
{
    if (!false_miss(records, at, count))
        return false;
    records[at + 1].kind = HISTORY_DELETE;
    records[at + 1].result = HISTORY_OK;
    return true;
}

static bool wrong_cas(struct history_record *records, size_t at, size_t count)
{
    (void)count;
    if (records[at].kind != HISTORY_CAS || records[at].result != HISTORY_OK ||
        records[at].expected < 2)
        return false;
    records[at].expected--;
    return true;
}

static bool version_again(struct history_record *records, size_t at, size_t count)
{
    struct history_record *r = &records[at];

    if (at + 1 >= count || r[0].kind != HISTORY_PUT || r[1].kind != HISTORY_PUT ||
        r[0].result != HISTORY_OK || r[1].result != HISTORY_OK)
        return false;
    r[1].version = r[0].version;
    return true;
}

/* Two writes, one after the other, seen the other way round. */
static bool versions_swapped(struct history_record *records, size_t at, size_t count)
{
    struct history_record *r = &records[at];

    if (at + 1 >= count || r[0].kind != HISTORY_PUT || r[1].kind != HISTORY_PUT ||
        r[0].result != HISTORY_OK || r[1].result != HISTORY_OK || r[0].response >= r[1].invoke)
        return false;
    uint64_t version = r[0].version;
    r[0].version = r[1].version;
    r[1].version = version;
    return true;
}

static bool wrong_count(struct history_record *records, size_t at, size_t count)
{
    (void)count;
    if (records[at].kind != HISTORY_INCR || records[at].result != HISTORY_OK)
        return false;
    records[at].value += UINT64_C(1) << 19; /* no unknown ones can make up for that */
    return true;
}

/* Corrupts one record behind `from` that suits; false: there is none. */
static bool corrupt_long(struct history *history, corruption what, size_t from, size_t *first)
{
    size_t end;

    for (*first = 0; *first < history->length; *first = end) {
        end = history_key_end(history, *first);
        for (size_t i = *first > from ? *first : from; i < end; i++)
            if (what(history->records + *first, i - *first, end - *first))
                return true;
    }
    return false;
}

static void expect_caught(const struct history *original, const char *name, corruption what,
                          size_t from)
{
    struct linearizability_report report;
    struct history one;
    size_t first;

    struct history copy = {malloc(original->length * sizeof *copy.records), original->length};
    assert_non_null(copy.records);
    memcpy(copy.records, original->records, original->length * sizeof *copy.records);
    assert_true(corrupt_long(&copy, what, from, &first));
    one = (struct history){copy.records + first, history_key_end(&copy, first) - first};
    history_sort(one.records, one.length);
    if (linearizability_check(&one, NULL, &report) != LINEARIZABILITY_VIOLATED)
        fail_msg("%s behind %zu is not caught", name, from);
    if (getenv("OKV_TEST_VERBOSE")) {
        print_message("%s: ", name);
        linearizability_report_print(&report, stdout);
    }
    history_fini(&copy);
}

static struct history long_history(uint32_t unknown_permille, uint64_t operations)
{
    struct history_simulation simulation = {
        .seed = random_seed(),
        .threads = 16,
        .keys = 64,
        .counters = 16,
        .operations = operations,
        .duration = 1000,
        .version_step = 3,
        .unknown_permille = unknown_permille,
        .hot_percent = 20,
        .odd_percent = 10,
    };
    struct history history;

    assert_true(history_simulate(&simulation, &history));
    return history;
}

static void expect_holds(const struct history *history)
{
    struct linearizability_report report;
    double start = seconds();

    if (linearizability_check(history, NULL, &report) != LINEARIZABILITY_HOLDS) {
        linearizability_report_print(&report, stderr);
        fail_msg("a history from a store is not accepted");
    }
    print_message("%zu operations in %.2f s\n", history->length, seconds() - start);
}

TEST(one_wrong_record_in_a_million_is_caught)
{
    static const struct {
        const char *name;
        corruption what;
    } corruptions[] = {
        {"stale read", stale_read},
        {"read from the future", future_read},
        {"foreign value", foreign_value},
        {"torn read", torn_read},
        {"false miss", false_miss},
        {"DELETE of what stays", vanished_item},
        {"CAS of another version", wrong_cas},
        {"a version twice", version_again},
        {"versions against time", versions_swapped},
        {"wrong count", wrong_count},
    };
    struct history history = long_history(0, number_from("OKV_TEST_OPERATIONS", OPERATIONS));

    expect_holds(&history);
    for (size_t i = 0; i < sizeof corruptions / sizeof *corruptions; i++)
        for (size_t page = 0; page < 3; page++)
            expect_caught(&history, corruptions[i].name, corruptions[i].what,
                          history.length / 4 * page + 1000);
    history_fini(&history);
}

/* One operation in a hundred has an unknown outcome. */
TEST(unknown_outcomes_do_not_add_up)
{
    struct history history = long_history(10, number_from("OKV_TEST_OPERATIONS", OPERATIONS));

    expect_holds(&history);
    expect_caught(&history, "stale read", stale_read, history.length / 2);
    expect_caught(&history, "false miss", false_miss, history.length / 2);
    expect_caught(&history, "wrong count", wrong_count, history.length / 2);
    history_fini(&history);
}
