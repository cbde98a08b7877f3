#include "server/etcd/post.h"

#include <stdio.h>
#include <string.h>

#include "server/etcd/state.h"

static size_t take(char *bytes, size_t one, size_t length, void *context)
{
    struct okv_etcd_post *post = context;
    bool taken = post->line
                     ? okv_etcd_lines_split(&post->answer, bytes, length, post->line, post->owner)
                     : okv_etcd_lines_add(&post->answer, bytes, length);

    return taken ? one * length : 0; /* which becomes CURLE_WRITE_ERROR */
}

static bool add_header(struct okv_etcd_post *post, const char *header)
{
    struct curl_slist *headers = curl_slist_append(post->headers, header);

    if (headers)
        post->headers = headers;
    return headers;
}

static bool add_headers(struct okv_etcd_post *post, const char *token)
{
    char line[OKV_ETCD_TOKEN_MAX + 32];

    snprintf(line, sizeof line, "Authorization: %s", token ? token : "");
    /* A member that has lost its leader says so at once. */
    bool added = add_header(post, "Content-Type: application/json") &&
                 add_header(post, "Grpc-Metadata-hasleader: true") &&
                 (!token || add_header(post, line));
    explicit_bzero(line, sizeof line);
    return added;
}

static void set_tls(CURL *easy, const struct okv_etcd *etcd)
{
    curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (etcd->ca) {
        curl_easy_setopt(easy, CURLOPT_CAINFO, etcd->ca);
        curl_easy_setopt(easy, CURLOPT_CAPATH, NULL); /* else the system's count, too */
    }
    curl_easy_setopt(easy, CURLOPT_SSLCERT, etcd->cert);
    curl_easy_setopt(easy, CURLOPT_SSLKEY, etcd->key);
}

static void set_options(struct okv_etcd_post *post, const char *url, const char *body,
                        unsigned flags, long limit_ms)
{
    CURL *easy = post->easy;

    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, post->headers);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_PROXY, ""); /* whatever the environment says */
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
#if CURL_AT_LEAST_VERSION(7, 87, 0)
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L); /* its end waits for no name server */
#endif
    curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, flags & OKV_ETCD_ONCE ? 1L : 0L);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, limit_ms);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, post->error);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, post);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, post);
}

int okv_etcd_post_begin(struct okv_etcd_post *post, struct okv_etcd *etcd, unsigned member,
                        const char *path, const char *body, unsigned flags, long limit_ms)
{
    char url[OKV_ETCD_URL_MAX + 64];

    snprintf(url, sizeof url, "%s/v3/%s", etcd->members[member], path);
    post->error[0] = '\0';
    post->easy = curl_easy_init();
    if (post->easy && add_headers(post, flags & OKV_ETCD_WITH_TOKEN ? etcd->token : NULL)) {
        set_options(post, url, body, flags, limit_ms);
        set_tls(post->easy, etcd);
        if (curl_multi_add_handle(etcd->multi, post->easy) == CURLM_OK)
            return OKV_OK;
    }
    okv_etcd_post_end(post, etcd);
    return OKV_ENOMEM;
}

bool okv_etcd_post_was_sent(const struct okv_etcd_post *post)
{
    long bytes = 0;

    return curl_easy_getinfo(post->easy, CURLINFO_REQUEST_SIZE, &bytes) != CURLE_OK || bytes > 0;
}

long okv_etcd_post_status(const struct okv_etcd_post *post)
{
    long status = 0;

    curl_easy_getinfo(post->easy, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

void okv_etcd_post_end(struct okv_etcd_post *post, struct okv_etcd *etcd)
{
    if (post->easy)
        curl_multi_remove_handle(etcd->multi, post->easy);
    curl_easy_cleanup(post->easy);
    post->easy = NULL;
    curl_slist_free_all(post->headers);
    post->headers = NULL;
    okv_etcd_lines_fini(&post->answer);
}

void okv_etcd_posts_collect(struct okv_etcd *etcd)
{
    struct okv_etcd_post *post;
    CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(etcd->multi, &left))) {
        CURLcode code = message->data.result;
        if (curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&post) == CURLE_OK)
            post->ended(post->owner, code);
    }
}
