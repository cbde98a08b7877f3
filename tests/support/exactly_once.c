/* The first part of exactly_once_test.c: one write, one fault, one competitor. */
#include "tests/support/exactly_once.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/random.h"

#define MINE_DELTA 1000
#define OTHER_DELTA 1
#define RECORD_SIZE 12

enum form { INCR, APPEND, PUT, PUT_LARGE, PUT_IF_VERSION, PUT_IF_ABSENT, DELETE, FORMS };

static const char *const form_names[FORMS] = {
    "incr", "append", "put", "put of a large value", "put if version", "put if absent", "delete",
};

/* Who was first at the key. */
enum order { MINE_FIRST, OTHER_FIRST, IMPOSSIBLE };

bool pair_fail(struct pair *pair, const char *format, ...)
{
    va_list arguments;

    if (pair->failure[0] == '\0') {
        va_start(arguments, format);
        vsnprintf(pair->failure, sizeof pair->failure, format, arguments);
        va_end(arguments);
    }
    return false;
}

void pair_fini(struct pair *pair)
{
    free(pair->sums.entries);
    free(pair->records.entries);
}

static size_t key_of(const struct pair *pair, char key[32])
{
    return (size_t)snprintf(key, 32, "once.%u.%u", pair->number, pair->form);
}

static size_t value_length(const struct pair *pair)
{
    return pair->form == PUT_LARGE ? LARGE : 24;
}

/* The value of this round; no two are the same. */
static void fill_value(const struct pair *pair, bool mine, uint8_t *value)
{
    memset(value, mine ? 'm' : 'o', value_length(pair));
    memcpy(value, &pair->round, sizeof pair->round);
}

static void fill_record(const struct pair *pair, bool mine, char record[RECORD_SIZE + 1])
{
    snprintf(record, RECORD_SIZE + 1, "%c%010u;", mine ? 'm' : 'o', pair->round);
}

/* The competitor has no conditions, and a value where the other deletes. */
static int write_key(struct pair *pair, bool mine, struct okv_result *result)
{
    char key[32], record[RECORD_SIZE + 1];
    struct okv_command command = {
        .kind = OKV_PUT,
        .key = key,
        .key_length = key_of(pair, key),
        .value = mine ? pair->value : pair->value2,
        .value_length = value_length(pair),
    };

    fill_value(pair, mine, mine ? pair->value : pair->value2);
    fill_record(pair, mine, record);
    if (pair->form == INCR)
        command = (struct okv_command){.kind = OKV_INCR,
                                       .key = key,
                                       .key_length = command.key_length,
                                       .delta = mine ? MINE_DELTA : OTHER_DELTA};
    if (pair->form == APPEND) {
        command.kind = OKV_APPEND;
        command.value = record;
        command.value_length = RECORD_SIZE;
    }
    if (mine && pair->form == PUT_IF_VERSION) {
        command.flags = OKV_IF_VERSION;
        command.version = pair->version;
    }
    if (mine && pair->form == PUT_IF_ABSENT)
        command.flags = OKV_IF_ABSENT;
    if (mine && pair->form == DELETE)
        command =
            (struct okv_command){.kind = OKV_DELETE, .key = key, .key_length = command.key_length};
    pair->writes++;
    return okv_call(mine ? pair->broken : pair->plain, &command, result);
}

static void compete(void *argument, enum chaos_fault fault)
{
    struct pair *pair = argument;

    (void)fault;
    if (pair->competed)
        return;
    pair->competed = true;
    if (write_key(pair, false, &pair->other))
        pair_fail(pair, "the plain client's write said %s", okv_errname(pair->other.status));
}

/* Brings the key into the state that the round begins with. */
static bool prepare(struct pair *pair)
{
    char key[32];
    size_t length = key_of(pair, key);
    int rc = 0;

    if (pair->form == PUT_IF_VERSION || pair->form == DELETE)
        rc = okv_put(pair->plain, key, length, "before", 6, &pair->version);
    if (pair->form == PUT_IF_ABSENT ||
        (pair->form == APPEND && pair->log_length + 2 * RECORD_SIZE > LOG_MAX)) {
        rc = okv_delete(pair->plain, key, length);
        if (pair->form == APPEND)
            pair->log_length = 0;
    }
    if (rc && rc != OKV_ENOTFOUND)
        return pair_fail(pair, "the plain client's preparation said %s", okv_errname(rc));
    return true;
}

static enum order by_versions(const struct okv_result *mine, const struct okv_result *other)
{
    if (mine->status)
        return IMPOSSIBLE;
    return mine->version < other->version ? MINE_FIRST : OTHER_FIRST;
}

/* A condition that held when mine was applied: then the other came later. */
static enum order by_condition(const struct okv_result *mine, const struct okv_result *other,
                               int refusal)
{
    if (mine->status == OKV_OK && mine->version < other->version)
        return MINE_FIRST;
    if (mine->status == refusal && mine->version == other->version)
        return OTHER_FIRST;
    return IMPOSSIBLE;
}

/* `first` and `second`: what whoever was first, or second, adds. */
static enum order by_sums(uint64_t before, uint64_t mine, uint64_t mine_adds, uint64_t other,
                          uint64_t other_adds)
{
    if (mine == before + mine_adds && other == mine + other_adds)
        return MINE_FIRST;
    if (other == before + other_adds && mine == other + mine_adds)
        return OTHER_FIRST;
    return IMPOSSIBLE;
}

/* What they were told leaves one order; DELETE has none to tell. */
static enum order order_told(const struct pair *pair, const struct okv_result *mine)
{
    const struct okv_result *other = &pair->other;

