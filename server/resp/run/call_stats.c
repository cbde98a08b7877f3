#include "server/resp/run/call_stats.h"

#include <stdlib.h>
#include <string.h>

#include "server/core/server.h"
#include "server/resp/run/command.h"
#include "server/resp/run/shared.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

static const char *const names[] = {
#define OKV_RESP_ERROR_NAME(name) #name,
    OKV_RESP_ERRORS_LIST(OKV_RESP_ERROR_NAME)
#undef OKV_RESP_ERROR_NAME
};

/* The worker alone writes, so that no other addition is lost. */
static void add(atomic_uint_fast64_t *count, uint64_t n)
{
    uint64_t now = atomic_load_explicit(count, memory_order_relaxed);

    atomic_store_explicit(count, now + n, memory_order_relaxed);
}

static uint64_t load(const atomic_uint_fast64_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

int okv_resp_call_stats_init(struct okv_resp *resp)
{
    struct okv_resp_call_stats *stats =
        calloc(1, sizeof *stats + resp->commands->count * sizeof *stats->commands);

    if (!stats)
        return OKV_ENOMEM;
    resp->call_stats = stats;
    if (resp->shared) /* there are listeners */
        resp->shared->call_stats[resp->worker] = stats;
    return 0;
}

void okv_resp_call_stats_fini(struct okv_resp *resp)
{
    if (resp->shared)
        resp->shared->call_stats[resp->worker] = NULL;
    free(resp->call_stats);
}

/* ---- counting ---- */

static bool is_code(const struct okv_resp_buffer *out, size_t from, const char *name)
{
    size_t length = strlen(name);

    return out->used - from > length + 1 && out->bytes[from + 1 + length] == ' ' &&
           memcmp(out->bytes + from + 1, name, length) == 0;
}

bool okv_resp_count_error(struct okv_resp *resp, const struct okv_resp_buffer *out, size_t from)
{
    if (out->used <= from || out->bytes[from] != '-')
        return false;
    for (unsigned i = 0; i < OKV_RESP_ERROR_CODES; i++)
        if (is_code(out, from, names[i]))
            add(&resp->call_stats->errors[i], 1);
    return true;
}

static struct okv_resp_command_counts *counts_of(struct okv_resp *resp,
                                                 const struct okv_resp_command *command)
{
    return &resp->call_stats->commands[command - resp->commands->commands];
}

/* Another processor's counter may be behind. */
void okv_resp_count_steps(struct okv_resp *resp, const struct okv_resp_command *command,
                          uint64_t began)
{
    uint64_t now = okv_clock_steps();

    add(&counts_of(resp, command)->steps, now > began ? now - began : 0);
}

void okv_resp_count_call(struct okv_resp *resp, const struct okv_resp_command *command,
                         const struct okv_resp_buffer *out, size_t from, bool has_run)
{
    struct okv_resp_command_counts *counts = counts_of(resp, command);
    bool has_failed = okv_resp_count_error(resp, out, from);

    add(&counts->calls, has_run);
    add(&counts->failed, has_run && has_failed);
    add(&counts->rejected, !has_run && has_failed);
}

/* ---- sums ---- */

struct okv_resp_command_stats okv_resp_command_stats(const struct okv_server *server,
                                                     unsigned command)
{
    struct okv_resp_command_stats sum = {.calls = 0};

    for (unsigned i = 0; i < server->config.workers; i++) {
        const struct okv_resp_command_counts *counts =
            &server->resp_shared->call_stats[i]->commands[command];
        sum.calls += load(&counts->calls);
        sum.steps += load(&counts->steps);
        sum.rejected += load(&counts->rejected);
        sum.failed += load(&counts->failed);
    }
    return sum;
}

uint64_t okv_resp_errors(const struct okv_server *server, enum okv_resp_error_code code)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < server->config.workers; i++)
        sum += load(&server->resp_shared->call_stats[i]->errors[code]);
    return sum;
}

const char *okv_resp_error_name(enum okv_resp_error_code code)
{
    return names[code];
}

uint64_t okv_resp_steps_us(const struct okv_server *server, uint64_t steps)
{
    const struct okv_resp_shared *shared = server->resp_shared;
    uint64_t all = okv_clock_steps() - shared->began_steps;
    uint64_t all_ns = okv_clock_ns() - shared->began_ns;

    return all ? (uint64_t)((double)steps / (double)all * (double)all_ns / 1000) : 0;
}
