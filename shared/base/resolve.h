/* Names to addresses, in bounded time. */
#ifndef OKV_SHARED_BASE_RESOLVE_H
#define OKV_SHARED_BASE_RESOLVE_H

#include <netdb.h>

#include "shared/base/diag.h"

/* The stream addresses of `host`, which freeaddrinfo() frees; `port` may be NULL, `flags` are those
 * of getaddrinfo(3). Asking a name server blocks for a second or so. Returns 0 or OKV_EADDRESS with
 * a sentence. */
int okv_resolve(const char *host, const char *port, int flags, struct addrinfo **out,
                struct okv_diag *diag);

#endif
