/*
 * The address of a server:
 *
 *   rdma://HOST[:PORT][?source=ADDRESS][&DEVICE]             RDMA CM, default port 7471
 *   rdma://discover/NAME[?source=ADDRESS][&group=ADDRESS][&DEVICE]
 *                                                            the server that announces NAME
 *   ofi://HOST[:PORT][?provider=NAME][&source=ADDRESS]       libfabric, default port 7471
 *   local:///PATH[?uids=any][&mode=MODE]                     a Unix socket on this host
 *   resp://HOST[:PORT], resp:///PATH[?mode=MODE]             for clients of Redis, port 6379
 *   resps://HOST[:PORT]                                      the same with TLS
 *
 * Only servers have the last two. Each other one may have ?database=NAME or &database=NAME, for
 * clients; without it, the database is called "default".
 *
 * HOST is a name, an IPv4 address or an IPv6 address in brackets. "*" listens on every usable RDMA
 * device of a machine. `source` is the local address of a client. DEVICE is device=NAME, perhaps
 * with &port=NUMBER and &gid=INDEX: what sysfs calls them, for a client the device to leave by, for
 * a server the one to listen on (shared/devices/choice.h). NAME and group are those of
 * docs/discovery.md. `uids=any` is for servers, which without it serve their own user and root
 * alone. MODE, for servers as well, is that of the socket; without it the umask says. `provider` is
 * libfabric's; a server without it takes the best one of the machine, a client that of the server.
 */
#ifndef OKV_SHARED_BASE_URI_H
#define OKV_SHARED_BASE_URI_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/diag.h"

#define OKV_DEFAULT_PORT "7471"
#define OKV_RESP_PORT "6379"

#define OKV_NAME_SIZE 32               /* of a server or a database, with its NUL */
#define OKV_DATABASE_DEFAULT "default" /* of a client that names none */
#define OKV_GROUP_SIZE 16              /* an IPv4 address with its NUL */
#define OKV_DEVICE_SIZE 64             /* of an RDMA device, with its NUL */

enum okv_scheme { OKV_SCHEME_RDMA, OKV_SCHEME_LOCAL, OKV_SCHEME_OFI, OKV_SCHEME_RESP };

struct okv_uri {
    enum okv_scheme scheme;
    char host[256];               /* without brackets; "" with `name` or `path` */
    char port[8];                 /* decimal, 1 to 65535; "" with `name` or `path` */
    char source[64];              /* rdma, ofi: "" when the route decides */
    char device[OKV_DEVICE_SIZE]; /* rdma: "" when it is not named */
    uint16_t port_number;         /* rdma: of the device; 0: any */
    uint16_t gid;                 /* rdma: index in the port's table, if has_gid */
    bool has_gid;
    char provider[32];            /* ofi: "" when it is not named */
    char path[104];               /* local, resp: fits sockaddr_un with its NUL; or "" */
    bool tls;                     /* resp: resps:// */
    bool any_uid;                 /* local: uids=any */
    uint16_t mode;                /* permissions of the socket; 0: as the umask has it */
    char name[OKV_NAME_SIZE];     /* rdma: of the server to look for, or "" */
    char group[OKV_GROUP_SIZE];   /* rdma: where to look; "": the default group */
    char database[OKV_NAME_SIZE]; /* "" when it is not named */
};

/* Parses `text` into `*out`. Returns 0 or OKV_EURI with a sentence in `diag`;
 * `*out` is then unspecified. */
int okv_uri_parse(const char *text, struct okv_uri *out, struct okv_diag *diag);

/* What a server or a database may be called: 1 to 31 letters, digits, '.', '-' or '_'. */
bool okv_name_is_valid(const char *name);
#define OKV_NAME_RULE "1 to 31 letters, digits, '.', '-' or '_'"
/* A multicast group for discovery: an IPv4 address from 224.0.1.0 to 239.255.255.255. */
bool okv_group_is_valid(const char *group);
#define OKV_GROUP_RULE "an IPv4 multicast address from 224.0.1.0 to 239.255.255.255"

#endif
