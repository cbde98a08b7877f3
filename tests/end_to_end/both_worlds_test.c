/*
 * Clients of Redis and clients of libokv on the same keys at once: what each saw must be what one
 * order of all operations gives, in real time.
 *
 *   registers   Each has one writer, of either kind, whose values are numbered. A read sees no less
 *               than what was written or read before it began, and no more than what was begun when
 *               it ended. For one writer this is linearizability.
 *   counters    All increment all. Every result comes once, and is above whatever was seen before
 *               it began.
 *   locks       SET NX and DEL, against puts of what is absent and deletes of a version.
 *   numbers     WATCH and EXEC, against puts with a version: no increment is lost.
 *   pairs       MSET and EXEC set two keys to one value, and MGET never sees two.
 *
 * A second test has numbers alone, so that many meet. In a third one items expire. In a fourth one
 * the server is durable, and in a fifth one killed again and again as well: clients of Redis
 * connect again then, and what they had no reply to may have happened.
 *
 * $OKV_OPERATIONS: how many (of each thread), OKV_LONG=1: ten times as many, and OKV_KILLS=N.
 */
#include "tests/end_to_end/both_worlds.h"

#include <inttypes.h>
#include <signal.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/pace.h"
#include "tests/support/random.h"
#include "tests/support/sanitized.h"

#define OPERATIONS (OKV_SANITIZED ? 1500 : 3000)
#define KILLS 6
#define DURABLE_PART 6 /* of the operations, since each write waits for the disk */
#define PROGRESS 30    /* operations between two kills */

size_t worlds_key_of(const char *what, unsigned index, char key[KEY_SIZE])
{
    return (size_t)snprintf(key, KEY_SIZE, "%s%u", what, index);
}

static void raise_to(atomic_uint_fast64_t *most, uint64_t number)
{
    uint64_t before = atomic_load(most);

    while (before < number && !atomic_compare_exchange_weak(most, &before, number))
        ;
}

/* ---- what is seen ---- */

void worlds_check_register(struct worlds *worlds, const struct operation *operation,
                           const uint8_t *value, size_t length)
{
    struct shared_register *shared = &worlds->registers[operation->index];
    uint64_t number = 0;

    if (value)
        assert_true(numbered_value_check(value, length, operation->index, &number));
    if (number < operation->floor || number > atomic_load(&shared->begun))
        fail_msg("register %u: read %" PRIu64 ", and %" PRIu64 " was there before",
                 operation->index, number, operation->floor);
    raise_to(&shared->seen, number);
}

void worlds_check_counter(struct worlds *worlds, const struct operation *operation, int64_t number)
{
    struct shared_counter *shared = &worlds->counters[operation->index];
    bool is_result = operation->kind == INCR;

    if (number < (int64_t)operation->floor + is_result ||
        number > (int64_t)atomic_load(&shared->begun) || number > (int64_t)shared->most)
        fail_msg("counter %u: %" PRId64 ", and %" PRIu64 " was there before", operation->index,
                 number, operation->floor);
    if (is_result && atomic_exchange(&shared->results[number], 1))
        fail_msg("counter %u: %" PRId64 " came twice", operation->index, number);
    raise_to(&shared->seen, (uint64_t)number);
}

/* Decides on one, and notes that it has begun. */
struct operation worlds_begin_operation(struct worker *worker, enum kind kind)
{
    struct worlds *worlds = worker->worlds;
    struct operation operation = {.kind = kind};

    if (kind == WRITE || kind == READ) {
        operation.index = (unsigned)random_below(&worker->random, REGISTERS);
        if (kind == WRITE) /* one of its own */
            operation.index = operation.index / THREADS * THREADS + worker->index;
        struct shared_register *shared = &worlds->registers[operation.index];
        operation.floor = atomic_load(&shared->seen);
        if (kind == WRITE)
            operation.number = atomic_fetch_add(&shared->begun, 1) + 1;
        else if (operation.floor < atomic_load(&shared->done))
            operation.floor = atomic_load(&shared->done);
    } else if (kind == INCR || kind == COUNT) {
        operation.index = (unsigned)random_below(&worker->random, COUNTERS);
        operation.floor = atomic_load(&worlds->counters[operation.index].seen);
        if (kind == INCR)
            atomic_fetch_add(&worlds->counters[operation.index].begun, 1);
    } else {
        operation.index = (unsigned)random_below(&worker->random, PAIRS);
        operation.number = atomic_fetch_add(&worlds->pairs, 1) + 1;
    }
    return operation;
}

