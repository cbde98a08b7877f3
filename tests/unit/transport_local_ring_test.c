/* The rings of the local transport: both ends in one memory, and a peer that writes anything. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/error.h"
#include "shared/transport/local/ring.h"
#include "tests/support/pace.h"
#include "tests/support/random.h"
#include "tests/support/sanitized.h"

#define CAPACITY OKV_LOCAL_RING_MIN
#define SIZE (OKV_LOCAL_RING_BYTES + 2 * CAPACITY)
#define LONGEST (CAPACITY - OKV_LOCAL_RING_RECORD)
#define GUARD_S (PACE_GUARD_MS / 1000)

/* Two ends of one memory, which a sanitizer knows the bounds of. */
struct pair {
    void *memory;
    struct okv_local_ring client, server;
};

/* As after `position` bytes in both directions. */
static void pair_start(struct pair *pair, uint32_t position)
{
    pair->memory = aligned_alloc(64, SIZE);
    assert_non_null(pair->memory);
    memset(pair->memory, 0, SIZE);
    okv_local_ring_attach(&pair->client, pair->memory, CAPACITY, true);
    okv_local_ring_attach(&pair->server, pair->memory, CAPACITY, false);
    struct okv_local_ring *ends[2] = {&pair->client, &pair->server};
    for (unsigned i = 0; i < 2; i++) {
        struct okv_local_ring *ring = ends[i];
        atomic_store(&ring->own->published, position);
        atomic_store(&ring->own->taken, position);
        ring->written = ring->published = ring->peer_taken = position;
        ring->taken = ring->told = ring->available = position;
    }
}

static void pair_end(struct pair *pair)
{
    free(pair->memory);
}

static void fill(uint8_t *bytes, uint32_t length, uint32_t number)
{
    for (uint32_t i = 0; i < length; i++)
        bytes[i] = (uint8_t)(random_mix(number) + i * 7);
}

static void put(struct okv_local_ring *ring, uint32_t length, uint32_t number)
{
    static uint8_t bytes[LONGEST];

    fill(bytes, length, number);
    assert_int_equal(okv_local_ring_put(ring, bytes, length, number), 0);
}

static void expect(struct okv_local_ring *ring, uint32_t length, uint32_t number)
{
    static uint8_t bytes[LONGEST], wanted[LONGEST];
    uint32_t got, immediate;

    assert_int_equal(okv_local_ring_take(ring, bytes, sizeof bytes, &got, &immediate), 1);
    assert_int_equal(got, length);
    assert_int_equal(immediate, number);
    fill(wanted, length, number);
    assert_memory_equal(bytes, wanted, length);
}

static void expect_nothing(struct okv_local_ring *ring)
{
    uint8_t byte;
    uint32_t length, immediate;

    assert_int_equal(okv_local_ring_take(ring, &byte, 1, &length, &immediate), 0);
}

/* ---- two honest peers ---- */

TEST(messages_of_any_length_go_round)
{
    static const uint32_t positions[] = {0, 8, UINT32_MAX - 7, UINT32_MAX - 2047, 1u << 31};
    struct pair pair;

    for (unsigned p = 0; p < sizeof positions / sizeof positions[0]; p++) {
        uint64_t random = p;
        pair_start(&pair, positions[p]);
        for (uint32_t number = 0; number < 3000; number++) {
            uint32_t length = (uint32_t)random_below(&random, number % 3 ? 64 : LONGEST + 1);
            struct okv_local_ring *from = number & 1 ? &pair.client : &pair.server;
            struct okv_local_ring *to = number & 1 ? &pair.server : &pair.client;
            put(from, length, number);
            okv_local_ring_publish(from);
            expect(to, length, number);
            expect_nothing(to);
            okv_local_ring_release(to);
        }
        pair_end(&pair);
    }
}

