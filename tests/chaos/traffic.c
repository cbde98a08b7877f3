#include "tests/chaos/traffic.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/clock.h"
#include "tests/support/linearizability.h"
#include "tests/support/numbered_value.h"
#include "tests/support/pace.h"
#include "tests/support/random.h"

#define SECOND UINT64_C(1000000000)
/* Operations without an answer make many configurations. */
#define STATES_MAX 20000
#define COMPLAINTS_MAX 3
#define READER TRAFFIC_CLIENTS /* the thread of those that read at the end */

bool traffic_is_answer(const struct history_record *record)
{
    return record->result < HISTORY_UNKNOWN;
}

static okv *open_or_fail(struct traffic *traffic)
{
    const struct okv_options options = {.timeout_ms = PACE_GUARD_MS,
                                        .connect_timeout_ms = PACE_GUARD_MS};
    char why[320] = "";
    okv *handle = NULL;
    int rc = okv_open(traffic->uri, &options, &handle, why, sizeof why);

    if (rc)
        battery_fail(traffic->battery, "okv_open: %s: %s", okv_errname(rc), why);
    return handle;
}

static void appenders_start(struct traffic *traffic)
{
    for (unsigned i = 0; i < TRAFFIC_APPENDERS; i++) {
        traffic->appenders[i] = (struct appender){
            .uri = traffic->uri,
            .index = i,
            .timeout_ms = traffic->timeout_ms,
            .reopen = traffic->battery->weak,
            .stop = &traffic->stop,
        };
        if (!appender_start(&traffic->appenders[i]))
            battery_fail(traffic->battery, "no thread");
        else
            traffic->appender_count++;
    }
}

/* What goes wrong later is to meet clients that are at work. */
static void await_opened(struct traffic *traffic)
{
    uint64_t end = pace_guard_end();
    unsigned opened = 0;

    while (opened < TRAFFIC_CLIENTS + traffic->appender_count && okv_clock_ns() < end) {
        battery_sleep(0.05);
        opened = atomic_load(&traffic->load.opened);
        for (unsigned i = 0; i < traffic->appender_count; i++)
            opened += atomic_load(&traffic->appenders[i].opened);
    }
    if (opened < TRAFFIC_CLIENTS + traffic->appender_count)
        battery_fail(traffic->battery, "only %u clients are connected", opened);
}

void traffic_start(struct traffic *traffic, struct battery *battery, const char *uri,
                   unsigned round, uint32_t timeout_ms, bool with_logs)
{
    *traffic = (struct traffic){.battery = battery, .uri = uri, .timeout_ms = timeout_ms};
    traffic->load = (struct recorded_load){
        .uri = uri,
        .seed = random_mix(battery->seed + round * UINT64_C(1000)),
        .until_ns = 1, /* long ago: they end when they are told to */
        .and_until = &traffic->stop,
        .timeout_ms = timeout_ms,
        .numbers_from = (uint64_t)round << 28,
        .reopen = battery->weak,
    };
    recorded_load_init(&traffic->load);
    okv *handle = open_or_fail(traffic);
    int rc = handle ? okv_flush(handle) : OKV_OK;
    if (rc)
        battery_fail(battery, "the table cannot be emptied: %s", okv_errname(rc));
    okv_close(&handle);
    traffic->begin_ns = okv_clock_ns();
    for (unsigned i = 0; i < TRAFFIC_CLIENTS; i++)
        if (!recorded_client_start(&traffic->clients[i], &traffic->load, i)) {
            battery_fail(battery, "no thread or no memory");
            exit(1);
        }
    if (with_logs)
        appenders_start(traffic);
    await_opened(traffic);
}

void traffic_stop(struct traffic *traffic)
{
    struct history_log logs[TRAFFIC_CLIENTS];
    int failure;

    traffic->end_ns = okv_clock_ns();
    atomic_store(&traffic->stop, true);
    for (unsigned i = 0; i < TRAFFIC_CLIENTS; i++) {
        struct recorded_client *client = &traffic->clients[i];
        recorded_client_join(client);
        logs[i] = client->log;
        traffic->unknown += client->unknown;
        traffic->failed += client->failed;
        traffic->reopened += client->reopened;
        if (client->broken_text[0])
            battery_fail(traffic->battery, "client %u: %s", i, client->broken_text);
    }
    for (unsigned i = 0; i < traffic->appender_count; i++) {
        appender_join(&traffic->appenders[i]);
        traffic->reopened += traffic->appenders[i].reopened;
        failure = traffic->appenders[i].failure;
        if (failure)
            battery_fail(traffic->battery, "the handle of appender %u failed: %s", i,
                         okv_errname(failure));
    }
    failure = atomic_load(&traffic->load.failure);
    if (failure)
        battery_fail(traffic->battery, "a client's handle failed: %s", okv_errname(failure));
    if (!history_merge(&traffic->history, logs, TRAFFIC_CLIENTS))
        battery_fail(traffic->battery, "no memory for the history");
    for (unsigned i = 0; i < TRAFFIC_CLIENTS; i++)
        history_log_fini(&logs[i]);
}

