/*
 * The address of a server:
 *
 *   rdma://HOST[:PORT][?source=ADDRESS]   RDMA CM, default port 7471
 *   local:///PATH                         a Unix socket on this host
 *
 * HOST is a name, an IPv4 address or an IPv6 address in brackets. "*" listens on the only RDMA
 * device of a machine. `source` is the local address of a client.
 */
#ifndef OKV_SHARED_BASE_URI_H
#define OKV_SHARED_BASE_URI_H

#include "shared/base/diag.h"

#define OKV_DEFAULT_PORT "7471"

enum okv_scheme { OKV_SCHEME_RDMA, OKV_SCHEME_LOCAL };

struct okv_uri {
    enum okv_scheme scheme;
    char host[256];  /* rdma: without brackets */
    char port[8];    /* rdma: decimal, 1 to 65535 */
    char source[64]; /* rdma: "" when the route decides */
    char path[104];  /* local: fits sockaddr_un with its NUL */
};

/* Parses `text` into `*out`. Returns 0 or OKV_EURI with a sentence in `diag`;
 * `*out` is then unspecified. */
int okv_uri_parse(const char *text, struct okv_uri *out, struct okv_diag *diag);

#endif
