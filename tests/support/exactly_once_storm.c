/* The second part of exactly_once_test.c: many writes at once, breaks at any moment. */
#include "tests/support/exactly_once.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/error.h"
#include "tests/support/random.h"

#define WRITES_PER_ROUND 4u
#define WAIT_MS 1000
/* A call is made to fail once in so many submissions. */
#define FAILURE_EVERY 50u

/* One of the pair's writes that are under way; its place is the tag. */
struct under_way {
    bool used;
    struct okv_command command;
    char key[32];
    char record[STORM_RECORD + 1];
    char got[32];
    unsigned place; /* the counter or the log */
    uint64_t number;
};

static bool told_add(struct pair *pair, struct told_list *list, struct told told)
{
    if (list->count == list->size) {
        size_t size = list->size ? 2 * list->size : 256;
        struct told *entries = realloc(list->entries, size * sizeof *entries);
        if (!entries)
            return pair_fail(pair, "no memory");
        list->entries = entries;
        list->size = size;
    }
    list->entries[list->count++] = told;
    return true;
}

static size_t counter_key(unsigned counter, char key[32])
{
    return (size_t)snprintf(key, 32, "storm.counter.%u", counter);
}

static size_t log_key(const struct pair *pair, unsigned log, char key[32])
{
    return (size_t)snprintf(key, 32, "storm.log.%u.%u", pair->number, log);
}

/* An incr, an append, or now and then a get, for READs to break as well. */
static void make_command(struct pair *pair, struct under_way *write)
{
    unsigned choice = (unsigned)random_below(&pair->random, 10);
    struct okv_command command = {.key = write->key, .timeout_ms = 0};

    write->number = pair->submitted++;
    if (choice < 6) {
        write->place = (unsigned)random_below(&pair->random, STORM_COUNTERS);
        command.kind = choice < 5 ? OKV_INCR : OKV_GET;
        command.key_length = counter_key(write->place, write->key);
        command.delta = choice < 5 ? 1 : 0;
        command.buffer = choice < 5 ? NULL : write->got;
        command.buffer_size = choice < 5 ? 0 : sizeof write->got;
    } else {
        write->place = (unsigned)write->number / STORM_LOG_RECORDS;
        snprintf(write->record, sizeof write->record, "%015llu;",
                 (unsigned long long)write->number);
        command.kind = OKV_APPEND;
        command.key_length = log_key(pair, write->place, write->key);
        command.value = write->record;
        command.value_length = STORM_RECORD;
    }
    write->command = command;
    pair->writes += command.kind != OKV_GET;
}

static bool take_result(struct pair *pair, const struct under_way *write,
                        const struct okv_result *result)
{
    struct told told = {.counter = write->place, .number = write->number, .end = result->length};

    if (write->command.kind == OKV_GET && result->status == OKV_ENOTFOUND)
        return true;
    if (result->status)
        return pair_fail(pair, "operation %llu (kind %u) said %s: %s",
                         (unsigned long long)write->number, write->command.kind,
                         okv_errname(result->status), okv_why(pair->broken));
    if (write->command.kind == OKV_GET)
        return true;
    if (write->command.kind == OKV_APPEND)
        return told_add(pair, &pair->records, told);
    told.number = (uint64_t)result->number;
    return told_add(pair, &pair->sums, told);
}

/* The competitor's. */
static bool plain_write(struct pair *pair)
{
    struct under_way write = {.used = true};
    struct okv_result result;

    make_command(pair, &write);
    okv_call(pair->plain, &write.command, &result);
    return take_result(pair, &write, &result);
}

static bool poll_results(struct pair *pair, struct under_way *writes)
{
    struct okv_result results[STORM_DEPTH];
    int count = okv_poll(pair->broken, results, STORM_DEPTH);

    if (count < 0)
        return pair_fail(pair, "poll said %s: %s", okv_errname(count), okv_why(pair->broken));
    for (int i = 0; i < count; i++) {
        struct under_way *write = &writes[results[i].tag];
        if (results[i].tag >= STORM_DEPTH || !write->used)
            return pair_fail(pair, "a result came twice, or of nothing");
        write->used = false;
        if (!take_result(pair, write, &results[i]))
            return false;
    }
    if (count == 0)
        okv_wait(pair->broken, WAIT_MS);
    return true;
}

/* With what these calls may say when a connection ends. */
static void fail_a_call(struct pair *pair)
{
    unsigned nth = 1 + (unsigned)random_below(&pair->random, 5);

    if (pair->submitted % 3 == 0)
        chaos_fail(&pair->chaos, CHAOS_POST_READ, nth, OKV_EDISCONNECTED);
    else
        chaos_fail(&pair->chaos, CHAOS_POST_SEND, nth,
                   random_below(&pair->random, 2) ? OKV_EDISCONNECTED : OKV_EIO);
}

