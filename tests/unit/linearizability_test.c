/* The checker of histories, on histories made by hand: what holds is accepted, what does not is
 * caught, and by both checkers. Random and long ones: linearizability_random_test.c. */
#include "tests/support/test.h"

#include "tests/support/linearizability.h"

#define KEY 7

/* Called at `from`, returned at `to`. V: value, X: version, E: the expected version. */
#define RECORD(from, to, what, how, ...)                                    \
    {                                                                       \
        .key = KEY, .invoke = from, .response = to, .kind = HISTORY_##what, \
        .result = HISTORY_##how, ##__VA_ARGS__                              \
    }
#define GET(from, to, v, x) RECORD(from, to, GET, OK, .value = v, .version = x)
#define MISS(from, to) RECORD(from, to, GET, NOTFOUND)
#define PUT(from, to, v, x) RECORD(from, to, PUT, OK, .argument = v, .version = x)
#define CAS(from, to, e, v, x) RECORD(from, to, CAS, OK, .expected = e, .argument = v, .version = x)
#define CAS_CONFLICT(from, to, e, v) RECORD(from, to, CAS, CONFLICT, .expected = e, .argument = v)
#define CAS_MISS(from, to, e, v) RECORD(from, to, CAS, NOTFOUND, .expected = e, .argument = v)
#define ADD(from, to, v, x) RECORD(from, to, ADD, OK, .argument = v, .version = x)
#define ADD_EXISTS(from, to, v) RECORD(from, to, ADD, EXISTS, .argument = v)
#define DEL(from, to) RECORD(from, to, DELETE, OK)
#define DEL_IF(from, to, e) RECORD(from, to, DELETE, OK, .expected = e)
#define DEL_CONFLICT(from, to, e) RECORD(from, to, DELETE, CONFLICT, .expected = e)
#define DEL_MISS(from, to) RECORD(from, to, DELETE, NOTFOUND)
#define INCR(from, to, d, v, x) RECORD(from, to, INCR, OK, .argument = d, .value = v, .version = x)
#define INCR_MISS(from, to, d) RECORD(from, to, INCR, NOTFOUND, .argument = d)
#define PUT_UNKNOWN(from, v) RECORD(from, 0, PUT, UNKNOWN, .argument = v)
#define ADD_UNKNOWN(from, v) RECORD(from, 0, ADD, UNKNOWN, .argument = v)
#define CAS_UNKNOWN(from, e, v) RECORD(from, 0, CAS, UNKNOWN, .expected = e, .argument = v)
#define DEL_UNKNOWN(from) RECORD(from, 0, DELETE, UNKNOWN)
#define INCR_UNKNOWN(from, d) RECORD(from, 0, INCR, UNKNOWN, .argument = d)

struct example {
    const char *name;
    struct history_record records[10]; /* ends where `response` and `invoke` are 0 */
};

static size_t example_length(const struct example *example)
{
    size_t n = 0;

    while (n < 10 && example->records[n].invoke)
        n++;
    return n;
}

static void expect(const struct example *example, const struct linearizability_options *options,
                   enum linearizability_verdict expected)
{
    struct history_record records[10];
    struct linearizability_report report;
    size_t n = example_length(example);

    memcpy(records, example->records, sizeof records);
    history_sort(records, n);
    enum linearizability_verdict fast = linearizability_check_key(records, n, options, &report);
    enum linearizability_verdict slow = linearizability_check_reference(records, n, options);
    if (fast != expected || slow != expected)
        fail_msg("%s: should be %s; fast: %s; reference: %s\n%s", example->name,
                 linearizability_verdict_text(expected), linearizability_verdict_text(fast),
                 linearizability_verdict_text(slow), report.text);
    if (expected == LINEARIZABILITY_HOLDS)
        return;
    assert_int_equal(report.key, KEY);
    assert_true(report.count > 0 && report.culprits[0] < n);
    assert_non_null(strchr(report.text, '#'));
    if (getenv("OKV_TEST_VERBOSE"))
        print_message("%s: %s\n", example->name, report.text);
}

#define EXPECT_ALL(examples, options, verdict)                             \
    do {                                                                   \
        for (size_t i = 0; i < sizeof(examples) / sizeof *(examples); i++) \
            expect(&(examples)[i], options, verdict);                      \
    } while (0)