TEST(what_is_not_published_is_not_there)
{
    struct pair pair;

    pair_start(&pair, 0);
    put(&pair.client, 10, 1);
    put(&pair.client, 0, 2);
    expect_nothing(&pair.server);
    okv_local_ring_publish(&pair.client);
    expect(&pair.server, 10, 1);
    put(&pair.client, 5, 3);
    expect(&pair.server, 0, 2);
    expect_nothing(&pair.server);
    expect_nothing(&pair.client); /* the other direction */
    pair_end(&pair);
}

TEST(a_full_ring_takes_no_more)
{
    enum { EACH = 56, COUNT = CAPACITY / (EACH + OKV_LOCAL_RING_RECORD) };
    struct pair pair;
    uint8_t bytes[EACH] = {0};

    pair_start(&pair, UINT32_MAX - 63);
    for (uint32_t i = 0; i < COUNT; i++)
        put(&pair.client, EACH, i);
    okv_local_ring_publish(&pair.client);
    for (uint32_t i = 0; i < 3 * COUNT; i++) {
        assert_int_equal(okv_local_ring_put(&pair.client, bytes, 0, 9), OKV_EAGAIN);
        expect(&pair.server, EACH, i);
        assert_int_equal(okv_local_ring_put(&pair.client, bytes, 0, 9), OKV_EAGAIN);
        assert_true(okv_local_ring_release(&pair.server)); /* somebody waits for it */
        assert_false(okv_local_ring_release(&pair.server));
        put(&pair.client, EACH, COUNT + i);
        okv_local_ring_publish(&pair.client);
    }
    /* nobody waited */
    expect(&pair.server, EACH, 3 * COUNT);
    assert_false(okv_local_ring_release(&pair.server));
    pair_end(&pair);
}

TEST(who_sleeps_is_woken_once)
{
    struct pair pair;

    pair_start(&pair, 0);
    assert_false(okv_local_ring_publish(&pair.client)); /* of nothing */
    put(&pair.client, 1, 1);
    assert_false(okv_local_ring_publish(&pair.client)); /* to one that is awake */
    assert_false(okv_local_ring_wait(&pair.server));    /* there is something */
    expect(&pair.server, 1, 1);
    assert_true(okv_local_ring_wait(&pair.server));
    assert_true(okv_local_ring_wait(&pair.server));
    assert_false(okv_local_ring_publish(&pair.client));
    put(&pair.client, 1, 2);
    assert_true(okv_local_ring_publish(&pair.client));
    put(&pair.client, 1, 3);
    assert_false(okv_local_ring_publish(&pair.client));
    expect(&pair.server, 1, 2);
    expect(&pair.server, 1, 3);

    assert_true(okv_local_ring_wait(&pair.server));
    okv_local_ring_stop_waiting(&pair.server);
    put(&pair.client, 1, 4);
    assert_false(okv_local_ring_publish(&pair.client));
    pair_end(&pair);
}

TEST(what_was_published_before_the_end_is_all)
{
    struct pair pair;

    pair_start(&pair, 0);
    put(&pair.client, 100, 1);
    put(&pair.client, 100, 2);
    okv_local_ring_publish(&pair.client);
    okv_local_ring_end(&pair.server);
    put(&pair.client, 100, 3);
    okv_local_ring_publish(&pair.client);
    expect(&pair.server, 100, 1);
    expect(&pair.server, 100, 2);
    expect_nothing(&pair.server);
    pair_end(&pair);
}

/* ---- the memory ---- */

