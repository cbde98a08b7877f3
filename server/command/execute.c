#include "server/command/execute.h"

#include "shared/base/compiler.h"
#include "shared/base/error.h"

static inline struct okv_store_write write_of(const struct okv_request_message *request,
                                              uint64_t extent)
{
    return (struct okv_store_write){
        .key = request->key,
        .key_length = request->key_length,
        .value = request->value,
        .value_length = request->value_length,
        .extent = extent,
        .ttl_ms = request->ttl_ms,
        .if_absent = request->flags & OKV_REQUEST_IF_ABSENT,
        .if_version = request->flags & OKV_REQUEST_IF_VERSION,
        .version = request->argument,
        .delta = (int64_t)request->argument,
    };
}

static bool is_failed_condition(const struct okv_request_message *request, int status)
{
    return status == OKV_EEXISTS || status == OKV_ECONFLICT ||
           (status == OKV_ENOTFOUND && request->flags & OKV_REQUEST_IF_VERSION);
}

static void reply_number(struct okv_reply_message *reply, uint8_t *room, uint64_t number)
{
    const struct okv_wire_number wire = {.number = okv_le64_of(number)};

    memcpy(room, &wire, sizeof wire);
    reply->value = room;
    reply->value_length = sizeof wire;
}

OKV_APART static void apply_get(struct okv_server *server,
                                const struct okv_request_message *request,
                                struct okv_reply_message *reply, uint8_t *room, uint32_t size)
{
    uint32_t length = 0;
    uint64_t version = 0;

    OKV_STATS_ADD(&server->stats, gets, 1);
    reply->status = okv_store_get(&server->store, request->key, request->key_length, room, size,
                                  &length, &version);
    if (reply->status)
        return;
    reply->version = version;
    reply->value = room;
    reply->value_length = length;
}

/* In one piece, but for what is not usual: what a client that puts waits for
 * (docs/architecture.md, What a put costs). */
OKV_FLAT OKV_PAGE void okv_apply_put(struct okv_server *server, struct okv_store_work *work,
                                     const struct okv_request_message *request, uint64_t extent,
                                     struct okv_reply_message *reply)
{
    const struct okv_store_write write = write_of(request, extent);
    struct okv_store_outcome outcome = {.version = 0};

    reply->status = okv_store_put(&server->store, work, &write, &outcome);
    reply->version = outcome.version;
    if (OKV_USUALLY(reply->status == OKV_OK))
        OKV_STATS_ADD(&server->stats, puts, 1);
    else if (is_failed_condition(request, reply->status))
        OKV_STATS_ADD(&server->stats, conditions_failed, 1);
    else
        OKV_STATS_ADD(&server->stats, puts_refused, 1);
}

OKV_APART static void apply_delete(struct okv_server *server, struct okv_store_work *work,
                                   const struct okv_request_message *request,
                                   struct okv_reply_message *reply)
{
    const struct okv_store_write write = write_of(request, 0);
    struct okv_store_outcome outcome = {.version = 0};

    reply->status = okv_store_delete(&server->store, work, &write, &outcome);
    if (reply->status == OKV_OK) {
        OKV_STATS_ADD(&server->stats, deletes, 1);
    } else if (is_failed_condition(request, reply->status)) {
        reply->version = outcome.version;
        OKV_STATS_ADD(&server->stats, conditions_failed, 1);
    }
}

OKV_APART static void apply_append(struct okv_server *server, struct okv_store_work *work,
                                   const struct okv_request_message *request,
                                   struct okv_reply_message *reply, uint8_t *room)
{
    const struct okv_store_write write = write_of(request, 0);
    struct okv_store_outcome outcome = {.version = 0};

    reply->status = okv_store_append(&server->store, work, &write, &outcome);
    if (reply->status)
        return;
    reply->version = outcome.version;
    reply_number(reply, room, outcome.length);
    OKV_STATS_ADD(&server->stats, appends, 1);
}

OKV_APART static void apply_incr(struct okv_server *server, struct okv_store_work *work,
                                 const struct okv_request_message *request,
                                 struct okv_reply_message *reply, uint8_t *room)
{
    const struct okv_store_write write = write_of(request, 0);
    struct okv_store_outcome outcome = {.version = 0};

    reply->status = okv_store_incr(&server->store, work, &write, &outcome);
    if (reply->status)
        return;
    reply->version = outcome.version;
    reply_number(reply, room, (uint64_t)outcome.number);
    OKV_STATS_ADD(&server->stats, incrs, 1);
}

OKV_APART static void apply_touch(struct okv_server *server, struct okv_store_work *work,
                                  const struct okv_request_message *request,
                                  struct okv_reply_message *reply)
{
    const struct okv_store_write write = write_of(request, 0);
    struct okv_store_outcome outcome = {.version = 0};

    reply->status = okv_store_touch(&server->store, work, &write, &outcome);
    if (reply->status)
        return;
    reply->version = outcome.version;
    OKV_STATS_ADD(&server->stats, touches, 1);
}

/* One step of it. OKV_EPROTO for a value that no earlier step can have answered. */
OKV_APART static int apply_flush(struct okv_server *server, struct okv_store_work *work,
                                 const struct okv_request_message *request,
                                 struct okv_reply_message *reply, uint8_t *room)
{
    uint64_t next = request->argument;
    uint64_t splits = 0;

    if (request->value_length != 0 && request->value_length != sizeof splits)
        return OKV_EPROTO;
    if (request->value_length)
        splits = okv_get_u64(request->value);
    reply->status = okv_store_flush(&server->store, work, &next, &splits);
    if (reply->status)
        return 0;
    const struct okv_wire_flush wire = {.next = okv_le64_of(next), .splits = okv_le64_of(splits)};
    memcpy(room, &wire, sizeof wire);
    reply->value = room;
    reply->value_length = sizeof wire;
    if (next == 0)
        OKV_STATS_ADD(&server->stats, flushes, 1);
    return 0;
}

OKV_APART static void apply_stat(struct okv_server *server, struct okv_reply_message *reply,
                                 uint8_t *room, uint32_t size)
{
    OKV_STATS_ADD(&server->stats, stats, 1);
    size_t length = okv_stats_render(server, (char *)room, size);
    if (length > size) {
        reply->status = OKV_ETOOSMALL;
        return;
    }
    reply->value = room;
    reply->value_length = (uint32_t)length;
}

int okv_apply(struct okv_server *server, struct okv_store_work *work,
              const struct okv_request_message *request, struct okv_reply_message *reply,
              uint8_t *room, uint32_t size)
{
    switch ((enum okv_opcode)request->opcode) {
    case OKV_OP_PING:
        OKV_STATS_ADD(&server->stats, pings, 1);
        return 0;
    case OKV_OP_GET:
        apply_get(server, request, reply, room, size);
        return 0;
    case OKV_OP_DELETE:
        apply_delete(server, work, request, reply);
        return 0;
    case OKV_OP_STAT:
        apply_stat(server, reply, room, size);
        return 0;
    case OKV_OP_APPEND:
        apply_append(server, work, request, reply, room);
        return 0;
    case OKV_OP_TOUCH:
        apply_touch(server, work, request, reply);
        return 0;
    case OKV_OP_INCR:
        apply_incr(server, work, request, reply, room);
        return 0;
    case OKV_OP_FLUSH:
        return apply_flush(server, work, request, reply, room);
    case OKV_OP_PUT:     /* okv_apply_put()'s */
    case OKV_OP_GOODBYE: /* the session's */
        break;
    }
    return OKV_EPROTO;
}
