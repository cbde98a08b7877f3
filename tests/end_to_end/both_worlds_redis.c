/* Clients of Redis of both_worlds_test. */
#include <inttypes.h>

#include "tests/support/test.h"

#include "tests/end_to_end/both_worlds.h"
#include "tests/support/random.h"

static void add_request(struct worker *worker, const struct operation *operation)
{
    static const char *const names[KINDS] = {"SET", "GET", "INCR", "GET", "MSET", "MGET"};
    bool is_pair = operation->kind == SET_PAIR || operation->kind == GET_PAIR;
    bool is_register = operation->kind == WRITE || operation->kind == READ;
    char key[KEY_SIZE], other[KEY_SIZE], number[NUMBER_SIZE];
    struct resp_word words[5] = {RESP_TEXT(names[operation->kind]), {key, 0}};
    unsigned count = 2;

    words[1].length = worlds_key_of(is_pair       ? "pair-a"
                                    : is_register ? "register"
                                                  : "counter",
                                    operation->index, key);
    const struct resp_word second = {other, worlds_key_of("pair-b", operation->index, other)};
    const struct resp_word text = {
        number, (size_t)snprintf(number, sizeof number, "%" PRIu64, operation->number)};
    if (operation->kind == WRITE) {
        numbered_value_fill(worker->value, operation->index, operation->number);
        words[count++] = (struct resp_word){
            worker->value, numbered_value_length(operation->index, operation->number)};
    } else if (operation->kind == SET_PAIR) {
        words[count++] = text;
        words[count++] = second;
        words[count++] = text;
    } else if (operation->kind == GET_PAIR) {
        words[count++] = second;
    }
    resp_peer_add(&worker->peer, words, count);
}

/* Both have one value, or both are missing. False: the connection has ended. */
static bool read_pair(struct worker *worker)
{
    struct resp_answer answer;
    char first[NUMBER_SIZE] = "";

    if (!resp_peer_read(&worker->peer, &answer))
        return false;
    memcpy(first, answer.bytes, answer.length < sizeof first ? answer.length : 0);
    int64_t length = answer.number;
    if (!resp_peer_read(&worker->peer, &answer))
        return false;
    assert_int_equal(answer.number, length);
    if (length > 0)
        assert_memory_equal(answer.bytes, first, answer.length);
    return true;
}

static bool read_answer(struct worker *worker, const struct operation *operation)
{
    struct resp_answer answer;

    if (!resp_peer_read(&worker->peer, &answer))
        return false;
    if (answer.type == '-')
        fail_msg("%.*s", (int)answer.length, answer.bytes);
    switch (operation->kind) {
    case WRITE:
        worlds_end_write(worker->worlds, operation);
        return true;
    case READ:
        worlds_check_register(worker->worlds, operation,
                              answer.number < 0 ? NULL : (const uint8_t *)answer.bytes,
                              answer.length);
        return true;
    case INCR:
        worlds_check_counter(worker->worlds, operation, answer.number);
        return true;
    case COUNT:
        worlds_check_counter(worker->worlds, operation,
                             answer.number < 0 ? 0 : strtoll(answer.bytes, NULL, 10));
        return true;
    case GET_PAIR:
        assert_int_equal(answer.number, 2);
        return read_pair(worker);
    default:
        return true;
    }
}

/* Whether a later write of that register is under way, too. */
static bool is_superseded(const struct operation *operations, unsigned count, unsigned index)
{
    for (unsigned i = index + 1; i < count; i++)
        if (operations[i].kind == WRITE && operations[i].index == operations[index].index)
            return true;
    return false;
}

/* The server was killed. The last write of a register goes again until it is done: nobody knows
 * whether it was, and an earlier one may not come back. */
static void reconnect(struct worker *worker, const struct operation *operations, unsigned count)
{
    struct worlds *worlds = worker->worlds;

    assert_true(worlds->kills > 0);
    atomic_fetch_add(&worlds->lost, 1);
    resp_peer_close(&worker->peer);
    assert_true(resp_peer_open(&worker->peer, worlds->path));
    for (unsigned i = 0; i < count; i++) {
        if (operations[i].kind != WRITE || is_superseded(operations, count, i))
            continue;
        add_request(worker, &operations[i]);
        if (!resp_peer_flush(&worker->peer) || !read_answer(worker, &operations[i])) {
            reconnect(worker, operations + i, count - i);
            return;
        }
    }
}

/* A read behind a write in a pipeline sees it. */
static void sees_own_writes(struct operation *operations, unsigned last)
{
    struct operation *read = &operations[last];

    for (unsigned i = 0; i < last && read->kind == READ; i++)
        if (operations[i].kind == WRITE && operations[i].index == read->index)
            read->floor = operations[i].number;
}

static void resp_operate(struct worker *worker, unsigned count)
{
    /* After a crash a pair may be there in part. */
    unsigned kinds = worker->worlds->kills ? SET_PAIR : KINDS, done = 0;
    struct operation operations[DEPTH];

    for (unsigned i = 0; i < count; i++) {
        enum kind kind = (enum kind)random_below(&worker->random, kinds);
        operations[i] = worlds_begin_operation(worker, kind);
        sees_own_writes(operations, i);
        add_request(worker, &operations[i]);
    }
    if (resp_peer_flush(&worker->peer))
        while (done < count && read_answer(worker, &operations[done]))
            done++;
    for (unsigned i = done; i < count; i++)
        if (operations[i].kind == INCR)
            atomic_fetch_add(&worker->worlds->counters[operations[i].index].unknown, 1);
    if (done < count)
        reconnect(worker, operations + done, count - done);
}

