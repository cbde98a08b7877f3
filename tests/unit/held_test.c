/* What a server holds is the mean since it was full. */
#include "tests/support/test.h"
#include <math.h>

#include "bench/load/held.h"

static struct held held_of(const double *samples, size_t count)
{
    struct held held = {0};

    for (size_t i = 0; i < count; i++)
        held_add(&held, samples[i]);
    return held;
}

#define HELD_OF(...) \
    held_of((double[]){__VA_ARGS__}, sizeof(double[]){__VA_ARGS__} / sizeof(double))

static void assert_held(struct held held, double mean, double most)
{
    assert_true(fabs(held_mean(&held) - mean) < 1e-9);
    assert_true(held.most == most);
}

TEST(samples_from_before_it_was_full_do_not_count)
{
    assert_held(HELD_OF(0, 10, 50, 90, 96, 100, 98), 98, 100);
    assert_held(HELD_OF(100), 100, 100);
    assert_held(HELD_OF(0, 0), 0, 0);
}

TEST(what_it_loses_later_counts)
{
    assert_held(HELD_OF(50, 100, 80, 60), 80, 100);
}

TEST(no_sample_is_no_mean)
{
    struct held held = HELD_OF(NAN, NAN);

    assert_true(isnan(held_mean(&held)));
    assert_held(HELD_OF(NAN, 7, NAN), 7, 7);
}
