/* Many gets in one call, over a stub transport: how many are under way at a time, and commands
 * among them that are unlike the others. */
#include <time.h>

#include "tests/support/test.h"

#include "tests/support/stub_gets.h"

#define LENGTH_OF(array) (sizeof(array) / sizeof *(array))

/* ---- many at a time ---- */

static unsigned most_reads;

static void note_reads_under_way(unsigned n)
{
    (void)n;
    if (stub.reads_under_way > most_reads)
        most_reads = stub.reads_under_way;
}

ON_GET_MANY(no_more_than_the_depth_are_under_way)
{
    gets_open(5);
    most_reads = 0;
    gets_before_read = note_reads_under_way;
    gets_assert_all(GETS, GETS);
    assert_int_equal(most_reads, 5);
    assert_int_equal(stub.posts, 3); /* of 5, 5 and 2 */
}

ON_SUBMIT(no_more_than_the_depth_are_accepted)
{
    size_t accepted = 0;

    gets_open(5);
    assert_int_equal(okv_submit(handle, gets_commands, GETS, &accepted), OKV_EAGAIN);
    assert_int_equal(accepted, 5);
    assert_int_equal(okv_pending(handle), 5);
    assert_int_equal(gets_on_fast_path(), 5);
    gets_collect(5);
    for (unsigned n = 0; n < 5; n++)
        gets_assert_value(n, gets_keys[n]);
    gets_assert_idle();
}

/* What there is no room for waits, on the general path. */
ON_BATCHES(no_more_reads_than_there_is_room_for)
{
    stub.max_reads = 3;
    gets_open(GETS);
    most_reads = 0;
    gets_before_read = note_reads_under_way;
    gets_assert_all(GETS, 3);
    assert_int_equal(most_reads, 3);
}

/* A get that goes on with its extent is one of those that are under way. */
ON_GET_MANY(extent_is_read_beside_later_gets)
{
    gets_open(4);
    struct okv_entry entry = stub_reference(gets_keys[GETS_ODD], "in an extent", GETS_EXTENT);
    gets_write_odd(&entry);
    most_reads = 0;
    gets_before_read = note_reads_under_way;
    assert_int_equal(gets_run(), OKV_OK);
    gets_assert_others();
    gets_assert_value(GETS_ODD, "in an extent");
    assert_int_equal(stub.reads, GETS + 1);
    assert_int_equal(gets_fast, GETS);
    assert_int_equal(most_reads, 4);
}

static void pass_time(unsigned n)
{
    struct timespec time = {.tv_nsec = SHORT_MS * 1000000L};

    (void)n;
    nanosleep(&time, NULL);
}

/* One whose READ came has its value, however late. */
ON_GET_MANY(late_get_times_out_without_a_read)
{
    gets_open(4);
    for (unsigned n = 0; n < GETS; n++)
        gets_commands[n].timeout_ms = n == GETS_ODD ? 0 : SHORT_MS;
    gets_before_read = pass_time;
    assert_int_equal(gets_run(), OKV_OK);
    for (unsigned n = 0; n < GETS; n++)
        if (n < 4 || n == GETS_ODD)
            gets_assert_value(n, gets_keys[n]);
        else
            gets_assert_status(n, OKV_ETIMEDOUT);
    assert_int_equal(stub.reads, 5);
    assert_int_equal(gets_counters().timeouts, 7);
    assert_int_equal(handle->operations_begun, 5);
    gets_assert_idle();
}

/* ---- commands that are unlike the others ---- */

ON_BATCHES(head_goes_out_with_the_gets)
{
    gets_open(GETS);
    gets_commands[GETS_ODD].kind = OKV_HEAD;
    gets_commands[GETS_ODD].buffer = NULL;
    gets_commands[GETS_ODD].buffer_size = 0;
    assert_int_equal(gets_run(), OKV_OK);
    gets_assert_others();
    assert_int_equal(gets_results[GETS_ODD].status, OKV_OK);
    assert_int_equal(gets_results[GETS_ODD].length, strlen(gets_keys[GETS_ODD]));
    assert_int_equal(gets_fast, GETS - 1);
    assert_int_equal(stub.reads, GETS);
    assert_int_equal(stub.posts, 1);
    gets_assert_idle();
}

static void spoil_four_commands(void)
{
    gets_commands[1].key_length = 0;
    gets_commands[2].key = NULL;
    gets_commands[3].reserved[2] = 1;
    gets_commands[4].buffer = NULL;
}

static const int spoilt[] = {OKV_EKEYSIZE, OKV_EINVAL, OKV_EINVAL, OKV_EINVAL};

ON_GET_MANY(wrong_commands_have_their_own_results)
{
    gets_open(GETS);
    spoil_four_commands();
    assert_int_equal(gets_run(), OKV_OK);
    for (unsigned n = 0; n < GETS; n++)
        if (n - 1 < LENGTH_OF(spoilt))
            gets_assert_status(n, spoilt[n - 1]);
        else
            gets_assert_value(n, gets_keys[n]);
    assert_int_equal(handle->operations_begun, GETS - 4);
    assert_int_equal(stub.reads, GETS - 4);
    assert_int_equal(stub.posts, 1);
    gets_assert_idle();
}

ON_SUBMIT(wrong_commands_are_refused)
{
    size_t accepted = 0;

    gets_open(GETS);
    spoil_four_commands();
    assert_int_equal(okv_submit(handle, gets_commands, GETS, &accepted), OKV_EKEYSIZE);
    assert_int_equal(accepted, 1);
    for (unsigned n = 2; n <= LENGTH_OF(spoilt); n++) {
        assert_int_equal(okv_submit(handle, gets_commands + n, 2, &accepted), spoilt[n - 1]);
        assert_int_equal(accepted, 0);
    }
    assert_int_equal(okv_submit(handle, gets_commands + 5, 1, &accepted), OKV_OK);
    gets_collect(2);
    gets_assert_idle();
}

/* ---- beside other calls ---- */

ON_SUBMIT(blocking_gets_go_beside_submitted_ones)
{
    char value[32];

    gets_open(GETS + 1);
    stub.delay = 10;
    gets_submit();
    assert_int_equal(gets_fast_submitted, GETS);
    assert_int_equal(okv_call_many(handle, gets_commands, gets_results, 1), OKV_EAGAIN);
    assert_int_equal(
        okv_get(handle, gets_keys[1], strlen(gets_keys[1]), value, sizeof value, &length, NULL),
        OKV_OK);
    assert_int_equal(length, strlen(gets_keys[1]));
    assert_memory_equal(value, gets_keys[1], length);
    gets_collect(GETS);
    gets_assert_values();
    gets_assert_idle();
    gets_entry = GETS_MANY; /* in the same slots */
    gets_assert_all(GETS, GETS);
    gets_entry = GETS_ONE;
    gets_assert_all(GETS, GETS);
}
