/*
 * The address of a cluster, for clients:
 * okv://SERVER[,SERVER...]/NAME[?transport=TRANSPORT][&OPTION...]
 *
 * Each SERVER is HOST[:PORT], or the absolute path of a Unix socket; all of them are of one kind.
 * NAME, of the cluster, follows the last slash. TRANSPORT is the scheme by which hosts are reached:
 * tcp, which is the default, tcps, rdma or ofi. Each SERVER and the options together are a URI of
 * uri.h, so they follow its rules.
 */
#ifndef OKV_SHARED_BASE_URI_LIST_H
#define OKV_SHARED_BASE_URI_LIST_H

#include "shared/base/uri.h"

#define OKV_SERVERS_MAX 16

struct okv_uri_list {
    char cluster[OKV_NAME_SIZE]; /* "": `text` is the URI of one server */
    const char *scheme;          /* of each server, with "://" */
    const char *servers[OKV_SERVERS_MAX];
    unsigned count;
    const char *options; /* of each server: "", or "?" and what follows */
    char *text;          /* what the others point to */
};

/* Parses the URI of a cluster or, as a list of one, of a server. Returns 0, or OKV_ENOMEM or
 * OKV_EURI with a sentence in `diag`, and *out has nothing to free. */
int okv_uri_list_parse(const char *text, struct okv_uri_list *out, struct okv_diag *diag);
void okv_uri_list_free(struct okv_uri_list *list);

/* The URI of a server of the list, or of another SERVER of the same kind; free() frees it. NULL: no
 * memory, or it is not of this kind. */
char *okv_uri_list_server(const struct okv_uri_list *list, const char *server);

#endif
