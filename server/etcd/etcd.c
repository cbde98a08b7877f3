#include "server/etcd/etcd.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "server/etcd/message.h"
#include "server/etcd/state.h"
#include "shared/base/clock.h"
#include "shared/base/random.h"

#define MEMBER_MS 400
#define CHECK_MS 2000

/* libcurl has a type of its own for these. */
_Static_assert(sizeof(struct pollfd) == sizeof(struct curl_waitfd) &&
                   offsetof(struct pollfd, fd) == offsetof(struct curl_waitfd, fd) &&
                   offsetof(struct pollfd, events) == offsetof(struct curl_waitfd, events) &&
                   offsetof(struct pollfd, revents) == offsetof(struct curl_waitfd, revents) &&
                   POLLIN == CURL_WAIT_POLLIN && POLLPRI == CURL_WAIT_POLLPRI &&
                   POLLOUT == CURL_WAIT_POLLOUT,
               "struct pollfd is not what libcurl takes");

static int add_member(struct okv_etcd *etcd, char *url, struct okv_diag *diag)
{
    struct okv_etcd_url parsed;
    size_t length = strlen(url);
    int rc = okv_etcd_url_parse(url, length, &parsed, diag);

    if (rc)
        return rc;
    if (url[length - 1] == '/')
        url[length - 1] = '\0';
    if (etcd->member_count == OKV_ETCD_MEMBERS_MAX)
        return okv_diag_set(diag, OKV_EINVAL, "more than %d members of etcd", OKV_ETCD_MEMBERS_MAX);
    etcd->members[etcd->member_count++] = url;
    return OKV_OK;
}

/* So that not all servers ask the same one. */
static void shuffle(struct okv_etcd *etcd)
{
    uint64_t seed = 0;

    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) < 0 || seed == 0)
        seed = okv_clock_ns() | 1;
    for (unsigned i = etcd->member_count; i > 1; i--) {
        unsigned other = (unsigned)(okv_random_next(&seed) % i);
        const char *member = etcd->members[i - 1];
        etcd->members[i - 1] = etcd->members[other];
        etcd->members[other] = member;
    }
}

static int set_members(struct okv_etcd *etcd, struct okv_diag *diag)
{
    char *save;

    for (char *url = strtok_r(etcd->urls, ",", &save); url; url = strtok_r(NULL, ",", &save)) {
        int rc = add_member(etcd, url, diag);
        if (rc)
            return rc;
    }
    if (etcd->member_count == 0)
        return okv_diag_set(diag, OKV_EINVAL, "no member of etcd is named");
    shuffle(etcd);
    return OKV_OK;
}

static bool copy(char **out, const char *text)
{
    *out = text ? strdup(text) : NULL;
    return *out || !text;
}

static int set_up(struct okv_etcd *etcd, const struct okv_etcd_options *options,
                  struct okv_diag *diag)
{
    if (!options->cert != !options->key || !options->user != !options->password)
        return okv_diag_set(diag, OKV_EINVAL,
                            "for etcd, a certificate needs its key, and a user a password");
    etcd->cluster_id = options->cluster_id;
    etcd->revision = options->revision;
    etcd->member_ms = options->member_ms ? options->member_ms : MEMBER_MS;
    etcd->check_ms = options->check_ms ? options->check_ms : CHECK_MS;
    etcd->multi = curl_multi_init();
    if (!etcd->multi || !copy(&etcd->urls, options->urls) || !copy(&etcd->ca, options->ca) ||
        !copy(&etcd->cert, options->cert) || !copy(&etcd->key, options->key) ||
        !copy(&etcd->user, options->user) || !copy(&etcd->password, options->password))
        return okv_diag_set(diag, OKV_ENOMEM, "no memory for a client of etcd");
    return set_members(etcd, diag);
}

int okv_etcd_create(const struct okv_etcd_options *options, struct okv_etcd **out,
                    struct okv_diag *diag)
{
    struct okv_etcd *etcd = calloc(1, sizeof *etcd);

    *out = NULL;
    int rc = etcd ? set_up(etcd, options, diag)
                  : okv_diag_set(diag, OKV_ENOMEM, "no memory for a client of etcd");
    if (rc)
        okv_etcd_destroy(&etcd);
    *out = etcd;
    return rc;
}

void okv_etcd_destroy(struct okv_etcd **at)
{
    struct okv_etcd *etcd = *at;

    if (!etcd)
        return;
    *at = NULL;
    etcd->is_ending = true;
    okv_etcd_calls_end(etcd);
    okv_etcd_watches_end(etcd);
    curl_multi_cleanup(etcd->multi);
    if (etcd->password)
        explicit_bzero(etcd->password, strlen(etcd->password));
    free(etcd->password);
    free(etcd->user);
    free(etcd->key);
    free(etcd->cert);
    free(etcd->ca);
    free(etcd->urls);
    free(etcd);
}

int okv_etcd_get(struct okv_etcd *etcd, const char *prefix, uint32_t deadline_ms,
                 okv_etcd_done_fn *done, void *context)
{
    if (!*prefix)
        return OKV_EINVAL;
    return okv_etcd_call_begin(etcd, OKV_ETCD_GET, okv_etcd_encode_get(prefix, false), etcd->first,
                               deadline_ms, done, context);
}

int okv_etcd_swap(struct okv_etcd *etcd, const struct okv_etcd_change *changes, size_t count,
                  uint32_t deadline_ms, okv_etcd_done_fn *done, void *context)
{
    if (count == 0 || count > OKV_ETCD_CHANGES_MAX)
        return OKV_EINVAL;
    return okv_etcd_call_begin(etcd, OKV_ETCD_SWAP, okv_etcd_encode_swap(changes, count),
                               etcd->first, deadline_ms, done, context);
}

int okv_etcd_keepalive(struct okv_etcd *etcd, uint64_t lease, uint32_t ttl_s, uint32_t deadline_ms,
                       okv_etcd_done_fn *done, void *context)
{
    return okv_etcd_call_begin(etcd, lease ? OKV_ETCD_KEEPALIVE : OKV_ETCD_GRANT,
                               lease ? okv_etcd_encode_lease(lease) : okv_etcd_encode_grant(ttl_s),
                               etcd->first, deadline_ms, done, context);
}

int okv_etcd_revoke(struct okv_etcd *etcd, uint64_t lease, uint32_t deadline_ms,
                    okv_etcd_done_fn *done, void *context)
{
    return okv_etcd_call_begin(etcd, OKV_ETCD_REVOKE, okv_etcd_encode_lease(lease), etcd->first,
                               deadline_ms, done, context);
}

int okv_etcd_wait(struct okv_etcd *etcd, struct pollfd *fds, unsigned count, int timeout_ms)
{
    int running;

    int wait_ms = okv_clock_sooner_ms(timeout_ms, okv_etcd_watches_step(etcd));
    wait_ms = okv_clock_sooner_ms(wait_ms, okv_etcd_calls_step(etcd));
    if (wait_ms < 0)
        wait_ms = INT_MAX;
    if (curl_multi_poll(etcd->multi, (struct curl_waitfd *)fds, count, wait_ms, NULL) ||
        curl_multi_perform(etcd->multi, &running))
        return OKV_EIO;
    okv_etcd_posts_collect(etcd);
    return OKV_OK;
}

void okv_etcd_wake(struct okv_etcd *etcd)
{
    curl_multi_wakeup(etcd->multi);
}