void worlds_end_write(struct worlds *worlds, const struct operation *operation)
{
    raise_to(&worlds->registers[operation->index].done, operation->number);
}

/* ---- clients of libokv ---- */

static void okv_operate(struct worker *worker, enum kind kind)
{
    struct operation operation = worlds_begin_operation(worker, kind);
    bool is_register = kind == WRITE || kind == READ;
    char key[KEY_SIZE];
    size_t length = 0,
           key_length = worlds_key_of(is_register ? "register" : "counter", operation.index, key);
    int64_t number = 0;
    int rc;

    switch (kind) {
    case WRITE:
        numbered_value_fill(worker->value, operation.index, operation.number);
        rc = okv_put(worker->handle, key, key_length, worker->value,
                     numbered_value_length(operation.index, operation.number), NULL);
        assert_int_equal(rc, OKV_OK);
        worlds_end_write(worker->worlds, &operation);
        break;
    case INCR:
        assert_int_equal(okv_incr(worker->handle, key, key_length, 1, &number, NULL), OKV_OK);
        worlds_check_counter(worker->worlds, &operation, number);
        break;
    default:
        rc = okv_get(worker->handle, key, key_length, worker->buffer, sizeof worker->buffer,
                     &length, NULL);
        assert_true(rc == OKV_OK || rc == OKV_ENOTFOUND);
        if (is_register) {
            worlds_check_register(worker->worlds, &operation, rc == OKV_OK ? worker->buffer : NULL,
                                  length);
        } else {
            worker->buffer[length] = '\0';
            worlds_check_counter(worker->worlds, &operation,
                                 rc == OKV_OK ? strtoll((char *)worker->buffer, NULL, 10) : 0);
        }
    }
}

void worlds_enter_lock(struct worker *worker, unsigned index)
{
    assert_false(atomic_exchange(&worker->worlds->locks[index], true));
}

void worlds_leave_lock(struct worker *worker, unsigned index)
{
    atomic_store(&worker->worlds->locks[index], false);
}

static void okv_lock(struct worker *worker)
{
    unsigned index = (unsigned)random_below(&worker->random, LOCKS);
    char key[KEY_SIZE];
    struct okv_command command = {.kind = OKV_PUT,
                                  .flags = OKV_IF_ABSENT,
                                  .key = key,
                                  .key_length = worlds_key_of("lock", index, key),
                                  .value = "okv",
                                  .value_length = 3};
    struct okv_result result;

    okv_call(worker->handle, &command, &result);
    if (result.status == OKV_EEXISTS)
        return;
    assert_int_equal(result.status, OKV_OK);
    worlds_enter_lock(worker, index);
    worlds_leave_lock(worker, index);
    assert_int_equal(okv_delete_if(worker->handle, key, command.key_length, result.version),
                     OKV_OK);
}

static void okv_add_one(struct worker *worker)
{
    unsigned index = (unsigned)random_below(&worker->random, NUMBERS);
    char key[KEY_SIZE], text[NUMBER_SIZE] = "";
    struct okv_command get = {.kind = OKV_GET,
                              .key = key,
                              .key_length = worlds_key_of("number", index, key),
                              .buffer = text,
                              .buffer_size = sizeof text - 1};
    struct okv_command put = {
        .kind = OKV_PUT, .key = key, .key_length = get.key_length, .value = text};
    struct okv_result result;

    okv_call(worker->handle, &get, &result);
    assert_true(result.status == OKV_OK || result.status == OKV_ENOTFOUND);
    put.flags = result.status == OKV_OK ? OKV_IF_VERSION : OKV_IF_ABSENT;
    put.version = result.version;
    put.value_length =
        (size_t)snprintf(text, sizeof text, "%lld", result.status ? 1 : atoll(text) + 1);
    okv_call(worker->handle, &put, &result);
    if (result.status == OKV_OK)
        atomic_fetch_add(&worker->worlds->numbers[index], 1);
    else
        assert_true(result.status == OKV_ECONFLICT || result.status == OKV_EEXISTS ||
                    result.status == OKV_ENOTFOUND);
}

static void okv_step(struct worker *worker)
{
    uint64_t percent = worker->worlds->only_numbers ? 99 : random_below(&worker->random, 100);

    atomic_fetch_add(&worker->worlds->okv_operations, 1);
    if (percent < 80)
        okv_operate(worker, (enum kind)random_below(&worker->random, SET_PAIR));
    else if (percent < 90 && !worker->worlds->kills)
        okv_lock(worker);
    else
        okv_add_one(worker);
}

