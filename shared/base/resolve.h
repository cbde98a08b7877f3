/* Resolves names to addresses, in bounded time, and formats addresses. */
#ifndef OKV_SHARED_BASE_RESOLVE_H
#define OKV_SHARED_BASE_RESOLVE_H

#include <netdb.h>

#include "shared/base/diag.h"

/* The stream addresses of `host`, which freeaddrinfo() frees; `port` may be NULL, `flags` are those
 * of getaddrinfo(3). A query to a name server blocks for about a second. Returns 0 or
 * OKV_EADDRESS with a sentence. */
int okv_resolve(const char *host, const char *port, int flags, struct addrinfo **out,
                struct okv_diag *diag);

/* "10.9.9.1", "fd00::1"; an IPv4-mapped IPv6 address is written as IPv4. */
void okv_host_text(const struct sockaddr *address, char *out, size_t size);
/* The same of the addresses that limits count as one: of an IPv6 address the first 64 bits,
 * "fd00::/64", as a host chooses the others. `out` has OKV_HOST_TEXT bytes. */
#define OKV_HOST_TEXT 64
void okv_host_group_text(const struct sockaddr *address, char *out);
/* "10.9.9.1:7471", "[fd00::1]:7471" */
void okv_address_text(const struct sockaddr *address, char *out, size_t size);

/* Explains why bind() failed with `errnum`, and returns its code. OKV_EAGAIN: the address is in
 * use. */
int okv_bind_failed(int errnum, const char *host, const char *port, struct okv_diag *diag);

#endif
