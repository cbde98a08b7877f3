/*
 * Rings of the local transport in which a client may make holes.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/pace.h"
#include "tests/support/transport_steps.h"

static const struct okv_message_limits limits = {64, 1};

/* Counts the unmapping of memory of this size, once armed. */
static struct {
    atomic_size_t size;
    pthread_t tester;
    atomic_uint here, apart;
} watch;

int __real_munmap(void *memory, size_t size);
int __wrap_munmap(void *memory, size_t size);

int __wrap_munmap(void *memory, size_t size)
{
    if (size == atomic_load(&watch.size))
        atomic_fetch_add(pthread_equal(pthread_self(), watch.tester) ? &watch.here : &watch.apart,
                         1);
    return __real_munmap(memory, size);
}

struct meeting {
    struct steps steps;
    struct bare_client client;
    struct okv_conn *conn;
    int rings; /* the client's descriptor, not mapped */
};

static void meet(struct meeting *meeting, void **state)
{
    struct okv_request *request;
    struct okv_event event;
    uint8_t byte;

    steps_start(&meeting->steps, *state, &limits);
    const struct okv_accept accept = {.endpoint = meeting->steps.endpoint};
    bare_connect(&meeting->client, meeting->steps.listener->where + strlen("local://"));
    bare_hello(&meeting->client, NULL, 0);
    assert_int_equal(meeting->steps.ops->next_request(meeting->steps.listener, &request), 1);
    assert_int_equal(meeting->steps.ops->accept(request, &accept), 0);
    assert_int_equal(bare_take_answer(&meeting->client, &byte, 1, &meeting->rings), 0);
    assert_int_equal(meeting->steps.ops->poll(meeting->steps.endpoint, &event, 1), 1);
    assert_int_equal(event.type, OKV_EVENT_OPENED);
    meeting->conn = event.conn;
}

static size_t size_of_rings(const struct meeting *meeting)
{
    struct stat file;

    assert_int_equal(fstat(meeting->rings, &file), 0);
    return (size_t)file.st_size;
}

static void part(struct meeting *meeting)
{
    struct okv_event event;

    bare_close(&meeting->client);
    close(meeting->rings);
    watch.tester = pthread_self();
    meeting->steps.ops->close(meeting->conn);
    assert_int_equal(meeting->steps.ops->poll(meeting->steps.endpoint, &event, 1), 1);
    assert_int_equal(event.type, OKV_EVENT_CLOSED);
    meeting->steps.ops->conn_destroy(meeting->conn);
}

/* To unmap them waits for whoever makes a hole in them. */
TEST(rings_without_a_seal_are_unmapped_apart)
{
    uint64_t end = pace_guard_end();
    struct meeting meeting;

    meet(&meeting, state);
    atomic_store(&watch.size, size_of_rings(&meeting));
    part(&meeting);
    while (atomic_load(&watch.apart) == 0 && okv_clock_ns() < end)
        poll(NULL, 0, 1);
    assert_int_equal(watch.apart, 1);
    assert_int_equal(watch.here, 0);
    atomic_store(&watch.size, 0);
    steps_stop(&meeting.steps);
}

/* A page that the kernel cannot provide later would kill the server. */
TEST(holes_from_before_the_seal)
{
    struct meeting meeting;
    struct okv_event event;

    meet(&meeting, state);
    size_t size = size_of_rings(&meeting);
    assert_int_equal(fallocate(meeting.rings, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                               OKV_LOCAL_RING_BYTES, (off_t)(size - OKV_LOCAL_RING_BYTES)),
                     0);
    assert_int_equal(okv_local_ring_map(meeting.rings, &meeting.client.ring), 0);
    bare_bell(&meeting.client);
    assert_int_equal(meeting.steps.ops->poll(meeting.steps.endpoint, &event, 1), 1);
    assert_int_equal(event.type, OKV_EVENT_CLOSED);
    meeting.steps.ops->conn_destroy(meeting.conn);
    bare_close(&meeting.client);
    close(meeting.rings);
    steps_stop(&meeting.steps);
}

TEST_PROGRAM(fixture_setup_local, fixture_teardown)
