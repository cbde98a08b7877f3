/*
 * The address of a server:
 *
 *   rdma://HOST[:PORT][?source=ADDRESS][&DEVICE][&tos=N]     RDMA CM, default port 7471
 *   rdma://discover/NAME[?source=ADDRESS][&group=ADDRESS][&DEVICE]
 *                                                            the server that announces NAME
 *   tcp://discover/NAME, tcps://discover/NAME                the same, by [&group=ADDRESS], too
 *   ofi://HOST[:PORT][?provider=NAME][&source=ADDRESS]       libfabric, default port 7471
 *   tcp://HOST[:PORT][?source=ADDRESS]                       TCP, default port 7471
 *   tcps://HOST[:PORT][?source=ADDRESS][&ca=FILE][&cert=FILE&key=FILE][&server-name=NAME]
 *                                                            TCP with TLS, default port 7472
 *   local:///PATH[?uids=any][&mode=MODE]                     a Unix socket on this host
 *   resp://HOST[:PORT], resp:///PATH[?mode=MODE]             for clients of Redis, port 6379
 *   resps://HOST[:PORT]                                      the same with TLS
 *
 * Only servers take the last two. The others take ?database=NAME or &database=NAME from clients;
 * without it, the database is called "default".
 *
 * HOST is a name, an IPv4 address or an IPv6 address in brackets. "*" listens on every usable RDMA
 * device of a machine. `source` is a client's local address. DEVICE is device=NAME, optionally with
 * &port=NUMBER and &gid=INDEX, named as in sysfs: the device that a client sends from or a server
 * listens on (shared/devices/choice.h). `tos` is the byte that is called TOS, DSCP and ECN, or
 * traffic class, 0 to 255. docs/discovery.md describes NAME and group. uids=any, for servers,
 * admits all users; the default is the server's own user and root. MODE, for servers, sets the
 * socket's permissions; the default is the umask's. `provider` is a libfabric provider; by default
 * a server chooses the machine's best one, and a client uses the server's. `ca`, `cert`, `key` and
 * `server-name`, for clients, are those of okv_options.tls_*.
 */
#ifndef OKV_SHARED_BASE_URI_H
#define OKV_SHARED_BASE_URI_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/diag.h"

#define OKV_DEFAULT_PORT "7471"
#define OKV_TCPS_PORT "7472"
#define OKV_RESP_PORT "6379"

#define OKV_NAME_SIZE 32               /* of a server or a database, with its NUL */
#define OKV_DATABASE_DEFAULT "default" /* of a client that names none */
#define OKV_GROUP_SIZE 16              /* an IPv4 address with its NUL */
#define OKV_DEVICE_SIZE 64             /* of an RDMA device, with its NUL */
#define OKV_FILE_SIZE 256              /* of a path of a certificate or key, with its NUL */

enum okv_scheme {
    OKV_SCHEME_RDMA,
    OKV_SCHEME_LOCAL,
    OKV_SCHEME_OFI,
    OKV_SCHEME_TCP,
    OKV_SCHEME_RESP,
};

struct okv_uri {
    enum okv_scheme scheme;
    char host[256];               /* without brackets; "" with `name` or `path` */
    char port[8];                 /* decimal, 1 to 65535; "" with `name` or `path` */
    char source[64];              /* rdma, ofi, tcp: "" when the route decides */
    char device[OKV_DEVICE_SIZE]; /* rdma: "" when it is not named */
    uint16_t port_number;         /* rdma: of the device; 0: any */
    uint16_t gid;                 /* rdma: index in the port's table, if has_gid */
    bool has_gid;
    bool has_tos;
    uint8_t tos;         /* rdma: the traffic class of packets, if has_tos */
    char provider[32];   /* ofi: "" when it is not named */
    char path[104];      /* local, resp: fits sockaddr_un with its NUL; or "" */
    bool tls;            /* tcp, resp: tcps://, resps:// */
    struct okv_uri_tls { /* tcps: "" when it is not named */
        char ca[OKV_FILE_SIZE], cert[OKV_FILE_SIZE], key[OKV_FILE_SIZE];
        char server_name[256]; /* that the certificate is for */
    } of_tls;
    bool any_uid;                 /* local: uids=any */
    uint16_t mode;                /* permissions of the socket; 0: as the umask has it */
    char name[OKV_NAME_SIZE];     /* rdma, tcp: of the server to look for, or "" */
    char group[OKV_GROUP_SIZE];   /* where to look; "": the default group */
    char database[OKV_NAME_SIZE]; /* "" when it is not named */
};

/* Parses `text` into `*out`. Returns 0 or OKV_EURI with a sentence in `diag`;
 * `*out` is then unspecified. */
int okv_uri_parse(const char *text, struct okv_uri *out, struct okv_diag *diag);

/* Whether a server, a database or a user may be called so. A database's directory has its name. */
bool okv_name_is_valid(const char *name);
#define OKV_NAME_RULE "1 to 31 letters, digits, '.', '-' or '_', other than '.' and '..'"
/* A multicast group for discovery: an IPv4 address from 224.0.1.0 to 239.255.255.255. */
bool okv_group_is_valid(const char *group);
#define OKV_GROUP_RULE "an IPv4 multicast address from 224.0.1.0 to 239.255.255.255"

#endif