    switch ((enum form)pair->form) {
    case INCR:
        return mine->status ? IMPOSSIBLE
                            : by_sums((uint64_t)pair->sum, (uint64_t)mine->number, MINE_DELTA,
                                      (uint64_t)other->number, OTHER_DELTA);
    case APPEND:
        return mine->status ? IMPOSSIBLE
                            : by_sums(pair->log_length, mine->length, RECORD_SIZE, other->length,
                                      RECORD_SIZE);
    case PUT:
    case PUT_LARGE:
        return by_versions(mine, other);
    case PUT_IF_VERSION:
        return by_condition(mine, other, OKV_ECONFLICT);
    case PUT_IF_ABSENT:
        return by_condition(mine, other, OKV_EEXISTS);
    case DELETE:
    case FORMS:
        break;
    }
    return mine->status ? IMPOSSIBLE : MINE_FIRST;
}

/* What the key must hold; its length. */
static size_t expected_value(struct pair *pair, enum order order, const uint8_t **out)
{
    bool mine_last = order == OTHER_FIRST && (pair->form == PUT || pair->form == PUT_LARGE);

    if (pair->form == INCR) {
        pair->sum += MINE_DELTA + OTHER_DELTA;
        *out = pair->value;
        return (size_t)snprintf((char *)pair->value, sizeof pair->value, "%lld",
                                (long long)pair->sum);
    }
    if (pair->form == APPEND) {
        char record[RECORD_SIZE + 1];
        for (unsigned i = 0; i < 2; i++) {
            fill_record(pair, (i == 0) == (order == MINE_FIRST), record);
            memcpy(pair->log + pair->log_length, record, RECORD_SIZE);
            pair->log_length += RECORD_SIZE;
        }
        *out = (const uint8_t *)pair->log;
        return pair->log_length;
    }
    *out = mine_last ? pair->value : pair->value2;
    return value_length(pair);
}

static bool key_holds(struct pair *pair, enum order order, enum chaos_fault fault)
{
    const uint8_t *expected;
    size_t wanted = expected_value(pair, order, &expected);
    size_t length = 0;
    char key[32];
    int rc =
        okv_get(pair->plain, key, key_of(pair, key), pair->got, sizeof pair->got, &length, NULL);

    /* a delete that came second leaves nothing, which only a request that was late may do */
    if (pair->form == DELETE && rc == OKV_ENOTFOUND && fault != CHAOS_LOSE_REPLY &&
        fault != CHAOS_BREAK_REPLIED)
        return true;
    if (rc || length != wanted || memcmp(pair->got, expected, wanted) != 0)
        return pair_fail(pair, "round %u, %s, %s: the key holds something else (%s, %zu bytes)",
                         pair->round, form_names[pair->form], chaos_fault_name(fault),
                         okv_errname(rc), length);
    if (pair->form == DELETE && fault == CHAOS_LOSE_REQUEST)
        return pair_fail(pair, "round %u: a delete that was told as done was not done",
                         pair->round);
    return true;
}

static bool order_fits(struct pair *pair, enum order order, enum chaos_fault fault,
                       const struct okv_result *mine)
{
    bool late = fault == CHAOS_LOSE_REQUEST && pair->form != DELETE;
    bool early = fault == CHAOS_LOSE_REPLY || fault == CHAOS_BREAK_REPLIED;

    if (order != IMPOSSIBLE && !(late && order != OTHER_FIRST) && !(early && order != MINE_FIRST))
        return true;
    return pair_fail(pair,
                     "round %u, %s, %s: mine was told %s, version %llu, number %lld, length %zu; "
                     "the other %llu, %lld, %zu: %s",
                     pair->round, form_names[pair->form], chaos_fault_name(fault),
                     okv_errname(mine->status), (unsigned long long)mine->version,
                     (long long)mine->number, mine->length, (unsigned long long)pair->other.version,
                     (long long)pair->other.number, pair->other.length,
                     mine->status ? okv_why(pair->broken) : "");
}

static enum chaos_fault choose_fault(struct pair *pair)
{
    uint64_t number = random_below(&pair->random, 10);

    return number < 6   ? CHAOS_LOSE_REPLY
           : number < 7 ? CHAOS_LOSE_REQUEST
           : number < 9 ? CHAOS_BREAK_SENT
                        : CHAOS_BREAK_REPLIED;
}

static bool run_round(struct pair *pair)
{
    enum chaos_fault fault = choose_fault(pair);
    struct okv_result mine = {0};

    pair->form = (unsigned)random_below(&pair->random, FORMS);
    pair->competed = false;
    if (!prepare(pair))
        return false;
    pair->chaos.next = fault;
    write_key(pair, true, &mine);
    if (!pair->competed)
        return pair_fail(pair, "round %u, %s, %s: no break came; the write said %s", pair->round,
                         form_names[pair->form], chaos_fault_name(fault), okv_errname(mine.status));
    enum order order = order_told(pair, &mine);
    return pair->failure[0] == '\0' && order_fits(pair, order, fault, &mine) &&
           key_holds(pair, order, fault);
}

void *pair_run_rounds(void *argument)
{
    struct pair *pair = argument;

    chaos_use(&pair->chaos);
    pair->chaos.on_break = compete;
    pair->chaos.user = pair;
    for (pair->round = 1; pair->round <= pair->rounds; pair->round++) {
        if (!run_round(pair))
            break;
    }
    pair->chaos.on_break = NULL;
    chaos_use(NULL);
    return NULL;
}
