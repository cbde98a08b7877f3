/* Orders of administrators, until the cluster's thread takes them. */
#include "server/copies/orders.h"

#include "shared/base/error.h"
#include "tests/support/test.h"

static struct okv_copies *copies;

static int begin(void **state)
{
    (void)state;
    copies = calloc(1, sizeof *copies);
    assert_non_null(copies);
    pthread_mutex_init(&copies->lock, NULL);
    STAILQ_INIT(&copies->orders);
    copies->log_fd = -1;
    return 0;
}

static int end(void **state)
{
    (void)state;
    okv_orders_end(copies);
    pthread_mutex_destroy(&copies->lock);
    free(copies);
    return 0;
}

TEST_WITH(those_that_wait_are_bounded, begin, end)
{
    uint64_t number = 0;

    for (unsigned i = 1; i <= OKV_COPIES_RESULTS; i++) {
        assert_int_equal(okv_copies_order(copies, "set copies=2", &number), 0);
        assert_int_equal(number, i);
    }
    assert_int_equal(okv_copies_order(copies, "set copies=2", &number), OKV_ENOMEM);
    okv_orders_end(copies);
    assert_int_equal(okv_copies_order(copies, "set copies=3", &number), 0);
    assert_int_equal(number, OKV_COPIES_RESULTS + 1);
}