void traffic_fini(struct traffic *traffic)
{
    history_fini(&traffic->history);
    for (unsigned i = 0; i < traffic->appender_count; i++)
        free(traffic->appenders[i].outcomes);
}

/* ---- what is there at the end ---- */

static bool value_parse(uint32_t key, uint8_t *bytes, size_t length, uint64_t *value)
{
    char *end;

    if (key < RECORDED_REGISTERS)
        return numbered_value_check(bytes, length, key, value);
    bytes[length] = '\0';
    *value = (uint64_t)strtoll((char *)bytes, &end, 10);
    return length > 0 && end == (char *)bytes + length;
}

static bool key_read(struct traffic *traffic, okv *handle, uint32_t number, uint8_t *bytes,
                     struct history_record *record)
{
    const struct recorded_key *key = &traffic->load.keys[number];
    size_t length = 0;

    *record = (struct history_record){
        .key = number, .thread = READER, .kind = HISTORY_GET, .invoke = okv_clock_ns()};
    int rc = okv_get(handle, key->bytes, key->length, bytes, NUMBERED_VALUE_MAX, &length,
                     &record->version);
    record->response = okv_clock_ns();
    if (rc == OKV_ENOTFOUND) {
        record->result = HISTORY_NOTFOUND;
        record->version = 0;
        return true;
    }
    if (rc || !value_parse(number, bytes, length, &record->value)) {
        battery_fail(traffic->battery, "key %u cannot be read at the end: %s", number,
                     rc ? okv_errname(rc) : "not a value that was written");
        return false;
    }
    return true;
}

void traffic_read_all(struct traffic *traffic)
{
    struct history *history = &traffic->history;
    struct history_record *more =
        realloc(history->records, (history->length + RECORDED_KEYS) * sizeof *more);
    uint8_t *bytes = malloc(NUMBERED_VALUE_MAX + 1);
    okv *handle = open_or_fail(traffic);

    history->records = more ? more : history->records;
    for (uint32_t key = 0; more && bytes && handle && key < RECORDED_KEYS; key++)
        if (key_read(traffic, handle, key, bytes, &more[history->length]))
            history->length++;
    history_sort(history->records, history->length);
    okv_close(&handle);
    free(bytes);
}

/* ---- judgement ---- */

void traffic_judge(struct battery *battery, struct history *history, const char *what)
{
    const struct linearizability_options options = {.states_max = STATES_MAX};
    struct linearizability_report report;
    char text[200] = "";
    unsigned wrong = 0;

    if (recorded_heads_resolve(history, text, sizeof text))
        battery_fail(battery, "%s: %s", what, text);
    for (size_t first = 0, end; first < history->length; first = end) {
        end = history_key_end(history, first);
        enum linearizability_verdict verdict =
            linearizability_check_key(history->records + first, end - first, &options, &report);
        if (verdict != LINEARIZABILITY_HOLDS && wrong++ < COMPLAINTS_MAX)
            battery_fail(battery, "%s: key %u: %s: %s", what, history->records[first].key,
                         linearizability_verdict_text(verdict), report.text);
    }
}

void traffic_check_order(struct traffic *traffic)
{
    traffic_judge(traffic->battery, &traffic->history, "history");
}

void traffic_check_logs(struct traffic *traffic)
{
    okv *handle = open_or_fail(traffic);
    struct appender_counts sum = {0}, one;
    char text[APPENDER_TEXT];

    for (unsigned i = 0; handle && i < traffic->appender_count; i++) {
        appender_check(&traffic->appenders[i], handle, &one, text);
        if (text[0])
            battery_fail(traffic->battery, "%s", text);
        sum.acknowledged += one.acknowledged;
        sum.unknown += one.unknown;
        sum.unknown_done += one.unknown_done;
        sum.failed += one.failed;
    }
    okv_close(&handle);
    if (sum.acknowledged == 0)
        battery_fail(traffic->battery, "nothing was appended");
    battery_note(traffic->battery,
                 "appends: %" PRIu64 " acknowledged, %" PRIu64 " unknown (%" PRIu64
                 " of them there), %" PRIu64 " failed",
                 sum.acknowledged, sum.unknown, sum.unknown_done, sum.failed);
}

