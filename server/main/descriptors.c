#include "server/main/descriptors.h"

#include <stdbool.h>
#include <sys/resource.h>

#include "shared/base/error.h"
#include "shared/transport/common/pending.h"

/* Those of the process, of a listener and of a worker at a listener; generous, as libraries open
 * some of their own. */
#define OF_PROCESS 64u
#define OF_LISTENER 16u
#define OF_RESP_LISTENER 3u
#define OF_WORKER 16u
/* Of a client: over local:// its socket, its process, the memory of its values and, until its first
 * message, of its rings; over ofi:// two connections, with net and tcp. */
#define OF_LOCAL_CLIENT 4u
#define OF_OFI_CLIENT 2u
#define OF_TCP_CLIENT 1u
#define OF_RESP_CLIENT 1u

static unsigned of_client(const struct okv_config *config)
{
    unsigned most = config->resp_count ? OF_RESP_CLIENT : 0;

    for (unsigned i = 0; i < config->listen_count; i++) {
        enum okv_scheme scheme = config->listen[i].scheme;
        unsigned own = scheme == OKV_SCHEME_LOCAL ? OF_LOCAL_CLIENT
                       : scheme == OKV_SCHEME_OFI ? OF_OFI_CLIENT
                       : scheme == OKV_SCHEME_TCP ? OF_TCP_CLIENT
                                                  : 0;
        most = own > most ? own : most;
    }
    return most;
}

static uint64_t without_clients(const struct okv_config *config)
{
    uint64_t sum = OF_PROCESS + OF_RESP_LISTENER * config->resp_count;

    if (config->metrics.host[0])
        sum += OKV_SCRAPERS_ADMITTED;
    if (config->resp_count) /* those that are silent, and those that made room for them */
        sum += 2 * (uint64_t)config->max_silent;
    for (unsigned i = 0; i < config->listen_count; i++) {
        sum += OF_LISTENER + (uint64_t)config->workers * OF_WORKER;
        if (config->listen[i].tls) /* those that made room while they shook hands */
            sum += 2 * (uint64_t)config->max_silent;
        if (config->listen[i].scheme != OKV_SCHEME_RDMA) /* its connections share one channel */
            sum += config->max_silent;
    }
    return sum;
}

/* Fewer clients, so that the places that are kept for some of them are there. */
static int lower(struct okv_config *config, uint64_t wanted, uint64_t limit, struct okv_diag *diag)
{
    uint32_t asked = config->max_clients;
    uint64_t room = (limit - without_clients(config)) / of_client(config);

    config->max_clients = room > asked ? asked : (uint32_t)room;
    return okv_diag_set(diag, OKV_EPERM,
                        "the hard limit on open files is %llu, and %u clients may take %llu: takes "
                        "no more than %u; raise it (ulimit -Hn, LimitNOFILE=), or lower "
                        "--max-clients",
                        (unsigned long long)limit, asked, (unsigned long long)wanted,
                        config->max_clients);
}

/* No number of clients is low enough. */
static int warn(const struct okv_config *config, uint64_t limit, struct okv_diag *diag)
{
    return okv_diag_set(diag, OKV_EPERM,
                        "the hard limit on open files is %llu, and the server needs %llu: raise it "
                        "(ulimit -Hn, LimitNOFILE=)",
                        (unsigned long long)limit,
                        (unsigned long long)without_clients(config) + of_client(config));
}

int okv_descriptors_raise(struct okv_config *config, struct okv_diag *diag)
{
    uint64_t least = without_clients(config) + of_client(config);
    uint64_t wanted = without_clients(config) + (uint64_t)config->max_clients * of_client(config);
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= wanted)
        return 0;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    if (setrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == wanted)
        return 0;
    if (of_client(config) == 0 || limit.rlim_max < least)
        return warn(config, limit.rlim_max, diag);
    return lower(config, wanted, limit.rlim_max, diag);
}
