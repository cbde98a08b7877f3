/* Allowances of hits: what earns them, who gets how many, and who is told to report fewer. */
#include "tests/support/test.h"

#include "server/database/allowance.h"
#include "shared/format/hits.h"

enum { PARTIES = 4, PERIOD = 1000, SAVED = 80 };

struct parties {
    struct okv_allowance allowance;
    uint64_t now_ns, evicted, pair_ns;
    unsigned thinning; /* of the last one that reported */
};

/* Something was evicted, and there is time. */
static int setup(void **state)
{
    struct parties *parties = calloc(1, sizeof *parties);

    assert_non_null(parties);
    *parties = (struct parties){.now_ns = PERIOD, .evicted = SAVED, .pair_ns = 1};
    *state = parties;
    return okv_allowance_init(&parties->allowance, PARTIES);
}

static int teardown(void **state)
{
    struct parties *parties = *state;

    okv_allowance_fini(&parties->allowance);
    free(parties);
    return 0;
}

static uint32_t report(struct parties *parties, uint32_t party, uint32_t hits)
{
    const struct okv_allowance_request request = {.party = party,
                                                  .hits = hits,
                                                  .now_ns = parties->now_ns,
                                                  .period_ns = PERIOD,
                                                  .evicted = parties->evicted,
                                                  .pair_ns = parties->pair_ns,
                                                  .saved = SAVED};

    return okv_allowance_take(&parties->allowance, &request, &parties->thinning);
}

static void go_on(struct parties *parties, uint64_t evictions)
{
    parties->now_ns += PERIOD;
    parties->evicted += evictions;
}

#define FIXTURE_TEST(name) TEST_WITH(name, setup, teardown)

FIXTURE_TEST(one_party_has_two_for_each_eviction)
{
    struct parties *parties = *state;

    assert_int_equal(report(parties, 0, SAVED + 10), SAVED + 10);
    assert_int_equal(report(parties, 0, 1000), SAVED - 10);
    assert_int_equal(report(parties, 0, 1000), 0);
    go_on(parties, 7);
    assert_int_equal(report(parties, 0, 1000), 14);
    parties->evicted += 5; /* there was time enough */
    assert_int_equal(report(parties, 0, 1000), 10);
    go_on(parties, 0);
    assert_int_equal(report(parties, 0, 1000), 0);
}

FIXTURE_TEST(half_is_divided_evenly_and_half_is_for_the_first)
{
    struct parties *parties = *state;

    for (unsigned party = 0; party < PARTIES; party++)
        report(parties, party, 1000);
    for (unsigned period = 0; period < 3; period++) {
        go_on(parties, 40);
        assert_int_equal(report(parties, 3, 1000), 40 / PARTIES + 40);
        for (unsigned party = 0; party < 3; party++)
            assert_int_equal(report(parties, party, 1000), 40 / PARTIES);
        assert_int_equal(report(parties, 0, 1), 0);
    }
}

/* However often others report. */
FIXTURE_TEST(small_shares_add_up)
{
    struct parties *parties = *state;
    uint32_t granted = 0;

    for (unsigned party = 0; party < PARTIES; party++)
        report(parties, party, 1000);
    for (unsigned i = 0; i < 2 * PARTIES; i++) {
        parties->evicted++;
        parties->now_ns++;
        granted += report(parties, 0, 1000);
    }
    assert_int_equal(granted, 2 * PARTIES + 2);
    assert_int_equal(report(parties, 1, 1000), 2);
}

FIXTURE_TEST(some_are_kept_for_later)
{
    struct parties *parties = *state;

    report(parties, 0, 1000);
    for (unsigned i = 0; i < 10; i++) {
        go_on(parties, SAVED);
        report(parties, 1, 0);
    }
    assert_int_equal(report(parties, 0, 100000), SAVED + OKV_HITS_MAX);
}

FIXTURE_TEST(there_has_to_be_time)
{
    struct parties *parties = *state;

    report(parties, 0, 1000);
    parties->pair_ns = PERIOD / 4;
    for (unsigned period = 0; period < 3; period++) {
        go_on(parties, 70);
        assert_int_equal(report(parties, 0, 1000), 8);
    }
    go_on(parties, 0);
    assert_int_equal(report(parties, 0, 1000), 8);
    parties->now_ns -= PERIOD; /* another worker's clock */
    parties->evicted--;
    assert_int_equal(report(parties, 0, 1000), 0);
}

FIXTURE_TEST(time_alone_counts_before_the_first_eviction)
{
    struct parties *parties = *state;

    parties->evicted = 0;
    assert_int_equal(report(parties, 0, 1000), 2 * SAVED);
    parties->now_ns += 10;
    assert_int_equal(report(parties, 0, 1000), 20);
}

FIXTURE_TEST(who_is_over_is_told_to_report_less)
{
    struct parties *parties = *state;

    for (unsigned period = 0; period < OKV_HITS_THINNING_MAX + 3; period++) {
        unsigned most = OKV_HITS_THINNING_MAX;
        report(parties, 0, 1000);
        assert_int_equal(parties->thinning, period < most ? period : most);
        assert_int_equal(report(parties, 1, 20), 20);
        assert_int_equal(parties->thinning, 0);
        go_on(parties, SAVED);
    }
}

FIXTURE_TEST(who_reports_little_is_told_to_report_more)
{
    struct parties *parties = *state;
    static const struct {
        uint32_t hits;
        unsigned thinning;
    } periods[] = {{1000, 0}, {1000, 1}, {320, 2}, {50, 2}, {20, 2}, {20, 1}, {20, 0}};

    for (unsigned i = 0; i < sizeof periods / sizeof *periods; i++) {
        report(parties, 2, periods[i].hits);
        assert_int_equal(parties->thinning, periods[i].thinning);
        go_on(parties, SAVED);
    }
}
