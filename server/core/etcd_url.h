/* The address of a member of etcd: "http://HOST:PORT" or "https://HOST:PORT", perhaps with "/". */
#ifndef OKV_SERVER_CORE_ETCD_URL_H
#define OKV_SERVER_CORE_ETCD_URL_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/diag.h"

#define OKV_ETCD_URL_MAX 256
#define OKV_ETCD_MEMBERS_MAX 16

struct okv_etcd_url {
    bool tls;
    char host[OKV_ETCD_URL_MAX]; /* a name or an address, without brackets */
};

/* Reads `length` bytes. OKV_EINVAL: `diag` says what to give instead. */
int okv_etcd_url_parse(const char *text, size_t length, struct okv_etcd_url *out,
                       struct okv_diag *diag);

#endif
