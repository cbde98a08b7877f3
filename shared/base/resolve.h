/* Names to addresses, in bounded time, and back; what to say of addresses. */
#ifndef OKV_SHARED_BASE_RESOLVE_H
#define OKV_SHARED_BASE_RESOLVE_H

#include <netdb.h>

#include "shared/base/diag.h"

/* The stream addresses of `host`, which freeaddrinfo() frees; `port` may be NULL, `flags` are those
 * of getaddrinfo(3). Asking a name server blocks for a second or so. Returns 0 or OKV_EADDRESS with
 * a sentence. */
int okv_resolve(const char *host, const char *port, int flags, struct addrinfo **out,
                struct okv_diag *diag);

/* "10.9.9.1", "fd00::1"; an IPv4-mapped IPv6 address is written as IPv4. */
void okv_host_text(const struct sockaddr *address, char *out, size_t size);
/* "10.9.9.1:7471", "[fd00::1]:7471" */
void okv_address_text(const struct sockaddr *address, char *out, size_t size);

/* Why nothing can listen on this address. OKV_EAGAIN: another one does. */
int okv_bind_failed(int errnum, const char *host, const char *port, struct okv_diag *diag);

#endif