TEST(the_memory_is_sealed_and_there)
{
    static const uint32_t slots[] = {1, 2040, 2041, 9248, 1u << 20, OKV_LOCAL_RING_SLOT_MAX};

    for (unsigned i = 0; i < sizeof slots / sizeof slots[0]; i++) {
        struct okv_local_ring server, client;
        struct stat file;
        int fd;
        assert_int_equal(okv_local_ring_create(slots[i], &server, &fd), 0);
        assert_int_equal(server.capacity & (server.capacity - 1), 0);
        assert_true(server.capacity - OKV_LOCAL_RING_RECORD >= slots[i]);
        assert_int_equal(fstat(fd, &file), 0);
        off_t mapped = OKV_LOCAL_RING_BYTES + 2 * (off_t)server.capacity;
        assert_int_equal(file.st_blocks * 512, mapped);
        assert_int_equal(file.st_size, mapped);
        assert_int_equal(ftruncate(fd, 4096), -1);
        assert_int_equal(ftruncate(fd, file.st_size + 4096), -1);
        assert_false(okv_local_ring_has_no_holes(fd));
        assert_int_equal(okv_local_ring_map(fd, &client), 0);
        assert_true(okv_local_ring_has_no_holes(fd));
        assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, mapped), -1);
        assert_int_equal(madvise(client.page, (size_t)mapped, MADV_REMOVE), -1);
        assert_int_equal(okv_local_ring_map(fd, &client), OKV_EPROTO); /* a second one */
        close(fd);
        put(&client, slots[i] < LONGEST ? slots[i] : LONGEST, i);
        okv_local_ring_publish(&client);
        expect(&server, slots[i] < LONGEST ? slots[i] : LONGEST, i);
        okv_local_ring_unmap(&client);
        okv_local_ring_unmap(&server);
        okv_local_ring_unmap(&server);
    }
    struct okv_local_ring ring;
    int fd;
    assert_int_equal(okv_local_ring_create(OKV_LOCAL_RING_SLOT_MAX + 1, &ring, &fd),
                     OKV_EUNSUPPORTED);
    assert_int_equal(okv_local_ring_create(UINT32_MAX, &ring, &fd), OKV_EUNSUPPORTED);
}

TEST(values_have_their_size)
{
    struct stat file;
    int fd;

    assert_int_equal(okv_local_values_create(&fd), 0);
    assert_int_equal(okv_local_values_check(fd), 0);
    assert_int_equal(fstat(fd, &file), 0);
    assert_int_equal(file.st_size, OKV_LOCAL_VALUES_BYTES);
    assert_int_equal(file.st_blocks, 0);
    assert_int_equal(ftruncate(fd, 4096), -1);
    assert_int_equal(ftruncate(fd, file.st_size + 4096), -1);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), -1);
    close(fd);
}

/* ---- a hostile peer ---- */

static void expect_lie(struct okv_local_ring *ring, uint32_t size)
{
    static uint8_t bytes[LONGEST];
    uint32_t length, immediate;

    assert_int_equal(okv_local_ring_take(ring, bytes, size, &length, &immediate), OKV_EPROTO);
}

TEST(positions_that_make_no_sense)
{
    static const uint32_t lies[] = {
        1, 4, 7, CAPACITY + 8, CAPACITY + 1, 1u << 31, UINT32_MAX, UINT32_MAX - 7, 0x7ffffff8u};
    static const uint32_t starts[] = {0, UINT32_MAX - 7, 4096};
    struct pair pair;
    uint8_t bytes[CAPACITY] = {0};

    for (unsigned k = 0; k < sizeof starts / sizeof starts[0]; k++) {
        for (unsigned i = 0; i < sizeof lies / sizeof lies[0]; i++) {
            pair_start(&pair, starts[k]);
            atomic_store(&pair.client.own->published, starts[k] + lies[i]);
            assert_false(okv_local_ring_wait(&pair.server)); /* it does not sleep on it */
            expect_lie(&pair.server, LONGEST);
            okv_local_ring_end(&pair.server);
            expect_nothing(&pair.server);
            pair_end(&pair);

            /* its `taken` is read when room is short */
            pair_start(&pair, starts[k]);
            assert_int_equal(okv_local_ring_put(&pair.server, bytes, LONGEST, 1), 0);
            okv_local_ring_publish(&pair.server);
            atomic_store(&pair.client.own->taken, starts[k] + CAPACITY + lies[i]);
            int status = okv_local_ring_put(&pair.server, bytes, LONGEST, 2);
            bool may_be = UINT32_MAX - lies[i] < CAPACITY; /* a plausible position */
            assert_int_equal(status, may_be ? OKV_EAGAIN : OKV_EPROTO);
            pair_end(&pair);
        }
    }
}

