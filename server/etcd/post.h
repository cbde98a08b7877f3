/* One POST to a member of etcd, and its answer. */
#ifndef OKV_SERVER_ETCD_POST_H
#define OKV_SERVER_ETCD_POST_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/etcd/lines.h"
#include "shared/base/diag.h"

struct okv_etcd;

struct okv_etcd_post {
    CURL *easy; /* NULL: none is under way */
    struct curl_slist *headers;
    char error[CURL_ERROR_SIZE];
    struct okv_etcd_lines answer;
    /* Of a stream, for each of its lines, within libcurl, where nothing may be begun. NULL: the
     * answer is whole at the end. */
    void (*line)(void *owner, const char *text, size_t length);
    void (*ended)(void *owner, CURLcode code);
    void *owner;
};

enum okv_etcd_post_flags {
    OKV_ETCD_WITH_TOKEN = 1,
    OKV_ETCD_ONCE = 2, /* over a connection of its own: on one that had ended libcurl sends again */
};

/* Begins one, whose `line`, `ended` and `owner` are set; `body` stays there. limit_ms 0: it goes
 * on. Returns 0 or OKV_ENOMEM. */
int okv_etcd_post_begin(struct okv_etcd_post *post, struct okv_etcd *etcd, unsigned member,
                        const char *path, const char *body, unsigned flags, long limit_ms);
/* True if the member may have got some of it. */
bool okv_etcd_post_was_sent(const struct okv_etcd_post *post);
long okv_etcd_post_status(const struct okv_etcd_post *post);
/* Ends it at any time. */
void okv_etcd_post_end(struct okv_etcd_post *post, struct okv_etcd *etcd);
/* Calls `ended` of those that have ended. */
void okv_etcd_posts_collect(struct okv_etcd *etcd);

#endif