TEST(linearizable_histories_are_accepted)
{
    static const struct example examples[] = {
        {"nothing", {{0}}},
        {"one after the other",
         {MISS(1, 2), PUT(3, 4, 1, 5), GET(5, 6, 1, 5), DEL(7, 8), MISS(9, 10), DEL_MISS(11, 12),
          ADD(13, 14, 2, 6), GET(15, 16, 2, 6)}},
        {"a GET sees a PUT that has not returned", {PUT(1, 10, 1, 5), GET(2, 3, 1, 5)}},
        {"or not yet", {PUT(1, 10, 1, 5), MISS(2, 3), GET(4, 5, 1, 5)}},
        {"two PUTs at once, the later version called first",
         {PUT(1, 10, 1, 6), PUT(2, 9, 2, 5), GET(11, 12, 1, 6)}},
        {"times that touch are not ordered", {PUT(1, 5, 1, 6), PUT(5, 9, 2, 5)}},
        {"a DELETE between two PUTs at once",
         {PUT(1, 10, 1, 5), PUT(1, 10, 2, 6), DEL(1, 10), GET(11, 12, 2, 6)}},
        {"or behind both", {PUT(1, 10, 1, 5), PUT(1, 10, 2, 6), DEL(1, 10), MISS(11, 12)}},
        {"two DELETEs, two PUTs",
         {PUT(1, 10, 1, 5), PUT(1, 10, 2, 6), DEL(1, 10), DEL(1, 10), MISS(11, 12)}},
        {"a miss and a DELETE within a PUT",
         {PUT(1, 2, 1, 5), PUT(3, 20, 2, 6), DEL(4, 15), MISS(5, 6), GET(16, 17, 2, 6)}},
        {"CAS",
         {PUT(1, 2, 1, 5), CAS(3, 9, 5, 2, 8), CAS_CONFLICT(4, 10, 5, 3), GET(11, 12, 2, 8),
          CAS_CONFLICT(13, 14, 5, 4)}},
        {"CAS of nothing", {CAS_MISS(1, 2, 5, 1), ADD(3, 4, 2, 5), CAS(5, 6, 5, 3, 9)}},
        {"ADD", {ADD(1, 9, 1, 5), ADD_EXISTS(2, 8, 2), MISS(3, 4), GET(10, 11, 1, 5)}},
        {"DELETE of a version",
         {PUT(1, 2, 1, 5), DEL_CONFLICT(3, 4, 9), DEL_IF(5, 6, 5), MISS(7, 8)}},
        {"a PUT without effect",
         {{.key = KEY,
           .invoke = 1,
           .response = 2,
           .kind = HISTORY_PUT,
           .result = HISTORY_FAILED,
           .argument = 1},
          MISS(3, 4)}},
    };

    EXPECT_ALL(examples, NULL, LINEARIZABILITY_HOLDS);
}

TEST(unknown_outcomes_may_be_either)
{
    static const struct example examples[] = {
        {"never", {PUT_UNKNOWN(1, 1), MISS(2, 3), MISS(4, 5)}},
        {"late", {PUT_UNKNOWN(1, 1), MISS(2, 3), GET(4, 5, 1, 5)}},
        {"over a later write",
         {PUT_UNKNOWN(1, 1), PUT(2, 3, 2, 5), GET(4, 5, 2, 5), GET(6, 7, 1, 6)}},
        {"a PUT that nobody saw", {PUT_UNKNOWN(1, 1), DEL(2, 3), MISS(4, 5)}},
        {"a DELETE that nobody saw", {PUT(1, 2, 1, 5), DEL_UNKNOWN(3), ADD(4, 5, 2, 6)}},
        {"a DELETE, late", {PUT(1, 2, 1, 5), DEL_UNKNOWN(3), GET(4, 5, 1, 5), MISS(6, 7)}},
        {"a DELETE and an ADD",
         {PUT(1, 2, 1, 5), DEL_UNKNOWN(3), ADD_UNKNOWN(3, 2), CAS_CONFLICT(4, 5, 5, 3)}},
        {"a version that only a CAS names", {PUT_UNKNOWN(1, 1), CAS(2, 3, 4, 2, 5)}},
        {"a CAS, seen", {PUT(1, 2, 1, 5), CAS_UNKNOWN(3, 5, 2), GET(4, 5, 2, 7)}},
        {"a CAS, felt", {PUT(1, 2, 1, 5), CAS_UNKNOWN(3, 5, 2), CAS_CONFLICT(4, 5, 5, 3)}},
        {"between two DELETEs",
         {PUT(1, 2, 1, 5), DEL(3, 4), PUT_UNKNOWN(5, 2), DEL(6, 7), MISS(8, 9)}},
        {"INCR, felt", {INCR(1, 2, 1, 1, 5), INCR_UNKNOWN(3, 1), INCR(4, 5, 1, 3, 8)}},
        {"INCR, late", {INCR(1, 2, 1, 1, 5), INCR_UNKNOWN(3, 1), GET(4, 5, 1, 5), GET(6, 7, 2, 8)}},
        {"INCR, one of two",
         {INCR(1, 2, 1, 1, 5), INCR_UNKNOWN(3, 1), INCR_UNKNOWN(3, 10), INCR(4, 5, 1, 12, 8)}},
        {"INCR before and after a state whose number is open",
         {INCR_UNKNOWN(2, 1), INCR_UNKNOWN(3, 1),
          RECORD(7, 12, ADD, EXISTS, .argument = 9, .version = 2), INCR_UNKNOWN(13, 1),
          INCR(15, 21, 1, 4, 4)}},
        {"INCR, after a DELETE", {INCR(1, 2, 4, 4, 5), DEL_UNKNOWN(3), INCR(4, 5, 1, 1, 8)}},
    };

    EXPECT_ALL(examples, NULL, LINEARIZABILITY_HOLDS);
}