TEST(lengths_that_make_no_sense)
{
    static const struct {
        uint32_t length, there, size;
    } lies[] = {
        {1, 8, 100},
        {17, 24, 100},
        {101, 2048, 100},
        {UINT32_MAX, 8, 100},
        {UINT32_MAX, 4096, 100},
        {UINT32_MAX - 7, 4096, 4000},
        {UINT32_MAX - 14, CAPACITY, LONGEST},
        {LONGEST + 1, CAPACITY, LONGEST},
        {LONGEST, CAPACITY - 8, LONGEST},
        {1u << 31, CAPACITY, LONGEST},
    };
    struct pair pair;

    for (unsigned i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        pair_start(&pair, 8192);
        memcpy(pair.client.out, &lies[i].length, sizeof lies[i].length);
        atomic_store(&pair.client.own->published, 8192 + lies[i].there);
        expect_lie(&pair.server, lies[i].size);
        pair_end(&pair);
    }
}

/* With any bytes in the memory a message is never longer than allowed, and no access leaves the
 * ring: the sanitizer checks that. */
TEST(any_bytes_at_any_time)
{
    uint64_t random = 5;
    unsigned taken = 0, lies = 0;

    for (unsigned round = 0; round < 20000; round++) {
        struct pair pair;
        static uint8_t bytes[100];
        uint32_t length = 0, immediate;
        pair_start(&pair, (uint32_t)random_next(&random) & ~7u);
        for (unsigned step = 0; step < 8; step++) {
            uint32_t junk = (uint32_t)random_next(&random) >> random_below(&random, 32);
            uint32_t *word = (uint32_t *)pair.memory + random_below(&random, SIZE / 4);
            if (step & 1)
                word = (uint32_t *)(void *)(pair.server.in + (pair.server.taken & (CAPACITY - 1)));
            *word = junk;
            atomic_store(&pair.client.own->published,
                         pair.server.taken + (uint32_t)random_below(&random, CAPACITY / 4) * 8);
            int status =
                okv_local_ring_take(&pair.server, bytes, sizeof bytes, &length, &immediate);
            assert_true(status <= 0 || length <= sizeof bytes);
            taken += status == 1;
            lies += status == OKV_EPROTO;
            okv_local_ring_release(&pair.server);
            okv_local_ring_put(&pair.server, bytes, length % sizeof bytes, 1);
            okv_local_ring_publish(&pair.server);
            okv_local_ring_wait(&pair.server);
            if (status < 0)
                break;
        }
        pair_end(&pair);
    }
    assert_true(taken > 1000 && lies > 1000);
}

#if !OKV_SANITIZED_THREADS /* its races are what it is about */
/* The same while it is being read. */
struct scribbler {
    struct pair *pair;
    atomic_bool stop;
};

static void *scribble(void *argument)
{
    struct scribbler *scribbler = argument;
    struct okv_local_ring *ring = &scribbler->pair->client;
    uint64_t random = 11;

    while (!atomic_load(&scribbler->stop)) {
        uint32_t length = (uint32_t)random_next(&random) >> random_below(&random, 32);
        for (unsigned i = 0; i < CAPACITY; i += 8)
            *(volatile uint32_t *)(void *)(ring->out + i) = i % 24 ? 8 : length;
        atomic_fetch_add(&ring->own->published, 8 * (uint32_t)random_below(&random, 4));
        atomic_store(&ring->own->wants, (uint32_t)random_next(&random));
    }
    return NULL;
}

