#include "shared/base/resolve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <resolv.h>
#include <stdbool.h>
#include <stdio.h>
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

void okv_host_text(const struct sockaddr *address, char *out, size_t size)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)address;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)address;

    if (address->sa_family == AF_INET)
        inet_ntop(AF_INET, &in->sin_addr, out, (socklen_t)size);
    else if (address->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
        inet_ntop(AF_INET, &in6->sin6_addr.s6_addr[12], out, (socklen_t)size);
    else if (address->sa_family == AF_INET6)
        inet_ntop(AF_INET6, &in6->sin6_addr, out, (socklen_t)size);
    else
        snprintf(out, size, "?");
}

void okv_host_group_text(const struct sockaddr *address, char *out)
{
    struct sockaddr_in6 group = {.sin6_family = AF_INET6};
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)address;
    const size_t prefix = sizeof group.sin6_addr / 2;

    if (address->sa_family != AF_INET6 || IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr)) {
        okv_host_text(address, out, OKV_HOST_TEXT);
        return;
    }
    memcpy(&group.sin6_addr, &in6->sin6_addr, prefix);
    okv_host_text((const struct sockaddr *)&group, out, OKV_HOST_TEXT);
    strcat(out, "/64");
}

/* A link-local address is of no use without its zone. */
static void add_zone(const struct sockaddr *address, char *host, size_t size)
{
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)address;
    char zone[IF_NAMESIZE];
    size_t length = strlen(host);

    if (address->sa_family == AF_INET6 && in6->sin6_scope_id &&
        if_indextoname(in6->sin6_scope_id, zone))
        snprintf(host + length, size - length, "%%%s", zone);
}

void okv_address_text(const struct sockaddr *address, char *out, size_t size)
{
    /* The port has the same offset in both families. */
    unsigned port = ntohs(((const struct sockaddr_in *)(const void *)address)->sin_port);
    char host[INET6_ADDRSTRLEN + IF_NAMESIZE];

    okv_host_text(address, host, sizeof host);
    add_zone(address, host, sizeof host);
    if (host[0] == '?')
        snprintf(out, size, "?");
    else
        snprintf(out, size, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
}

int okv_bind_failed(int errnum, const char *host, const char *port, struct okv_diag *diag)
{
    switch (errnum) {
    case EADDRINUSE:
        return okv_diag_set(diag, OKV_EAGAIN,
                            "the port is in use by another program: stop that one, or choose "
                            "another port");
    case EADDRNOTAVAIL:
        return okv_diag_set(diag, OKV_EADDRESS,
                            "no network device of this machine has the address %s: see 'ip addr'",
                            host);
    default:
        return okv_diag_set(diag, okv_error_from_errno(errnum), "cannot listen on %s port %s: %s",
                            host, port, strerror(errnum));
    }
}
