/* What the files of this room share. */
#ifndef OKV_SERVER_ETCD_STATE_H
#define OKV_SERVER_ETCD_STATE_H

#include <stdbool.h>

#include "server/core/etcd_url.h"
#include "server/etcd/etcd.h"
#include "server/etcd/post.h"

#define OKV_ETCD_TOKEN_MAX 4096

struct okv_etcd {
    CURLM *multi;
    char *urls; /* which `members` point into, in random order */
    const char *members[OKV_ETCD_MEMBERS_MAX];
    unsigned member_count;
    unsigned first; /* that is asked first: the last one that did not fail */
    char *ca, *cert, *key, *user, *password;
    char *token;
    uint64_t cluster_id;
    uint64_t revision; /* the highest of answers that are in the order of all changes */
    uint32_t member_ms;
    uint32_t check_ms;
    struct okv_etcd_call *calls;
    struct okv_etcd_watch *watches;
    bool is_ending;       /* no more calls begin */
    struct okv_diag lost; /* "", or why answers are not believed any more */
};

enum okv_etcd_kind {
    OKV_ETCD_GET,
    OKV_ETCD_SWAP,
    OKV_ETCD_GRANT,
    OKV_ETCD_KEEPALIVE,
    OKV_ETCD_REVOKE,
};

/* calls.c: takes `body`, asks `member` first. NULL as `body`: OKV_ENOMEM. */
int okv_etcd_call_begin(struct okv_etcd *etcd, enum okv_etcd_kind kind, char *body, unsigned member,
                        uint32_t deadline_ms, okv_etcd_done_fn *done, void *context);
/* Begins what is due; returns the time until more is, -1: for ever. */
int okv_etcd_calls_step(struct okv_etcd *etcd);
void okv_etcd_calls_end(struct okv_etcd *etcd);
unsigned okv_etcd_next_member(const struct okv_etcd *etcd, unsigned member);

/* watch.c: the same for watches. */
int okv_etcd_watches_step(struct okv_etcd *etcd);
void okv_etcd_watches_end(struct okv_etcd *etcd);

#endif
