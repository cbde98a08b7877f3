#include "server/descriptors.h"

#include <stdbool.h>
#include <sys/resource.h>

#include "shared/base/error.h"
#include "shared/transport/pending.h"

/* Those of the process, of a listener and of a worker at a listener; generous, as libraries open
 * some of their own. */
#define OF_PROCESS 64u
#define OF_LISTENER 16u
#define OF_WORKER 16u
/* Of a client: over local:// its socket, its process and the memory of its rings. */
#define OF_CLIENT 3u

static uint64_t needed(const struct okv_config *config)
{
    return OF_PROCESS + config->max_clients * (uint64_t)OF_CLIENT +
           config->listen_count *
               (OF_LISTENER + OKV_PENDING_MAX + (uint64_t)config->workers * OF_WORKER);
}

int okv_descriptors_raise(const struct okv_config *config, struct okv_diag *diag)
{
    uint64_t wanted = needed(config);
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= wanted)
        return 0;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    if (setrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == wanted)
        return 0;
    return okv_diag_set(diag, OKV_EPERM,
                        "the hard limit on open files is %llu, and %u clients may take %llu: some "
                        "may be refused; raise it (ulimit -Hn, LimitNOFILE=), or lower "
                        "--max-clients",
                        (unsigned long long)limit.rlim_max, config->max_clients,
                        (unsigned long long)wanted);
}
