/* What is asked for has the proportions of the mix and, in an open loop, the times of its rate;
 * numbers of inserts are handed out once, and counted on when they have ended. */
#include <math.h>
#include <pthread.h>
#include <sched.h>

#include "tests/support/test.h"

#include "bench/load/schedule.h"

#define DRAWS 1000000
#define RECORDS 1000
#define START UINT64_C(7000000000)

static void assert_near(double got, double wanted, double share)
{
    if (got < wanted * (1 - share) || got > wanted * (1 + share))
        fail_msg("%g is not within %g %% of %g", got, share * 100, wanted);
}

struct fixture {
    struct workload_chooser chooser;
    struct inserts inserts;
    struct schedule_plan plan;
    struct schedule schedule;
};

static struct fixture *fixture_create(enum workload_distribution distribution,
                                      const double mix[OPERATION_MIXED_COUNT])
{
    struct workload_choice choice = {
        .distribution = distribution, .records = RECORDS, .theta = 0.99};
    struct fixture *fixture = calloc(1, sizeof *fixture);

    assert_non_null(fixture);
    workload_chooser_init(&fixture->chooser, &choice);
    inserts_init(&fixture->inserts, RECORDS);
    fixture->plan.chooser = &fixture->chooser;
    fixture->plan.inserts = mix[OPERATION_INSERT] > 0 ? &fixture->inserts : NULL;
    schedule_plan_mix(&fixture->plan, mix);
    fixture->schedule.plan = &fixture->plan;
    fixture->schedule.random.state = 1;
    return fixture;
}

/* ---- the mix ------------------------------------------------------------ */

TEST(operations_have_their_shares)
{
    static const double mixes[][OPERATION_MIXED_COUNT] = {
        {[OPERATION_GET] = 95, [OPERATION_PUT] = 5},
        {[OPERATION_GET] = 50, [OPERATION_RMW] = 50},
        {[OPERATION_PUT] = 100},
        {[OPERATION_INCR] = 100},
        {[OPERATION_GET] = 40,
         [OPERATION_PUT] = 20,
         [OPERATION_DELETE] = 17.5,
         [OPERATION_RMW] = 10,
         [OPERATION_CAS] = 2.5,
         [OPERATION_INCR] = 10},
    };

    for (size_t i = 0; i < sizeof mixes / sizeof *mixes; i++) {
        struct fixture *fixture = fixture_create(WORKLOAD_UNIFORM, mixes[i]);
        uint64_t counts[OPERATION_COUNT] = {0};
        struct loop_order order;

        schedule_begin(&fixture->schedule, DRAWS, START, 0, 0);
        while (schedule_next(&fixture->schedule, &order)) {
            counts[order.operation]++;
            assert_true(order.record < RECORDS);
            assert_int_equal(order.due_ns, 0);
        }
        assert_true(fixture->schedule.over);
        for (int operation = 0; operation < OPERATION_MIXED_COUNT; operation++)
            assert_near((double)counts[operation], DRAWS * mixes[i][operation] / 100, 0.02);
        free(fixture);
    }
}

TEST(records_are_inserted_one_after_the_other)
{
    static const double mix[OPERATION_MIXED_COUNT] = {
        [OPERATION_GET] = 90, [OPERATION_INSERT] = 10};
    struct fixture *fixture = fixture_create(WORKLOAD_LATEST, mix);
    struct loop_order order;
    uint64_t next = RECORDS;
    uint64_t reached = 0;

    schedule_begin(&fixture->schedule, 100000, START, 0, 0);
    while (schedule_next(&fixture->schedule, &order)) {
        if (order.operation == OPERATION_INSERT) {
            assert_int_equal(order.record, next++);
            inserts_end(&fixture->inserts, order.record);
        } else {
            assert_true(order.record < next);
            reached = order.record > reached ? order.record : reached;
        }
    }
    assert_near((double)(next - RECORDS), 10000, 0.05);
    assert_true(reached > next - 10); /* the newest are the most popular */
    free(fixture);
}

