/* What is counted of the epochs of a copy. */
#include "server/copies/elections.h"

#include "tests/support/test.h"

enum { SELF = 1, OTHER = 2 };

static struct okv_copy copy;
static struct okv_protocol *const protocol = &copy.protocol;

/* It follows the other one in epoch 1. */
static int begin(void **state)
{
    (void)state;
    memset(&copy, 0, sizeof copy);
    protocol->self.server = SELF;
    protocol->role = OKV_ROLE_COPY;
    protocol->epoch = 1;
    protocol->leader = protocol->key.primary.server = OTHER;
    okv_elections_note(&copy);
    return 0;
}

#define ELECTIONS_TEST(name) TEST_WITH(name, begin, NULL)

static void take_over(void)
{
    protocol->is_suspecting = true;
    okv_elections_note(&copy);
    protocol->role = OKV_ROLE_CANDIDATE;
    protocol->is_suspecting = false;
    okv_elections_note(&copy);
    protocol->role = OKV_ROLE_PRIMARY;
    protocol->key.primary.server = SELF;
    protocol->epoch++;
    okv_elections_note(&copy);
}

static void expect(unsigned suspected, unsigned took_over, unsigned deposed)
{
    assert_int_equal(copy.elections.suspected, suspected);
    assert_int_equal(copy.elections.took_over, took_over);
    assert_int_equal(copy.elections.deposed, deposed);
}

ELECTIONS_TEST(a_silent_primary)
{
    take_over();
    expect(1, 1, 0);
    assert_int_equal(copy.elections.predecessor, OTHER);
}

ELECTIONS_TEST(a_primary_that_handed_over)
{
    protocol->released = protocol->epoch;
    take_over();
    expect(0, 0, 0);
    assert_int_equal(copy.elections.predecessor, OTHER);
}

ELECTIONS_TEST(the_next_epoch_of_ones_own)
{
    protocol->key.primary.server = SELF;
    protocol->leader = 0;
    okv_elections_note(&copy);
    take_over();
    expect(0, 0, 0);
}

ELECTIONS_TEST(another_one_took_over)
{
    take_over();
    protocol->role = OKV_ROLE_COPY;
    protocol->epoch++;
    okv_elections_note(&copy);
    expect(1, 1, 1);
}

ELECTIONS_TEST(another_one_was_handed_the_lead)
{
    take_over();
    protocol->role = OKV_ROLE_COPY;
    okv_elections_note(&copy);
    protocol->epoch++;
    okv_elections_note(&copy);
    expect(1, 1, 0);
}