/* Returns how long it took. */
static double check_deadline(struct traffic *traffic, uint64_t invoke_ns, uint64_t response_ns,
                             unsigned *late)
{
    double took = (double)(response_ns - invoke_ns) / 1e9;

    if (*late < COMPLAINTS_MAX &&
        battery_is_late(invoke_ns, response_ns, traffic->timeout_ms / 1e3) && ++*late)
        battery_fail(traffic->battery, "an operation took %.2f s with a deadline of %.1f s", took,
                     traffic->timeout_ms / 1e3);
    return took;
}

void traffic_check_deadlines(struct traffic *traffic)
{
    double slowest = 0, took;
    unsigned late = 0;

    for (size_t i = 0; i < traffic->history.length; i++) {
        const struct history_record *record = &traffic->history.records[i];
        if (record->thread == READER)
            continue;
        took = check_deadline(traffic, record->invoke, record->response, &late);
        slowest = took > slowest ? took : slowest;
    }
    for (unsigned i = 0; i < traffic->appender_count; i++) {
        const struct appender *appender = &traffic->appenders[i];
        took = check_deadline(traffic, appender->slowest_begin_ns,
                              appender->slowest_begin_ns + appender->slowest_ns, &late);
        slowest = took > slowest ? took : slowest;
    }
    battery_note(traffic->battery, "slowest operation %.2f s with a deadline of %.1f s", slowest,
                 traffic->timeout_ms / 1e3);
}

static int time_compare(const void *left, const void *right)
{
    const uint64_t *a = left, *b = right;

    return (*a > *b) - (*a < *b);
}

/* When a client had answers, in order; the caller frees. */
static uint64_t *answers_of(const struct traffic *traffic, unsigned client, size_t *count)
{
    const struct history *history = &traffic->history;
    uint64_t *times = malloc((history->length + 1) * sizeof *times);

    *count = 0;
    for (size_t i = 0; times && i < history->length; i++)
        if (history->records[i].thread == client && traffic_is_answer(&history->records[i]))
            times[(*count)++] = history->records[i].response;
    if (times)
        qsort(times, *count, sizeof *times, time_compare);
    return times;
}

void traffic_check_progress(struct traffic *traffic, uint64_t from_ns, uint64_t to_ns,
                            double seconds)
{
    uint64_t longest = 0;

    for (unsigned client = 0; client < TRAFFIC_CLIENTS; client++) {
        size_t count;
        uint64_t *times = answers_of(traffic, client, &count);
        uint64_t last = from_ns;
        for (size_t i = 0; i <= count && last < to_ns; i++) {
            uint64_t now = i < count && times[i] < to_ns ? times[i] : to_ns;
            if (now <= last)
                continue;
            if (battery_is_late(last, now, seconds))
                battery_fail(traffic->battery, "client %u had no answer for %.2f s", client,
                             (double)(now - last) / 1e9);
            longest = now - last > longest ? now - last : longest;
            last = now;
        }
        free(times);
    }
    battery_note(traffic->battery, "longest time of a client without an answer %.2f s",
                 (double)longest / 1e9);
}

double traffic_check_back(struct traffic *traffic, uint64_t from_ns, double seconds,
                          const char *what)
{
    char text[TRAFFIC_CLIENTS * 12] = "";
    size_t length = 0;
    double last = 0;

    for (unsigned client = 0; client < TRAFFIC_CLIENTS; client++) {
        size_t count, at = 0;
        uint64_t *times = answers_of(traffic, client, &count);
        while (at < count && times[at] < from_ns)
            at++;
        double after = at < count ? (double)(times[at] - from_ns) / 1e9 : 0;
        bool is_late = at < count && battery_is_late(from_ns, times[at], seconds);
        free(times);
        if (at == count)
            battery_fail(traffic->battery, "%s: client %u did not come back", what, client);
        else if (is_late)
            battery_fail(traffic->battery, "%s: client %u was back after %.2f s", what, client,
                         after);
        length += (size_t)snprintf(text + length, sizeof text - length, " %.2f", after);
        last = after > last ? after : last;
    }
    battery_note(traffic->battery, "%s: clients back after%s s", what, text);
    return last;
}