static bool submit(struct pair *pair, struct under_way *writes)
{
    unsigned free = 0;

    while (writes[free].used)
        free++;
    make_command(pair, &writes[free]);
    writes[free].command.tag = free;
    writes[free].used = true;
    if (pair->submitted % FAILURE_EVERY == 0)
        fail_a_call(pair);
    int rc = okv_submit(pair->broken, &writes[free].command, 1, NULL);
    if (rc)
        return pair_fail(pair, "submit said %s: %s", okv_errname(rc), okv_why(pair->broken));
    return true;
}

static bool storm(struct pair *pair)
{
    struct under_way writes[STORM_DEPTH] = {0};
    unsigned wanted = pair->rounds * WRITES_PER_ROUND;

    while (pair->submitted < wanted || okv_pending(pair->broken) > 0) {
        if (pair->submitted < wanted && okv_pending(pair->broken) < STORM_DEPTH) {
            if (!submit(pair, writes))
                return false;
            if (random_below(&pair->random, 2) && !plain_write(pair))
                return false;
        } else if (!poll_results(pair, writes)) {
            return false;
        }
    }
    return true;
}

void *pair_run_storm(void *argument)
{
    struct pair *pair = argument;
    struct chaos *chaos = &pair->chaos;
    static const uint32_t one_in[CHAOS_FAULTS] = {
        [CHAOS_LOSE_REPLY] = 60,     [CHAOS_LOSE_REQUEST] = 200, [CHAOS_BREAK_SENT] = 200,
        [CHAOS_BREAK_REPLIED] = 200, [CHAOS_BREAK_POLL] = 2000,  [CHAOS_DELAY] = 10,
        [CHAOS_FAIL_CONNECT] = 10,
    };

    memcpy(chaos->one_in, one_in, sizeof one_in);
    chaos_use(chaos);
    storm(pair);
    chaos_use(NULL);
    memset(chaos->one_in, 0, sizeof chaos->one_in);
    memset(chaos->countdown, 0, sizeof chaos->countdown);
    return NULL;
}

/* ---- what must have come of it ---- */

/* Every sum from 1 to the counter's was told once. */
static bool check_counter(struct pair *pairs, unsigned count, unsigned counter)
{
    char key[32], text[32] = "";
    size_t length = 0, told = 0;
    int rc =
        okv_get(pairs->plain, key, counter_key(counter, key), text, sizeof text - 1, &length, NULL);
    uint64_t sum = rc ? 0 : strtoull(text, NULL, 10);
    bool *seen = calloc(sum + 1, sizeof *seen);
    bool right = seen && (rc == 0 || rc == OKV_ENOTFOUND);

    for (unsigned i = 0; right && i < count; i++) {
        for (size_t k = 0; right && k < pairs[i].sums.count; k++) {
            const struct told *entry = &pairs[i].sums.entries[k];
            if (entry->counter != counter)
                continue;
            right = entry->number > 0 && entry->number <= sum && !seen[entry->number];
            if (right)
                seen[entry->number] = true;
            else
                pair_fail(pairs, "sum %llu of a counter that is %llu was told twice, or to nobody",
                          (unsigned long long)entry->number, (unsigned long long)sum);
            told++;
        }
    }
    free(seen);
    if (right && told != sum)
        return pair_fail(pairs, "a counter is %llu after %zu increments", (unsigned long long)sum,
                         told);
    return right || pair_fail(pairs, "counter %u: %s", counter, okv_errname(rc));
}

/* Each record stands where its append was told, and nothing beside them. */
static bool check_log(struct pair *pair, unsigned log)
{
    static const unsigned size = 4 * STORM_LOG_RECORDS * STORM_RECORD;
    char key[32], record[STORM_RECORD + 1];
    size_t length = 0, told = 0;
    char *text = calloc(1, size);
    int rc = text ? okv_get(pair->plain, key, log_key(pair, log, key), text, size, &length, NULL)
                  : OKV_ENOMEM;
    bool right = rc == 0 || rc == OKV_ENOTFOUND;

    for (size_t i = 0; right && i < pair->records.count; i++) {
        const struct told *entry = &pair->records.entries[i];
        if (entry->counter != log)
            continue;
        told++;
        snprintf(record, sizeof record, "%015llu;", (unsigned long long)entry->number);
        right = entry->end >= STORM_RECORD && entry->end <= length &&
                memcmp(text + entry->end - STORM_RECORD, record, STORM_RECORD) == 0;
    }
    free(text);
    if (!right)
        return pair_fail(pair, "log %u: a record is not where it was told (%s)", log,
                         okv_errname(rc));
    /* the records are distinct, so are their places: as many as fit means each once */
    return told * STORM_RECORD == length ||
           pair_fail(pair, "log %u has %zu bytes after %zu records", log, length, told);
}

const char *storm_check(struct pair *pairs, unsigned count)
{
    for (unsigned counter = 0; counter < STORM_COUNTERS; counter++) {
        if (!check_counter(pairs, count, counter))
            return pairs->failure;
    }
    for (unsigned i = 0; i < count; i++) {
        for (unsigned log = 0; log <= pairs[i].submitted / STORM_LOG_RECORDS; log++) {
            if (!check_log(&pairs[i], log))
                return pairs[i].failure;
        }
    }
    return NULL;
}