/* ---- all of them ---- */

static void *work(void *user)
{
    struct worker *worker = user;
    struct worlds *worlds = worker->worlds;
    uint64_t count = 0;

    while (worlds->kills ? !atomic_load(&worlds->is_over) : count++ < worlds->operations)
        if (worker->index % 2)
            okv_step(worker);
        else
            worlds_redis_step(worker);
    return NULL;
}

static void start(struct worlds *worlds, struct worker *worker, unsigned index)
{
    *worker = (struct worker){
        .worlds = worlds, .index = index, .random = random_mix(worlds->seed + index)};
    if (index % 2)
        worker->handle = server_connect(&worlds->server, NULL);
    else
        assert_true(resp_peer_open(&worker->peer, worlds->path));
    assert_int_equal(pthread_create(&worker->thread, NULL, work, worker), 0);
}

static void end(struct worker *worker)
{
    pthread_join(worker->thread, NULL);
    if (worker->handle)
        okv_close(&worker->handle);
    else
        resp_peer_close(&worker->peer);
}

/* Until clients of both kinds have done something since. */
static void await_progress(struct worlds *worlds)
{
    uint64_t resp = atomic_load(&worlds->resp_operations), guard = pace_guard_end();
    uint64_t libokv = atomic_load(&worlds->okv_operations);

    while ((atomic_load(&worlds->resp_operations) < resp + PROGRESS ||
            atomic_load(&worlds->okv_operations) < libokv + PROGRESS) &&
           okv_clock_ns() < guard)
        usleep(1000);
}

static void kill_under_load(struct worlds *worlds)
{
    for (uint64_t i = 0; i < worlds->kills; i++) {
        await_progress(worlds);
        usleep((useconds_t)random_below(&worlds->seed, 60000));
        server_signal(&worlds->server, SIGKILL);
        server_start(&worlds->server, worlds->arguments);
    }
    await_progress(worlds);
    atomic_store(&worlds->is_over, true);
}

static int64_t number_at(okv *handle, const char *what, unsigned index)
{
    char key[KEY_SIZE], text[NUMBER_SIZE] = "";
    size_t length;
    int rc =
        okv_get(handle, key, worlds_key_of(what, index, key), text, sizeof text - 1, &length, NULL);

    assert_true(rc == OKV_OK || rc == OKV_ENOTFOUND);
    return atoll(text);
}

/* What is there in the end is the sum of what was done. */
static void expect_sums(struct worlds *worlds)
{
    okv *handle = server_connect(&worlds->server, NULL);
    int64_t all = 0, known = 0;

    for (unsigned i = 0; i < COUNTERS; i++) {
        const struct shared_counter *counter = &worlds->counters[i];
        int64_t begun = (int64_t)atomic_load(&counter->begun);
        assert_in_range(number_at(handle, "counter", i),
                        begun - (int64_t)atomic_load(&counter->unknown), begun);
    }
    for (unsigned i = 0; i < NUMBERS; i++) {
        all += number_at(handle, "number", i);
        known += (int64_t)atomic_load(&worlds->numbers[i]);
    }
    assert_in_range(all, known, known + (int64_t)atomic_load(&worlds->unknown_numbers));
    for (unsigned i = 0; i < PAIRS && !worlds->kills && !worlds->only_numbers; i++) {
        assert_true(number_at(handle, "pair-a", i) > 0);
        assert_int_equal(number_at(handle, "pair-a", i), number_at(handle, "pair-b", i));
    }
    okv_close(&handle);
}

/* ---- set-up ---- */

#define RESULTS_MAX (UINT64_C(1) << 22)

static uint64_t wanted(const char *name, uint64_t usual)
{
    const char *given = getenv(name), *is_long = getenv("OKV_LONG");

    if (given)
        return strtoull(given, NULL, 10);
    return is_long && strcmp(is_long, "1") == 0 ? 10 * usual : usual;
}

static struct worlds *make(bool is_durable, uint64_t kills)
{
    struct worlds *worlds = calloc(1, sizeof *worlds);
    unsigned count = 0;

