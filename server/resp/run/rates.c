#include "server/resp/run/rates.h"

#include "server/core/server.h"
#include "server/resp/run/shared.h"
#include "shared/base/clock.h"

void okv_resp_rates_init(struct okv_resp_rates *rates)
{
    pthread_mutex_init(&rates->lock, NULL);
    rates->before.ns = rates->last.ns = okv_clock_ns();
}

void okv_resp_rates_fini(struct okv_resp_rates *rates)
{
    pthread_mutex_destroy(&rates->lock);
}

static struct okv_resp_sample sample(const struct okv_server *server, uint64_t now_ns)
{
    const struct okv_stats *stats = &server->stats;

    return (struct okv_resp_sample){now_ns, atomic_load(&stats->resp_commands),
                                    atomic_load(&stats->bytes_in), atomic_load(&stats->bytes_out)};
}

void okv_resp_rates_note(struct okv_server *server, uint64_t now_ns)
{
    struct okv_resp_rates *rates = &server->resp_shared->rates;

    if (now_ns < atomic_load_explicit(&rates->due_ns, memory_order_relaxed))
        return;
    pthread_mutex_lock(&rates->lock);
    if (now_ns >= atomic_load(&rates->due_ns)) {
        rates->before = rates->last;
        rates->last = sample(server, now_ns);
        atomic_store(&rates->due_ns, now_ns + OKV_RESP_SAMPLE_NS);
    }
    pthread_mutex_unlock(&rates->lock);
}

static uint64_t per_second(uint64_t from, uint64_t to, uint64_t ns)
{
    return (uint64_t)((double)(to - from) * 1e9 / (double)ns);
}

void okv_resp_rates_get(struct okv_server *server, uint64_t now_ns, struct okv_resp_sample *rate)
{
    struct okv_resp_rates *rates = &server->resp_shared->rates;
    const struct okv_resp_sample now = sample(server, now_ns);

    pthread_mutex_lock(&rates->lock);
    bool is_old = now_ns >= rates->last.ns + OKV_RESP_SAMPLE_NS;
    struct okv_resp_sample from = is_old ? rates->last : rates->before;
    pthread_mutex_unlock(&rates->lock);
    uint64_t ns = now_ns > from.ns ? now_ns - from.ns : 1;
    *rate = (struct okv_resp_sample){ns, per_second(from.commands, now.commands, ns),
                                     per_second(from.bytes_in, now.bytes_in, ns),
                                     per_second(from.bytes_out, now.bytes_out, ns)};
}
