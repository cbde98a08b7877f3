/* Counts and checks the results of a loop. */
#include <stdio.h>
#include <string.h>

#include "bench/load/loop_state.h"
#include "shared/base/clock.h"

void loop_tally_init(struct loop_tally *tally)
{
    memset(tally, 0, sizeof *tally);
    for (int operation = 0; operation < OPERATION_COUNT; operation++)
        histogram_init(&tally->latency[operation]);
}

void loop_tally_merge(struct loop_tally *into, const struct loop_tally *from)
{
    for (int operation = 0; operation < OPERATION_COUNT; operation++) {
        if (from->latency[operation].count > 0)
            histogram_merge(&into->latency[operation], &from->latency[operation]);
    }
    into->missing += from->missing;
    into->conflicts += from->conflicts;
    into->wrong += from->wrong;
    into->refused += from->refused;
    into->failed += from->failed;
    into->key_bytes += from->key_bytes;
    into->value_bytes += from->value_bytes;
    if (into->code == OKV_OK && from->code != OKV_OK) {
        into->code = from->code;
        memcpy(into->why, from->why, sizeof into->why);
    }
}

/* ---- results ------------------------------------------------------------ */

void loop_note_failure(struct loop *loop, const struct connection *connection, int code)
{
    struct loop_tally *tally = loop->tally;

    if (tally->code != OKV_OK)
        return;
    const char *why = connection->target->ops->why(connection->target);
    tally->code = code;
    snprintf(tally->why, sizeof tally->why, "%s", why[0] != '\0' ? why : okv_strerror(code));
}

/* Codes that every later operation would return too. */
static bool is_final(int code)
{
    switch (code) {
    case OKV_EINVAL:
    case OKV_EKEYSIZE:
    case OKV_EVALUESIZE:
    case OKV_EDENIED:
    case OKV_EFULL:
    case OKV_EDISCONNECTED:
    case OKV_ESHUTDOWN:
    case OKV_EPROTO:
    case OKV_ENOMEM:
    case OKV_EIO:
    case OKV_EUNSUPPORTED:
        return true;
    default:
        return false;
    }
}

bool loop_slot_gets(const struct slot *slot)
{
    return slot->operation == OPERATION_GET ||
           (!slot->writes &&
            (slot->operation == OPERATION_RMW || slot->operation == OPERATION_CAS));
}

uint64_t loop_value_number(const struct loop *loop, uint64_t record)
{
    const struct trace *trace = loop->config.trace;

    return trace ? trace_number(trace, record) : record;
}

uint32_t loop_value_size(const struct loop *loop, uint64_t record)
{
    const struct trace *trace = loop->config.trace;

    return trace ? trace->sizes[record] : workload_value_size(loop->config.values, record);
}

size_t loop_key_size(const struct loop *loop, const struct slot *slot)
{
    size_t length = loop->config.key_size;

    if (loop->config.trace)
        trace_key(loop->config.trace, slot->record, &length);
    return length;
}

void loop_check_success(struct loop *loop, const struct slot *slot, const struct okv_result *result)
{
    struct loop_tally *tally = loop->tally;

    tally->key_bytes += loop_key_size(loop, slot);
    if (loop_slot_gets(slot)) {
        tally->value_bytes += result->length;
        if (result->length != loop_value_size(loop, slot->record) ||
            !workload_value_check(loop_value_number(loop, slot->record), slot->value,
                                  result->length))
            tally->wrong++;
    } else if (slot->operation == OPERATION_INCR) {
        tally->wrong += result->number < 1;
    } else if (slot->operation < OPERATION_MIXED_COUNT && slot->operation != OPERATION_DELETE) {
        tally->value_bytes += slot->value_length;
    }
}

/* Counts a miss, a conflict or a refusal. Returns whether the code is one of them. */
static bool check_answer(struct loop *loop, const struct slot *slot, int status)
{
    struct loop_tally *tally = loop->tally;

    if (status == OKV_ENOTFOUND && loop_slot_gets(slot)) {
        tally->missing++;
        return true;
    }
    if (status == OKV_EFULL && loop->run->stores_misses) {
        tally->refused++;
        return true;
    }
    if (slot->operation == OPERATION_CAS && (status == OKV_ECONFLICT || status == OKV_ENOTFOUND)) {
        tally->conflicts++;
        return true;
    }
    return slot->operation == OPERATION_DELETE && status == OKV_ENOTFOUND;
}

static void record_latency(struct loop *loop, const struct slot *slot)
{
    uint64_t latency_ns = loop->now_ns > slot->start_ns ? loop->now_ns - slot->start_ns : 0;

    histogram_record(&loop->tally->latency[slot->operation], latency_ns);
    if (loop->second)
        histogram_record(loop->second, latency_ns);
}

int loop_count_result(struct loop *loop, const struct connection *connection,
                      const struct slot *slot, const struct okv_result *result)
{
    if (result->status == OKV_OK) {
        loop_check_success(loop, slot, result);
    } else if (result->status == OKV_ETOOSMALL && loop_slot_gets(slot)) {
        loop->tally->wrong++;
        return OKV_OK;
    } else if (!check_answer(loop, slot, result->status)) {
        loop->tally->failed++;
        loop_note_failure(loop, connection, result->status);
        return loop->run->fails_once || is_final(result->status) ? result->status : OKV_OK;
    }
    record_latency(loop, slot);
    return OKV_OK;
}

void loop_see_results(struct loop *loop)
{
    loop->now_ns = okv_clock_ns();
    if (loop->run->series && loop->now_ns >= loop->second_until_ns)
        loop->second = series_at(loop->run->series, loop->now_ns, &loop->second_until_ns);
}