    assert_non_null(worlds);
    worlds->seed = random_seed();
    worlds->operations = wanted("OKV_OPERATIONS", OPERATIONS);
    worlds->kills = kills;
    for (unsigned i = 0; i < COUNTERS; i++) {
        worlds->counters[i].most = RESULTS_MAX;
        worlds->counters[i].results = calloc(RESULTS_MAX + 1, 1);
        assert_non_null(worlds->counters[i].results);
    }
    strcpy(worlds->directory, "/tmp/okv-worlds-XXXXXX");
    assert_non_null(mkdtemp(worlds->directory));
    snprintf(worlds->path, sizeof worlds->path, "%s/resp", worlds->directory);
    snprintf(worlds->listen, sizeof worlds->listen, "resp://%s", worlds->path);
    worlds->arguments[count++] = "--memory";
    worlds->arguments[count++] = "64M";
    worlds->arguments[count++] = "--listen";
    worlds->arguments[count++] = worlds->listen;
    if (is_durable) {
        worlds->arguments[count++] = "--data";
        worlds->arguments[count++] = worlds->directory;
    }
    return worlds;
}

static int setup(void **state)
{
    struct worlds *worlds = make(false, 0);

    server_start(&worlds->server, worlds->arguments);
    *state = worlds;
    return 0;
}

static int setup_numbers(void **state)
{
    struct worlds *worlds = make(false, 0);

    worlds->only_numbers = true;
    server_start(&worlds->server, worlds->arguments);
    *state = worlds;
    return 0;
}

static int setup_durable(void **state)
{
    struct worlds *worlds = make(true, 0);

    worlds->operations /= DURABLE_PART;
    server_start(&worlds->server, worlds->arguments);
    *state = worlds;
    return 0;
}

/* Every server is at the same place. */
static int setup_kills(void **state)
{
    struct worlds *worlds = make(true, wanted("OKV_KILLS", KILLS));
    char uri[64];

    snprintf(uri, sizeof uri, "local://%s/okv.sock", worlds->directory);
    assert_int_equal(setenv("OKV_TEST_URI", uri, 1), 0);
    server_start(&worlds->server, worlds->arguments);
    *state = worlds;
    return 0;
}

static int teardown(void **state)
{
    struct worlds *worlds = *state;
    char command[64];

    assert_int_equal(server_stop(&worlds->server), 0);
    snprintf(command, sizeof command, "rm -rf %s", worlds->directory);
    assert_int_equal(system(command), 0);
    for (unsigned i = 0; i < COUNTERS; i++)
        free(worlds->counters[i].results);
    free(worlds);
    return 0;
}

TEST_WITH(one_order_explains_all, setup, teardown)
{
    struct worlds *worlds = *state;
    static struct worker workers[THREADS];

    for (unsigned i = 0; i < THREADS; i++)
        start(worlds, &workers[i], i);
    if (worlds->kills)
        kill_under_load(worlds);
    for (unsigned i = 0; i < THREADS; i++)
        end(&workers[i]);
    expect_sums(worlds);
    assert_true(worlds->kills == 0 || atomic_load(&worlds->lost) > 0);
    print_message("%" PRIu64 " operations of clients of Redis, %" PRIu64 " of libokv; %" PRIu64
                  " kills, %" PRIu64 " connections lost\n",
                  atomic_load(&worlds->resp_operations), atomic_load(&worlds->okv_operations),
                  worlds->kills, atomic_load(&worlds->lost));
}

/* Nobody else has the worker look at the clock. */
TEST_WITH(an_item_expires_on_time, setup, teardown)
{
    struct worlds *worlds = *state;
    struct resp_peer peer;
    struct resp_answer answer;

    assert_true(resp_peer_open(&peer, worlds->path));
    for (unsigned i = 0; i < 10; i++) {
        assert_true(resp_peer_call(&peer,
                                   (const struct resp_word[]){RESP_TEXT("SET"), RESP_TEXT("k"),
                                                              RESP_TEXT("v"), RESP_TEXT("PX"),
                                                              RESP_TEXT("30")},
                                   5, &answer));
        assert_int_equal(answer.type, '+');
        usleep(35000); /* times are whole milliseconds */
        assert_true(resp_peer_call(
            &peer, (const struct resp_word[]){RESP_TEXT("GET"), RESP_TEXT("k")}, 2, &answer));
        assert_int_equal(answer.number, -1);
    }
    resp_peer_close(&peer);
}

TEST_CASE(no_increment_is_lost, one_order_explains_all, setup_numbers, teardown, NULL)
TEST_CASE(one_order_explains_all_of_a_durable_server, one_order_explains_all, setup_durable,
          teardown, NULL)
TEST_CASE(one_order_explains_all_over_kills, one_order_explains_all, setup_kills, teardown, NULL)