/* What was handed out and has not ended is not asked for. */
TEST(unfinished_inserts_are_not_read)
{
    static const double mix[OPERATION_MIXED_COUNT] = {
        [OPERATION_GET] = 50, [OPERATION_INSERT] = 50};
    struct fixture *fixture = fixture_create(WORKLOAD_LATEST, mix);
    struct loop_order order;
    uint64_t first = 0;
    uint64_t puts = 0;

    schedule_begin(&fixture->schedule, 3 * INSERTS_WINDOW, START, 0, 0);
    while (schedule_next(&fixture->schedule, &order)) {
        if (order.operation == OPERATION_INSERT)
            first = first == 0 ? order.record : first;
        else
            assert_true(order.record < RECORDS);
        puts += order.operation == OPERATION_PUT;
    }
    assert_int_equal(first, RECORDS);
    /* The window is full: what should have been inserts are puts of what is there. */
    assert_near((double)puts, INSERTS_WINDOW / 2.0, 0.05);
    free(fixture);
}

/* ---- the schedule ------------------------------------------------------- */

static const double gets[OPERATION_MIXED_COUNT] = {[OPERATION_GET] = 100};

TEST(even_orders_are_due_at_one_distance)
{
    struct fixture *fixture = fixture_create(WORKLOAD_UNIFORM, gets);
    struct loop_order order;

    fixture->plan.distance_ns = 1000.5;
    fixture->plan.even = true;
    schedule_begin(&fixture->schedule, UINT64_MAX, START, START + 1000000, 0.5);
    for (uint64_t i = 0; i < 999; i++) {
        assert_true(schedule_next(&fixture->schedule, &order));
        assert_int_equal(order.due_ns, START + (uint64_t)(1000.5 * ((double)i + 0.5)));
    }
    assert_true(schedule_next(&fixture->schedule, &order));
    assert_false(schedule_next(&fixture->schedule, &order)); /* due after the end */
    assert_true(fixture->schedule.over);
    free(fixture);
}

/* Distances are exponential: their mean is the rate's, their deviation as large, and a share of
 * 1/e of them is longer than the mean. */
TEST(poisson_orders_have_the_rate)
{
    struct fixture *fixture = fixture_create(WORKLOAD_UNIFORM, gets);
    struct loop_order order;
    double sum = 0;
    double squares = 0;
    uint64_t longer = 0;
    uint64_t before = START;

    fixture->plan.distance_ns = 1000000;
    schedule_begin(&fixture->schedule, DRAWS, START, 0, 0);
    while (schedule_next(&fixture->schedule, &order)) {
        assert_true(order.due_ns >= before);
        double distance = (double)(order.due_ns - before);
        sum += distance;
        squares += distance * distance;
        longer += distance > 1e6;
        before = order.due_ns;
    }
    double mean = sum / DRAWS;
    assert_near(mean, 1e6, 0.01);
    assert_near(sqrt(squares / DRAWS - mean * mean), 1e6, 0.01);
    assert_near((double)longer, DRAWS / exp(1), 0.01);
    free(fixture);
}

TEST(a_schedule_ends_with_its_operations)
{
    struct fixture *fixture = fixture_create(WORKLOAD_UNIFORM, gets);
    struct loop_order order;
    int count = 0;

    fixture->plan.distance_ns = 1000;
    schedule_begin(&fixture->schedule, 10, START, 0, 0);
    while (schedule_next(&fixture->schedule, &order))
        count++;
    assert_int_equal(count, 10);
    schedule_begin(&fixture->schedule, 10, START, START + 1, 0);
    assert_false(fixture->schedule.over);
    free(fixture);
}