TEST(violations_are_found)
{
    static const struct example examples[] = {
        {"stale read", {PUT(1, 2, 1, 5), PUT(3, 4, 2, 6), GET(5, 6, 1, 5)}},
        {"older than another read",
         {PUT(1, 2, 1, 5), PUT(3, 20, 2, 6), GET(4, 5, 2, 6), GET(6, 7, 1, 5)}},
        {"read from the future", {GET(1, 2, 1, 5), PUT(3, 4, 1, 5)}},
        {"lost update", {PUT(1, 2, 1, 5), CAS(3, 10, 5, 2, 6), PUT(4, 9, 3, 7), GET(11, 12, 2, 6)}},
        {"resurrected after a DELETE", {PUT(1, 2, 1, 5), DEL(3, 4), GET(5, 6, 1, 5)}},
        {"resurrected after a miss", {PUT(1, 2, 1, 5), DEL(3, 20), MISS(4, 5), GET(6, 7, 1, 5)}},
        {"false miss", {PUT(1, 2, 1, 5), MISS(3, 4), GET(5, 6, 1, 5)}},
        {"false miss beside a PUT", {PUT(1, 2, 1, 5), PUT(3, 6, 2, 6), MISS(4, 5)}},
        {"foreign value", {PUT(1, 2, 1, 5), GET(3, 4, 99, 5)}},
        {"foreign value and version", {PUT(1, 2, 1, 5), GET(3, 4, 99, 7)}},
        {"torn: value of one, version of another",
         {PUT(1, 10, 1, 5), PUT(1, 10, 2, 6), GET(3, 9, 1, 6)}},
        {"a version that no write returned", {PUT(1, 2, 1, 5), GET(3, 4, 1, 6)}},
        {"CAS on an old version", {PUT(1, 2, 1, 5), PUT(3, 4, 2, 6), CAS(5, 6, 5, 3, 7)}},
        {"CAS twice on one version", {PUT(1, 2, 1, 5), CAS(3, 10, 5, 2, 6), CAS(3, 10, 5, 3, 7)}},
        {"CAS after a DELETE", {PUT(1, 2, 1, 5), DEL(3, 4), CAS(5, 6, 5, 2, 6)}},
        {"CAS of nothing", {CAS(1, 2, 5, 1, 6)}},
        {"CAS lowers the version", {PUT(1, 2, 1, 5), CAS(3, 4, 5, 2, 4)}},
        {"CAS refused without a reason", {PUT(1, 2, 1, 5), CAS_CONFLICT(3, 4, 5, 2)}},
        {"CAS does not find what is there", {PUT(1, 2, 1, 5), CAS_MISS(3, 4, 5, 2)}},
        {"ADD although present", {PUT(1, 2, 1, 5), ADD(3, 4, 2, 6)}},
        {"two ADDs at once", {ADD(1, 10, 1, 5), ADD(1, 10, 2, 6)}},
        {"ADD refused without a reason", {ADD_EXISTS(1, 2, 1), PUT(3, 4, 2, 5)}},
        {"versions against time", {PUT(1, 2, 1, 6), PUT(3, 4, 2, 5)}},
        {"one version twice", {PUT(1, 9, 1, 5), PUT(1, 9, 2, 5)}},
        {"DELETE of nothing", {DEL(1, 2), PUT(3, 4, 1, 5)}},
        {"two DELETEs, one PUT", {PUT(1, 2, 1, 5), DEL(3, 10), DEL(3, 10)}},
        {"three DELETEs, two PUTs",
         {PUT(1, 10, 1, 5), PUT(1, 10, 2, 6), DEL(1, 10), DEL(1, 10), DEL(1, 10)}},
        {"DELETE does not find what is there", {PUT(1, 2, 1, 5), DEL_MISS(3, 4)}},
        {"DELETE of an old version", {PUT(1, 2, 1, 5), PUT(3, 4, 2, 6), DEL_IF(5, 6, 5)}},
        {"acknowledged, never visible", {PUT(1, 2, 1, 5), MISS(3, 4), MISS(5, 6)}},
        {"acknowledged DELETE without effect", {PUT(1, 2, 1, 5), DEL(3, 4), ADD_EXISTS(5, 6, 2)}},
        {"a PUT without effect that is seen",
         {{.key = KEY,
           .invoke = 1,
           .response = 2,
           .kind = HISTORY_PUT,
           .result = HISTORY_FAILED,
           .argument = 1},
          GET(3, 4, 1, 5)}},
    };

    EXPECT_ALL(examples, NULL, LINEARIZABILITY_VIOLATED);
}

