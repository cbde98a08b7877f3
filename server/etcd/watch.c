/* Watches: a stream of events from one member, and checks of it at others. */
#include <stdlib.h>
#include <string.h>

#include "server/etcd/message.h"
#include "server/etcd/state.h"
#include "shared/base/clock.h"

#define REOPEN_NS 200000000u /* at least, from one opening to the check before the next */

/* A stream may lag, or be silent, and not know it. A check is a linearizable get: a stream that has
 * not come to the last change that the check before saw is opened anew, at another member, from the
 * revision of the check on. */
struct okv_etcd_watch {
    struct okv_etcd *etcd;
    struct okv_etcd_watch *next;
    char *prefix;
    char *body;
    okv_etcd_done_fn *changed;
    void *context;
    struct okv_etcd_post post;
    unsigned member;
    bool is_checking;
    bool is_created; /* the member says that it watches */
    bool is_over;
    uint64_t seen; /* the revision up to which the stream has shown changes */
    uint64_t told; /* that the caller has been told of */
    uint64_t opened_ns;
    uint64_t check_ns;
    /* What the last check saw. As long as both stay, no key has changed. */
    uint64_t last; /* mod_revision of a key */
    size_t count;
};

/* Within libcurl: it only notes what there is to do. */
static void note_line(void *owner, const char *text, size_t length)
{
    struct okv_etcd_watch *watch = owner;
    struct okv_etcd_message message;

    if (okv_etcd_message_decode(&message, text, length) || message.error || message.is_canceled ||
        (message.cluster_id && message.cluster_id != watch->etcd->cluster_id))
        watch->is_over = true;
    if (message.is_created)
        watch->is_created = true;
    if (message.event_revision > watch->seen)
        watch->seen = message.event_revision;
    okv_etcd_message_fini(&message);
}

static void note_end(void *owner, __attribute__((unused)) CURLcode code)
{
    ((struct okv_etcd_watch *)owner)->is_over = true;
}

static void close_stream(struct okv_etcd_watch *watch)
{
    okv_etcd_post_end(&watch->post, watch->etcd);
    free(watch->body);
    watch->body = NULL;
    watch->is_created = watch->is_over = false;
}

/* Without one, checks go on, and try again. */
static void open_stream(struct okv_etcd_watch *watch, uint64_t from)
{
    struct okv_etcd *etcd = watch->etcd;

    close_stream(watch);
    watch->member = okv_etcd_next_member(etcd, watch->member);
    watch->seen = watch->told = from - 1;
    watch->opened_ns = okv_clock_ns();
    watch->body = okv_etcd_encode_watch(watch->prefix, from);
    if (watch->body)
        okv_etcd_post_begin(&watch->post, etcd, watch->member, "watch", watch->body,
                            OKV_ETCD_WITH_TOKEN | OKV_ETCD_ONCE, 0);
}

static uint64_t last_revision(const struct okv_etcd_answer *answer)
{
    uint64_t last = 0;

    for (size_t i = 0; i < answer->count; i++)
        if (answer->items[i].mod_revision > last)
            last = answer->items[i].mod_revision;
    return last;
}

static void checked(void *context, const struct okv_etcd_answer *answer)
{
    struct okv_etcd_watch *watch = context;
    uint64_t before = watch->last;

    if (answer->status == OKV_ESHUTDOWN)
        return;
    watch->is_checking = false;
    watch->check_ns = okv_clock_ns() + watch->etcd->check_ms * UINT64_C(1000000);
    if (answer->status != OKV_OK) {
        watch->changed(watch->context, answer);
        return;
    }
    uint64_t last = last_revision(answer);
    bool has_changed = last != before || answer->count != watch->count;
    watch->last = last;
    watch->count = answer->count;
    if (!watch->is_created || watch->seen < before)
        open_stream(watch, answer->revision + 1);
    if (has_changed) {
        struct okv_etcd_answer hint = *answer;
        hint.count = 0;
        watch->told = answer->revision;
        watch->changed(watch->context, &hint);
    }
}

static void check(struct okv_etcd_watch *watch)
{
    struct okv_etcd *etcd = watch->etcd;
    unsigned member = okv_etcd_next_member(etcd, watch->member);

    watch->check_ns = okv_clock_ns() + etcd->check_ms * UINT64_C(1000000);
    watch->is_checking =
        okv_etcd_call_begin(etcd, OKV_ETCD_GET, okv_etcd_encode_get(watch->prefix, true), member,
                            etcd->check_ms, checked, watch) == OKV_OK;
}

static int step(struct okv_etcd_watch *watch)
{
    if (watch->seen > watch->told) {
        struct okv_etcd_answer hint = {.why = "", .cluster_id = watch->etcd->cluster_id};
        hint.revision = watch->told = watch->seen;
        watch->changed(watch->context, &hint);
    }
    if (watch->is_over) {
        close_stream(watch);
        watch->check_ns = watch->opened_ns + REOPEN_NS;
    }
    if (watch->is_checking)
        return -1;
    int left_ms = okv_clock_ms_until(watch->check_ns);
    if (left_ms == 0)
        check(watch);
    return left_ms;
}

int okv_etcd_watches_step(struct okv_etcd *etcd)
{
    int wait_ms = -1;

    for (struct okv_etcd_watch *watch = etcd->watches; watch; watch = watch->next)
        wait_ms = okv_clock_sooner_ms(wait_ms, step(watch));
    return wait_ms;
}

void okv_etcd_watches_end(struct okv_etcd *etcd)
{
    for (struct okv_etcd_watch *watch = etcd->watches, *next; watch; watch = next) {
        next = watch->next;
        close_stream(watch);
        free(watch->prefix);
        free(watch);
    }
    etcd->watches = NULL;
}

int okv_etcd_watch(struct okv_etcd *etcd, const char *prefix, okv_etcd_done_fn *changed,
                   void *context)
{
    struct okv_etcd_watch *watch = *prefix ? calloc(1, sizeof *watch) : NULL;

    if (!watch || !(watch->prefix = strdup(prefix))) {
        free(watch);
        return *prefix ? OKV_ENOMEM : OKV_EINVAL;
    }
    watch->etcd = etcd;
    watch->member = etcd->first;
    watch->changed = changed;
    watch->context = context;
    watch->count = SIZE_MAX; /* so the first check reports */
    watch->post.line = note_line;
    watch->post.ended = note_end;
    watch->post.owner = watch;
    watch->next = etcd->watches;
    etcd->watches = watch;
    return OKV_OK;
}