TEST(bytes_that_change_while_they_are_read)
{
    struct pair pair;
    struct scribbler scribbler = {.pair = &pair};
    pthread_t thread;
    unsigned taken = 0, lies = 0;

    pair_start(&pair, 0);
    assert_int_equal(pthread_create(&thread, NULL, scribble, &scribbler), 0);
    for (unsigned i = 0; taken < 2000 && i < 10000000; i++) {
        uint8_t *bytes = malloc(64); /* of its own, so that a sanitizer sees each byte too many */
        uint32_t length = 0, immediate;
        assert_non_null(bytes);
        int status = okv_local_ring_take(&pair.server, bytes, 64, &length, &immediate);
        assert_true(status <= 0 || length <= 64);
        free(bytes);
        taken += status == 1;
        if (status < 0) { /* a connection would end here */
            lies++;
            pair.server.taken = pair.server.available = atomic_load(&pair.client.own->published);
        }
        okv_local_ring_release(&pair.server);
        okv_local_ring_wait(&pair.server);
    }
    atomic_store(&scribbler.stop, true);
    pthread_join(thread, NULL);
    print_message("%u messages, %u lies\n", taken, lies);
    pair_end(&pair);
}
#endif

/* ---- two threads ---- */

/* One that sends and one that receives; a bell is a semaphore here. */
struct talk {
    struct pair pair;
    sem_t to_server, to_client;
    uint32_t count;
    const char *failure; /* the receiver's */
};

static bool sleep_on(sem_t *bell)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += GUARD_S;
    while (sem_timedwait(bell, &until))
        if (errno != EINTR)
            return false;
    return true;
}

static uint32_t length_of(uint32_t number)
{
    return (uint32_t)(random_mix(number) % (number % 16 ? 40 : LONGEST));
}

static void *listen_to_all(void *argument)
{
    struct talk *talk = argument;
    struct okv_local_ring *ring = &talk->pair.server;
    uint8_t *bytes = malloc(LONGEST), *wanted = malloc(LONGEST);
    uint32_t length, immediate, number = 0;

    while (bytes && wanted && number < talk->count && !talk->failure) {
        int status = okv_local_ring_take(ring, bytes, LONGEST, &length, &immediate);
        if (status < 0) {
            talk->failure = "the sender is said to lie";
        } else if (status == 0) {
            if (okv_local_ring_wait(ring) && !sleep_on(&talk->to_server))
                talk->failure = "the receiver was not woken";
        } else {
            fill(wanted, length_of(number), number);
            if (immediate != number || length != length_of(number) ||
                memcmp(bytes, wanted, length) != 0)
                talk->failure = "another message came";
            number++;
            if (okv_local_ring_release(ring))
                sem_post(&talk->to_client);
        }
    }
    free(bytes);
    free(wanted);
    return NULL;
}

TEST(a_sleeper_is_always_woken)
{
    struct talk *talk = test_calloc(1, sizeof *talk);
    static uint8_t bytes[LONGEST];
    pthread_t thread;

    pair_start(&talk->pair, UINT32_MAX - 99999);
    talk->count = 200000;
    sem_init(&talk->to_server, 0, 0);
    sem_init(&talk->to_client, 0, 0);
    assert_int_equal(pthread_create(&thread, NULL, listen_to_all, talk), 0);
    for (uint32_t number = 0; number < talk->count; number++) {
        int status;
        fill(bytes, length_of(number), number);
        while ((status = okv_local_ring_put(&talk->pair.client, bytes, length_of(number),
                                            number)) == OKV_EAGAIN) {
            if (okv_local_ring_publish(&talk->pair.client))
                sem_post(&talk->to_server);
            if (!sleep_on(&talk->to_client))
                fail_msg("the sender was not woken (%s)", talk->failure ? talk->failure : "-");
        }
        assert_int_equal(status, 0);
        if (number % 3 == 0 || number + 1 == talk->count)
            if (okv_local_ring_publish(&talk->pair.client))
                sem_post(&talk->to_server);
    }
    pthread_join(thread, NULL);
    if (talk->failure)
        fail_msg("%s", talk->failure);
    sem_destroy(&talk->to_server);
    sem_destroy(&talk->to_client);
    pair_end(&talk->pair);
    test_free(talk);
}
