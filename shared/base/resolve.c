#include "shared/base/resolve.h"

#include <errno.h>
#include <netinet/in.h>
#include <resolv.h>
#include <stdbool.h>
#include <string.h>

#include "shared/base/error.h"

/*
 * The resolver's default timeout, 5 s per attempt and name server, is too long. Its settings are
 * per thread (man resolver) and restored afterwards.
 */
static int resolve_bounded(const char *host, const char *port, const struct addrinfo *hints,
                           struct addrinfo **out)
{
    bool known = (_res.options & RES_INIT) || res_init() == 0;
    int retrans = _res.retrans;
    int retry = _res.retry;

    if (known) {
        _res.retrans = 1;
        _res.retry = 1;
    }
    int gai = getaddrinfo(host, port, hints, out);
    if (known) {
        _res.retrans = retrans;
        _res.retry = retry;
    }
    return gai;
}

int okv_resolve(const char *host, const char *port, int flags, struct addrinfo **out,
                struct okv_diag *diag)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags};
    int gai = resolve_bounded(host, port, &hints, out);
    if (gai == 0)
        return 0;
    return okv_diag_set(diag, OKV_EADDRESS,
                        "the host %s cannot be resolved (%s): check the name or give an address",
                        host, gai == EAI_SYSTEM ? strerror(errno) : gai_strerror(gai));
}