TEST(orders_not_begun_are_counted)
{
    struct fixture *fixture = fixture_create(WORKLOAD_UNIFORM, gets);
    struct loop_order order;

    fixture->plan.distance_ns = 1000;
    fixture->plan.even = true;
    schedule_begin(&fixture->schedule, UINT64_MAX, START, START + 100000, 0.5);
    assert_int_equal(schedule_left(&fixture->schedule), 100);
    for (int i = 99; i >= 0; i--) {
        assert_true(schedule_next(&fixture->schedule, &order));
        assert_int_equal(schedule_left(&fixture->schedule), i);
    }
    schedule_begin(&fixture->schedule, 7, START, START + 100000, 0.5);
    assert_int_equal(schedule_left(&fixture->schedule), 7); /* nobody asks for more */

    fixture->plan.even = false;
    schedule_begin(&fixture->schedule, UINT64_MAX, START, START + UINT64_C(1000) * DRAWS, 0);
    assert_near((double)schedule_left(&fixture->schedule), DRAWS, 0.01);
    while (schedule_next(&fixture->schedule, &order))
        continue;
    assert_int_equal(schedule_left(&fixture->schedule), 0);

    schedule_begin(&fixture->schedule, 10, START, 0, 0); /* without an end all are asked for */
    assert_int_equal(schedule_left(&fixture->schedule), 0);
    fixture->plan.distance_ns = 0; /* nothing is due in a closed loop */
    schedule_begin(&fixture->schedule, 10, START, START + 100000, 0);
    assert_int_equal(schedule_left(&fixture->schedule), 0);
    free(fixture);
}

/* ---- inserts ------------------------------------------------------------ */

TEST(inserts_are_counted_on_in_their_order)
{
    struct inserts *inserts = calloc(1, sizeof *inserts);
    uint64_t numbers[5];

    assert_non_null(inserts);
    inserts_init(inserts, 0);
    for (uint64_t i = 0; i < 5; i++) {
        assert_true(inserts_take(inserts, &numbers[i]));
        assert_int_equal(numbers[i], i);
    }
    inserts_end(inserts, 1);
    inserts_end(inserts, 3);
    assert_int_equal(inserts_visible(inserts), 0);
    inserts_end(inserts, 0);
    assert_int_equal(inserts_visible(inserts), 2);
    inserts_end(inserts, 2);
    assert_int_equal(inserts_visible(inserts), 4);
    inserts_end(inserts, 4);
    assert_int_equal(inserts_visible(inserts), 5);
    free(inserts);
}

TEST(a_window_of_inserts_can_be_full)
{
    struct inserts *inserts = calloc(1, sizeof *inserts);
    uint64_t number;

    assert_non_null(inserts);
    inserts_init(inserts, 100);
    for (uint32_t i = 0; i < INSERTS_WINDOW; i++)
        assert_true(inserts_take(inserts, &number));
    assert_false(inserts_take(inserts, &number));
    for (uint64_t i = 101; i < 100 + INSERTS_WINDOW; i++)
        inserts_end(inserts, i);
    assert_false(inserts_take(inserts, &number));
    inserts_end(inserts, 100);
    assert_int_equal(inserts_visible(inserts), 100 + INSERTS_WINDOW);
    assert_true(inserts_take(inserts, &number));
    assert_int_equal(number, 100 + INSERTS_WINDOW);
    free(inserts);
}

#define THREADS 4
#define TAKES 200000

static void *take_and_end(void *user)
{
    struct inserts *inserts = user;
    uint64_t number;
    uint64_t before = 0;

    for (int i = 0; i < TAKES; i++) {
        /* Full when another thread lost its processor between the two. */
        while (!inserts_take(inserts, &number))
            sched_yield();
        inserts_end(inserts, number);
        uint64_t there = inserts_visible(inserts);
        if (there < before)
            return user;
        before = there;
    }
    return NULL;
}

TEST(threads_share_inserts)
{
    struct inserts *inserts = calloc(1, sizeof *inserts);
    pthread_t threads[THREADS];

    assert_non_null(inserts);
    inserts_init(inserts, 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_end, inserts), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failure;
        pthread_join(threads[i], &failure);
        assert_null(failure);
    }
    assert_int_equal(inserts_visible(inserts), THREADS * TAKES);
    free(inserts);
}
