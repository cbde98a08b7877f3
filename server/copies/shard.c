#include "server/copies/shard.h"

#include <stdlib.h>
#include <string.h>

#include "server/core/server.h"
#include "server/database/database.h"
#include "server/etcd/etcd.h"
#include "shared/base/random.h"

/* A call of etcd that is under way. */
struct call {
    struct okv_copy *copy;
    uint64_t request;
};

static struct call *call_create(struct okv_copy *copy, uint64_t request)
{
    struct call *call = malloc(sizeof *call);

    if (call)
        *call = (struct call){copy, request};
    return call;
}

static void end_call(struct call *call, struct okv_protocol_event *event)
{
    event->request = call->request;
    if (!atomic_load(&call->copy->copies->has_to_stop))
        okv_copy_tell(call->copy, event);
    free(call);
}

static void note(struct okv_copy *copy, const struct okv_etcd_answer *answer)
{
    struct okv_copies *copies = copy->copies;
    bool is_usual = answer->status == OKV_ECONFLICT || answer->status == OKV_ESHUTDOWN;

    if (is_usual || answer->status == copies->etcd_status)
        return;
    copies->etcd_status = answer->status;
    if (answer->status)
        okv_log_say(&copies->server->log, OKV_LOG_ERROR, "cluster",
                    "etcd: %s: gets and puts go on, roles stay as they are", answer->why);
    else
        okv_log_say(&copies->server->log, OKV_LOG_NOTICE, "cluster", "etcd answers");
}

/* The item of exactly this key. */
static const struct okv_etcd_item *item_of(const struct okv_copy *copy,
                                           const struct okv_etcd_answer *answer)
{
    for (size_t i = 0; i < answer->count; i++)
        if (strcmp(answer->items[i].key, copy->key) == 0)
            return &answer->items[i];
    return NULL;
}

static void take_key(struct okv_copy *copy, const struct okv_etcd_answer *answer,
                     struct okv_protocol_event *event)
{
    const struct okv_etcd_item *item = item_of(copy, answer);

    if (!item) {
        event->type = OKV_EVENT_FOREIGN;
    } else if (okv_document_read_shard(item->value, item->length, &event->key)) {
        event->type = OKV_EVENT_KEY;
        event->revision = item->mod_revision;
    } else {
        okv_log_say(&copy->copies->server->log, OKV_LOG_ERROR, "cluster",
                    "etcd: the key %s has a value that is no shard's", copy->key);
    }
}

static void have_read(void *context, const struct okv_etcd_answer *answer)
{
    struct call *call = context;
    struct okv_protocol_event event = {.type = OKV_EVENT_UNKNOWN};

    note(call->copy, answer);
    if (answer->status == OKV_OK)
        take_key(call->copy, answer, &event);
    else if (answer->status == OKV_ELOST)
        event.type = OKV_EVENT_FOREIGN;
    end_call(call, &event);
}

static void have_changed(void *context, const struct okv_etcd_answer *answer)
{
    struct call *call = context;
    struct okv_protocol_event event = {.type = OKV_EVENT_UNKNOWN, .revision = answer->revision};

    note(call->copy, answer);
    if (answer->status == OKV_OK)
        event.type = OKV_EVENT_CHANGED;
    else if (answer->status == OKV_ECONFLICT)
        event.type = OKV_EVENT_REFUSED;
    else if (answer->status == OKV_ELOST)
        event.type = OKV_EVENT_FOREIGN;
    end_call(call, &event);
}

/* Without memory the answer is lost, which is an event of the next pass. */
static void give_up(struct okv_copy *copy, struct call *call, uint64_t request)
{
    free(call);
    copy->lost_request = request;
}

void okv_shard_read(struct okv_copy *copy, uint64_t request)
{
    struct call *call = call_create(copy, request);

    if (!call || okv_etcd_get(copy->copies->etcd, copy->key, OKV_COPIES_ETCD_MS, have_read, call))
        give_up(copy, call, request);
}

void okv_shard_change(struct okv_copy *copy, uint64_t request, const struct okv_shard_key *key,
                      uint64_t revision)
{
    struct call *call = call_create(copy, request);
    char *text = okv_document_of_shard(key);
    const struct okv_etcd_change change = {
        .key = copy->key,
        .mod_revision = revision,
        .value = text,
        .length = text ? strlen(text) : 0,
    };

    if (!call || !text ||
        okv_etcd_swap(copy->copies->etcd, &change, 1, OKV_COPIES_ETCD_MS, have_changed, call))
        give_up(copy, call, request);
    free(text);
}
