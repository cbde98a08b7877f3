/*
 * A client of etcd 3.4 or later, by its JSON gateway, used as a linearizable register.
 *
 * Safety may rest on the order of compare-and-swaps, which okv_etcd_get() shows, and on nothing
 * else here: leases and watches are hints, since etcd may extend a lease whose key is gone, and a
 * watch may be silent.
 *
 * One thread makes all calls of a handle, except okv_etcd_wake(). Results come to callbacks within
 * okv_etcd_wait() or okv_etcd_destroy(); a callback may begin calls, but neither wait nor destroy.
 * The program calls curl_global_init() before it starts threads, and ignores SIGPIPE.
 */
#ifndef OKV_SERVER_ETCD_ETCD_H
#define OKV_SERVER_ETCD_ETCD_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/diag.h"
#include "shared/base/error.h"

#define OKV_ETCD_CHANGES_MAX 128              /* operations of a transaction, by etcd's default */
#define OKV_ETCD_ANSWER_MAX (4 * 1024 * 1024) /* bytes of an answer, or of a message of a watch */

struct okv_etcd;

struct okv_etcd_options {
    const char *urls; /* of the members, "http[s]://HOST:PORT", separated by commas */
    const char *ca;   /* PEM files. NULL: the system's authorities */
    const char *cert; /* NULL: none. etcd refuses one with a CommonName beside a user */
    const char *key;
    const char *user; /* NULL: none */
    const char *password;
    uint64_t cluster_id; /* that answers must have; 0: that of the first answer */
    uint64_t revision;   /* that the store has reached: lower ones are not believed */
    uint32_t member_ms;  /* for an answer of one member, then the next is asked; 0: 400 */
    uint32_t check_ms;   /* from one check of a watch to the next; 0: 2000 */
};

struct okv_etcd_item {
    const char *key;
    const void *value; /* a NUL follows */
    size_t length;
    uint64_t mod_revision;
};

/*
 * A result, valid during the callback. `status`:
 *
 *   OKV_OK         done
 *   OKV_ECONFLICT  a compare failed, nothing was changed; `items` are the keys as they are
 *   OKV_EUNKNOWN   an answer to a swap was lost: it may be done, or still be done. Only a get
 *                  decides, so values need a part that tells writers apart.
 *   OKV_ENOTFOUND  the lease is gone
 *   OKV_ELOST      another cluster, or an older state of it: etcd was wiped, restored or replaced.
 *                  Swaps may have changed keys there. All later calls end like this one.
 *   OKV_EDENIED    user, password or rights
 *   OKV_EREFUSED   etcd does not accept the request
 *   OKV_ETIMEDOUT  no member answered within the deadline; `why` is of the last one that was asked
 *   OKV_ESHUTDOWN  the handle is destroyed
 *   OKV_ENOMEM
 *
 * But for OKV_OK, OKV_EUNKNOWN and OKV_ELOST a swap has changed nothing. The id of a cluster is
 * made of its members' addresses and its token: one that is set up anew with the same shows itself
 * by its revision alone, as long as it is lower.
 */
struct okv_etcd_answer {
    int status;
    const char
        *why; /* a sentence for the operator, with bytes of etcd, which the log escapes; or "" */
    uint64_t cluster_id;
    uint64_t revision; /* of the store; after a swap, the mod_revision of its keys */
    const struct okv_etcd_item *items;
    size_t count;
    uint64_t lease; /* of a keepalive */
    uint64_t ttl_s;
};

typedef void okv_etcd_done_fn(void *context, const struct okv_etcd_answer *answer);

struct okv_etcd_change {
    const char *key;
    uint64_t mod_revision; /* that the key must have; 0: it must be absent */
    const void *value;     /* NULL: the key is deleted */
    size_t length;
    uint64_t lease; /* that the key ends with; 0: none */
};

/* Talks to nobody yet. Copies the options. OKV_EINVAL: they are not as above, `diag` says why. */
int okv_etcd_create(const struct okv_etcd_options *options, struct okv_etcd **out,
                    struct okv_diag *diag);
/* Calls that are open end with OKV_ESHUTDOWN or OKV_EUNKNOWN. NULLs *etcd, which may be NULL. */
void okv_etcd_destroy(struct okv_etcd **etcd);

/*
 * These begin a call, and copy what they are given. They return 0 or, and then `done` is not
 * called, OKV_EINVAL for arguments out of range or OKV_ENOMEM.
 */

/* All keys that begin with `prefix`, which is not empty. Linearizable. */
int okv_etcd_get(struct okv_etcd *etcd, const char *prefix, uint32_t deadline_ms,
                 okv_etcd_done_fn *done, void *context);
/* All changes, or none when one of their keys has another revision. A key may be there once. */
int okv_etcd_swap(struct okv_etcd *etcd, const struct okv_etcd_change *changes, size_t count,
                  uint32_t deadline_ms, okv_etcd_done_fn *done, void *context);
/* Prolongs a lease, or with lease 0 grants one of ttl_s, which etcd may raise. One that is granted
 * while the answer is lost ends by itself. */
int okv_etcd_keepalive(struct okv_etcd *etcd, uint64_t lease, uint32_t ttl_s, uint32_t deadline_ms,
                       okv_etcd_done_fn *done, void *context);
/* Ends a lease and its keys. */
int okv_etcd_revoke(struct okv_etcd *etcd, uint64_t lease, uint32_t deadline_ms,
                    okv_etcd_done_fn *done, void *context);
/*
 * Calls `changed` when keys that begin with `prefix` may have changed, at `answer->revision` or
 * before, for the first time soon; it has no items. A change is reported at once if the watch
 * works, else after the next check; some are reported twice. With a failure as its status, the
 * last check failed. Lives until the handle is destroyed.
 */
int okv_etcd_watch(struct okv_etcd *etcd, const char *prefix, okv_etcd_done_fn *changed,
                   void *context);

/* Goes on with all calls; returns after timeout_ms (-1: none), when one of `fds` is ready, when
 * something happened, or after a wake. Of events, POLLIN, POLLPRI and POLLOUT are reported. */
int okv_etcd_wait(struct okv_etcd *etcd, struct pollfd *fds, unsigned count, int timeout_ms);
/* Ends the present or the next wait. Any thread. */
void okv_etcd_wake(struct okv_etcd *etcd);

#endif