TEST(unknown_outcomes_excuse_only_themselves)
{
    static const struct example examples[] = {
        {"seen, then undone",
         {PUT(1, 2, 1, 5), PUT_UNKNOWN(3, 2), GET(4, 5, 2, 6), GET(6, 7, 1, 5)}},
        {"seen, then gone", {PUT_UNKNOWN(1, 1), GET(2, 3, 1, 5), MISS(4, 5)}},
        {"twice", {PUT_UNKNOWN(1, 1), GET(2, 3, 1, 5), PUT(4, 5, 2, 6), GET(6, 7, 1, 8)}},
        {"before it was called", {MISS(1, 2), GET(3, 4, 1, 5), PUT_UNKNOWN(5, 1)}},
        {"one DELETE for two misses",
         {PUT(1, 2, 1, 5), DEL_UNKNOWN(3), MISS(4, 5), PUT(6, 7, 2, 6), MISS(8, 9)}},
        {"one PUT for two DELETEs", {PUT_UNKNOWN(1, 1), DEL(2, 3), DEL(4, 5)}},
        {"an ADD while present", {PUT(1, 2, 1, 5), ADD_UNKNOWN(3, 2), GET(4, 5, 2, 6)}},
        {"a CAS of another version", {PUT(1, 2, 1, 5), CAS_UNKNOWN(3, 4, 2), GET(4, 5, 2, 6)}},
        {"no version is free",
         {PUT(1, 2, 1, 5), PUT_UNKNOWN(3, 2), PUT(4, 9, 3, 6), CAS_CONFLICT(5, 6, 5, 4),
          GET(7, 8, 1, 5)}},
        {"INCR felt twice", {INCR(1, 2, 1, 1, 5), INCR_UNKNOWN(3, 1), INCR(4, 5, 1, 4, 8)}},
        {"INCR felt, then not",
         {INCR(1, 2, 1, 1, 5), INCR_UNKNOWN(3, 1), INCR(4, 5, 1, 3, 8), INCR(6, 7, 1, 3, 9)}},
    };

    EXPECT_ALL(examples, NULL, LINEARIZABILITY_VIOLATED);
}

TEST(counters_count)
{
    static const struct example good[] = {
        {"from nothing", {INCR(1, 2, 5, 5, 1), GET(3, 4, 5, 1), INCR(5, 6, -2, 3, 2)}},
        {"at once", {INCR(1, 9, 1, 2, 6), INCR(1, 9, 1, 1, 5), INCR(2, 8, 1, 3, 9)}},
        {"from a PUT", {PUT(1, 2, 40, 5), INCR(3, 4, 2, 42, 7), GET(5, 6, 42, 7)}},
        {"again after a DELETE", {INCR(1, 2, 1, 1, 5), DEL(3, 10), INCR(4, 9, 1, 1, 6)}},
    };
    static const struct example bad[] = {
        {"applied twice", {INCR(1, 2, 1, 1, 5), INCR(3, 4, 1, 3, 6)}},
        {"lost", {INCR(1, 9, 1, 1, 5), INCR(1, 9, 1, 1, 6)}},
        {"against the versions", {INCR(1, 9, 1, 1, 6), INCR(1, 9, 1, 2, 5)}},
        {"a number in between", {INCR(1, 2, 2, 2, 5), GET(3, 4, 1, 5)}},
        {"not from zero", {INCR(1, 2, 1, 2, 5)}},
        {"refused without a reason", {INCR(1, 2, 1, 1, 5), INCR_MISS(3, 4, 1)}},
    };
    static const struct example refused = {
        "absent", {INCR_MISS(1, 2, 1), PUT(3, 4, 1, 5), INCR(5, 6, 1, 2, 6)}};
    static const struct example created = {"created", {INCR(1, 2, 1, 1, 5)}};
    const struct linearizability_options needs_item = {.incr_needs_item = true};

    EXPECT_ALL(good, NULL, LINEARIZABILITY_HOLDS);
    EXPECT_ALL(bad, NULL, LINEARIZABILITY_VIOLATED);
    expect(&refused, &needs_item, LINEARIZABILITY_HOLDS);
    expect(&refused, NULL, LINEARIZABILITY_VIOLATED);
    expect(&created, &needs_item, LINEARIZABILITY_VIOLATED);
}