#define CALL(worker, answer, ...)                                                              \
    resp_peer_call(&(worker)->peer, (const struct resp_word[]){__VA_ARGS__},                   \
                   sizeof((const struct resp_word[]){__VA_ARGS__}) / sizeof(struct resp_word), \
                   answer)

static void resp_lock(struct worker *worker)
{
    unsigned index = (unsigned)random_below(&worker->random, LOCKS);
    char text[KEY_SIZE];
    const struct resp_word key = {text, worlds_key_of("lock", index, text)};
    struct resp_answer answer;

    assert_true(CALL(worker, &answer, RESP_TEXT("SET"), key, RESP_TEXT("resp"), RESP_TEXT("NX")));
    if (answer.type == '$')
        return;
    assert_int_equal(answer.type, '+');
    worlds_enter_lock(worker, index);
    worlds_leave_lock(worker, index);
    assert_true(CALL(worker, &answer, RESP_TEXT("DEL"), key));
    assert_int_equal(answer.number, 1);
}

/* The last of many writes of a transaction: others have time to come between EXEC's look at the
 * watched key and this one. */
static bool queue_sets(struct worker *worker, const struct resp_word key, const char *number)
{
    struct resp_answer answer;
    char text[KEY_SIZE];
    const struct resp_word other = {text, worlds_key_of("other", worker->index, text)};

    resp_peer_add(&worker->peer, &RESP_TEXT("MULTI"), 1);
    for (unsigned i = 1; i <= SETS; i++)
        resp_peer_add(
            &worker->peer,
            (const struct resp_word[]){RESP_TEXT("SET"), i < SETS ? other : key, RESP_TEXT(number)},
            3);
    if (!resp_peer_flush(&worker->peer))
        return false;
    for (unsigned i = 0; i <= SETS; i++)
        if (!resp_peer_read(&worker->peer, &answer))
            return false;
    return true;
}

/* Whether the connection lives. *was_asked is set if the server may have seen EXEC. */
static bool watch_and_add(struct worker *worker, const struct resp_word key, bool *was_asked,
                          struct resp_answer *answer)
{
    char number[NUMBER_SIZE];

    if (!CALL(worker, answer, RESP_TEXT("WATCH"), key) ||
        !CALL(worker, answer, RESP_TEXT("GET"), key))
        return false;
    snprintf(number, sizeof number, "%lld",
             answer->number < 0 ? 1 : strtoll(answer->bytes, NULL, 10) + 1);
    if (!queue_sets(worker, key, number))
        return false;
    *was_asked = true;
    return CALL(worker, answer, RESP_TEXT("EXEC"));
}

static void resp_add_one(struct worker *worker)
{
    unsigned index = (unsigned)random_below(&worker->random, NUMBERS);
    char text[KEY_SIZE];
    const struct resp_word key = {text, worlds_key_of("number", index, text)};
    struct resp_answer answer;
    bool was_asked = false;

    if (!watch_and_add(worker, key, &was_asked, &answer)) {
        atomic_fetch_add(&worker->worlds->unknown_numbers, was_asked);
        reconnect(worker, NULL, 0);
        return;
    }
    assert_int_equal(answer.type, '*');
    if (answer.number < 0)
        return; /* somebody else did */
    assert_int_equal(answer.number, SETS);
    atomic_fetch_add(&worker->worlds->numbers[index], 1);
    for (unsigned i = 0; i < SETS; i++)
        if (!resp_peer_read(&worker->peer, &answer)) {
            reconnect(worker, NULL, 0);
            return;
        }
}

/* As MSET does. */
static void resp_set_pair(struct worker *worker)
{
    unsigned index = (unsigned)random_below(&worker->random, PAIRS);
    char a[KEY_SIZE], b[KEY_SIZE], text[NUMBER_SIZE];
    const struct resp_word first = {a, worlds_key_of("pair-a", index, a)};
    const struct resp_word second = {b, worlds_key_of("pair-b", index, b)};
    struct resp_answer answer;

    snprintf(text, sizeof text, "%" PRIu64, atomic_fetch_add(&worker->worlds->pairs, 1) + 1);
    assert_true(CALL(worker, &answer, RESP_TEXT("MULTI")));
    assert_true(CALL(worker, &answer, RESP_TEXT("SET"), first, RESP_TEXT(text)));
    assert_true(CALL(worker, &answer, RESP_TEXT("SET"), second, RESP_TEXT(text)));
    assert_true(CALL(worker, &answer, RESP_TEXT("EXEC")));
    assert_int_equal(answer.number, 2);
    for (unsigned i = 0; i < 2; i++)
        assert_true(resp_peer_read(&worker->peer, &answer) && answer.type == '+');
}

void worlds_redis_step(struct worker *worker)
{
    uint64_t percent = worker->worlds->only_numbers ? 99 : random_below(&worker->random, 100);
    unsigned count = 1 + (unsigned)random_below(&worker->random, worker->index % 4 ? 1 : DEPTH);

    atomic_fetch_add(&worker->worlds->resp_operations, percent < 80 ? count : 1);
    if (percent < 80)
        resp_operate(worker, count);
    else if (percent < 87 && !worker->worlds->kills)
        resp_lock(worker);
    else if (percent < 94 && !worker->worlds->kills)
        resp_set_pair(worker);
    else
        resp_add_one(worker);
}