TEST(malformed_histories_are_refused)
{
    static const struct example examples[] = {
        {"one value twice", {PUT(1, 2, 1, 5), PUT(3, 4, 1, 6)}},
        {"a success without a version", {PUT(1, 2, 1, 0)}},
        {"CAS of no version", {CAS_CONFLICT(1, 2, 0, 1)}},
        {"returned before it was called", {GET(5, 4, 1, 5)}},
        {"a result that is none of the operation's", {RECORD(1, 2, GET, EXISTS)}},
    };

    EXPECT_ALL(examples, NULL, LINEARIZABILITY_MALFORMED);
}

/* More operations at once, or more orders, than the checker looks at: it says so. */
TEST(too_much_is_undecided)
{
    static struct history_record records[80];
    const struct linearizability_options few = {.states_max = 2};
    struct linearizability_report report;

    for (unsigned i = 0; i < 80; i++)
        records[i] = (struct history_record)MISS(1, 2);
    assert_int_equal(linearizability_check_key(records, 80, NULL, &report),
                     LINEARIZABILITY_UNDECIDED);
    assert_int_equal(linearizability_check_key(records, 64, NULL, &report), LINEARIZABILITY_HOLDS);
    for (unsigned i = 0; i < 10; i++)
        records[i] = (struct history_record)PUT(1, 9, i + 1, i + 1);
    for (unsigned i = 10; i < 21; i++)
        records[i] = (struct history_record)DEL(1, 9);
    assert_int_equal(linearizability_check_key(records, 21, &few, &report),
                     LINEARIZABILITY_UNDECIDED);
    assert_int_equal(linearizability_check_key(records, 21, NULL, &report),
                     LINEARIZABILITY_VIOLATED);
    assert_int_equal(linearizability_check_key(records, 20, NULL, &report), LINEARIZABILITY_HOLDS);
}

TEST(logs_become_a_history)
{
    struct history_log logs[2];
    struct history history;
    struct linearizability_report report;

    for (uint16_t i = 0; i < 2; i++)
        assert_true(history_log_init(&logs[i], i, 0));
    for (uint32_t i = 0; i < 1000; i++) {
        struct history_record put = PUT(4 * i + 1, 4 * i + 2, i + 1, i + 1);
        struct history_record get = GET(4 * i + 3, 4 * i + 4, i + 1, i + 1);
        put.key = get.key = i % 2 ? 3 : 9;
        assert_true(history_log_append(&logs[0], &put) && history_log_append(&logs[1], &get));
    }
    assert_true(history_merge(&history, logs, 2));
    assert_int_equal(history.length, 2000);
    assert_int_equal(history_key_end(&history, 0), 1000);
    for (size_t i = 0; i < history.length; i++) {
        assert_int_equal(history.records[i].key, i < 1000 ? 3 : 9);
        assert_int_equal(history.records[i].thread, i % 2);
    }
    assert_int_equal(linearizability_check(&history, NULL, &report), LINEARIZABILITY_HOLDS);
    history.records[1501].value++;
    assert_int_equal(linearizability_check(&history, NULL, &report), LINEARIZABILITY_VIOLATED);
    assert_int_equal(report.key, 9);
    assert_int_equal(report.culprits[0], 1501);
    assert_non_null(strstr(report.text, "#1501 thread 1: get key 9 -> ok value"));
    history_fini(&history);
    for (unsigned i = 0; i < 2; i++)
        history_log_fini(&logs[i]);
}
