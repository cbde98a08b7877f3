#include "server/command/execute.h"

#include "server/command/admin.h"
#include "server/core/server.h"
#include "server/database/database.h"
#include "server/store/commands.h"
#include "server/store/flush.h"
#include "server/store/status.h"
#include "shared/base/error.h"

static struct okv_store_write write_of(const struct okv_request_message *request,
                                       struct okv_store_long_value *long_value)
{
    return (struct okv_store_write){
        .key = request->key,
        .key_length = request->key_length,
        .value = request->value,
        .value_length = request->value_length,
        .long_value = long_value,
        .ttl_ms = request->ttl_ms,
        .keep_ttl = request->flags & OKV_REQUEST_KEEP_TTL,
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

static void reply_bytes(struct okv_reply_message *reply, uint8_t *room, const void *bytes,
                        uint32_t length)
{
    memcpy(room, bytes, length);
    reply->value = room;
    reply->value_length = length;
}

static void reply_number(struct okv_reply_message *reply, uint8_t *room, uint64_t number)
{
    const struct okv_wire_number wire = {.number = okv_le64_of(number)};

    reply_bytes(reply, room, &wire, sizeof wire);
}

static void execute_get(const struct okv_executor *executor,
                        const struct okv_request_message *request, struct okv_reply_message *reply,
                        uint8_t *room, uint32_t size)
{
    uint32_t length = 0;
    uint64_t version = 0;

    OKV_STATS_ADD(&executor->database->counts, gets, 1);
    reply->status = okv_store_get(&executor->database->store, executor->work, request->key,
                                  request->key_length, room, size, &length, &version);
    if (reply->status)
        return;
    reply->version = version;
    reply->value = room;
    reply->value_length = length;
}

/* Makes a change, and counts it in `made` or as a failed condition. */
static struct okv_store_outcome
make_change(const struct okv_executor *executor, okv_store_change *make,
            const struct okv_request_message *request, const struct okv_store_write *write,
            atomic_uint_fast64_t *made, struct okv_reply_message *reply)
{
    struct okv_store_outcome outcome = {.version = 0};

    reply->status = make(&executor->database->store, executor->work, write, &outcome);
    reply->version = outcome.version;
    if (reply->status == OKV_OK)
        atomic_fetch_add_explicit(made, 1, memory_order_relaxed);
    else if (is_failed_condition(request, reply->status))
        OKV_STATS_ADD(&executor->database->counts, conditions_failed, 1);
    return outcome;
}

static struct okv_store_outcome
execute_change(const struct okv_executor *executor, okv_store_change *make,
               const struct okv_request_message *request, struct okv_store_long_value *long_value,
               atomic_uint_fast64_t *made, struct okv_reply_message *reply)
{
    const struct okv_store_write write = write_of(request, long_value);

    return make_change(executor, make, request, &write, made, reply);
}

static void execute_incr(const struct okv_executor *executor,
                         const struct okv_request_message *request, struct okv_reply_message *reply,
                         uint8_t *room)
{
    struct okv_store_outcome outcome = execute_change(executor, okv_store_incr, request, NULL,
                                                      &executor->database->counts.incrs, reply);

    if (reply->status == OKV_OK)
        reply_number(reply, room, (uint64_t)outcome.number);
}

static void execute_get_touch(const struct okv_executor *executor,
                              const struct okv_request_message *request,
                              struct okv_reply_message *reply, uint8_t *room, uint32_t size)
{
    struct okv_store_write write = write_of(request, NULL);

    write.room = room;
    write.room_size = size;
    struct okv_store_outcome outcome = make_change(executor, okv_store_touch, request, &write,
                                                   &executor->database->counts.touches, reply);
    reply->value = room;
    reply->value_length = (uint32_t)outcome.length;
}

void okv_execute_get_again(const struct okv_executor *executor,
                           const struct okv_request_message *request,
                           struct okv_reply_message *reply, uint8_t *room, uint32_t size)
{
    uint32_t length = 0;
    uint64_t version = 0;
    int rc = okv_store_get(&executor->database->store, executor->work, request->key,
                           request->key_length, room, size, &length, &version);

    if (rc == OKV_OK && version == reply->version) {
        reply->value = room;
        reply->value_length = length;
    } else {
        reply->status = OKV_EUNKNOWN;
        reply->version = 0;
    }
}

static void execute_admin(const struct okv_executor *executor,
                          const struct okv_request_message *request,
                          struct okv_reply_message *reply, uint8_t *room, uint32_t size)
{
    uint32_t used;

    reply->status = okv_admin_run(executor->server, executor->database, request->value,
                                  request->value_length, (char *)room, size, &used);
    if (reply->status)
        return;
    reply->value = room;
    reply->value_length = used;
}

bool okv_execute_is_led(const struct okv_executor *executor)
{
    return okv_database_is_led(executor->database);
}

bool okv_execute_is_fresh_copy(const struct okv_executor *executor)
{
    return okv_clock_lease_us() < atomic_load(&executor->database->fresh_until_us);
}

bool okv_execute_may(const struct okv_executor *executor, unsigned rights, unsigned opcode)
{
    if (rights & okv_opcode_facts(opcode)->right)
        return true;
    OKV_STATS_ADD(&executor->database->counts, denied, 1);
    return false;
}

static void execute_put(const struct okv_executor *executor,
                        const struct okv_request_message *request,
                        struct okv_store_long_value *value, struct okv_reply_message *reply)
{
    execute_change(executor, okv_store_put, request, value, &executor->database->counts.puts,
                   reply);
    if (reply->status && reply->status != OKV_EAGAIN &&
        !is_failed_condition(request, reply->status))
        OKV_STATS_ADD(&executor->database->counts, puts_refused, 1);
}

static void execute_append(const struct okv_executor *executor,
                           const struct okv_request_message *request,
                           struct okv_store_long_value *value, struct okv_reply_message *reply,
                           uint8_t *room)
{
    struct okv_store_outcome outcome = execute_change(executor, okv_store_append, request, value,
                                                      &executor->database->counts.appends, reply);

    if (reply->status == OKV_OK)
        reply_number(reply, room, outcome.length);
}

void okv_execute_long(const struct okv_executor *executor, unsigned rights,
                      const struct okv_request_message *request, struct okv_store_long_value *value,
                      struct okv_reply_message *reply, uint8_t *room)
{
    if (!okv_execute_may(executor, rights, request->opcode))
        reply->status = OKV_EDENIED;
    else if (request->opcode == OKV_OP_PUT)
        execute_put(executor, request, value, reply);
    else if (request->opcode == OKV_OP_TOUCH)
        execute_change(executor, okv_store_touch, request, value,
                       &executor->database->counts.touches, reply);
    else
        execute_append(executor, request, value, reply, room);
}

/* One step of a flush. OKV_EPROTO: the value is none that a step replies with. */
static int execute_flush(const struct okv_executor *executor,
                         const struct okv_request_message *request, struct okv_reply_message *reply,
                         uint8_t *room)
{
    uint64_t next = request->argument;
    uint64_t splits = 0;

    if (request->value_length != 0 && request->value_length != sizeof splits)
        return OKV_EPROTO;
    if (request->value_length)
        splits = okv_get_u64(request->value);
    reply->status = okv_store_flush(&executor->database->store, executor->work, &next, &splits);
    if (reply->status)
        return 0;
    const struct okv_wire_flush wire = {.next = okv_le64_of(next), .splits = okv_le64_of(splits)};
    reply_bytes(reply, room, &wire, sizeof wire);
    if (next == 0)
        OKV_STATS_ADD(&executor->database->counts, flushes, 1);
    return 0;
}

/* The figures of the server tell of other databases, and so take the right admin. */
static void execute_stat(const struct okv_executor *executor, unsigned rights,
                         struct okv_reply_message *reply, uint8_t *room, uint32_t size)
{
    OKV_STATS_ADD(&executor->database->counts, stats, 1);
    size_t length = okv_stats_render(executor->server, executor->database, rights & OKV_RIGHT_ADMIN,
                                     (char *)room, size);
    if (length > size) {
        reply->status = OKV_ETOOSMALL;
        return;
    }
    reply->value = room;
    reply->value_length = (uint32_t)length;
}

int okv_execute(const struct okv_executor *executor, unsigned rights,
                const struct okv_request_message *request, struct okv_reply_message *reply,
                uint8_t *room, uint32_t size)
{
    struct okv_counts *counts = &executor->database->counts;

    if (!okv_execute_may(executor, rights, request->opcode)) {
        reply->status = OKV_EDENIED;
        return 0;
    }
    switch ((enum okv_opcode)request->opcode) {
    case OKV_OP_PING:
        OKV_STATS_ADD(counts, pings, 1);
        reply_number(reply, room, okv_store_lease_clock_us(&executor->database->store));
        return 0;
    case OKV_OP_GET:
        execute_get(executor, request, reply, room, size);
        return 0;
    case OKV_OP_PUT:
        execute_put(executor, request, NULL, reply);
        return 0;
    case OKV_OP_DELETE:
        execute_change(executor, okv_store_delete, request, NULL, &counts->deletes, reply);
        return 0;
    case OKV_OP_TOUCH:
        execute_change(executor, okv_store_touch, request, NULL, &counts->touches, reply);
        return reply->status == OKV_STORE_LONG ? OKV_STORE_LONG : 0;
    case OKV_OP_APPEND:
        execute_append(executor, request, NULL, reply, room);
        return reply->status == OKV_STORE_LONG ? OKV_STORE_LONG : 0;
    case OKV_OP_INCR:
    case OKV_OP_INCR_TTL:
        execute_incr(executor, request, reply, room);
        return 0;
    case OKV_OP_GET_TOUCH:
        execute_get_touch(executor, request, reply, room, size);
        return 0;
    case OKV_OP_STAT:
        execute_stat(executor, rights, reply, room, size);
        return 0;
    case OKV_OP_FLUSH:
        return execute_flush(executor, request, reply, room);
    case OKV_OP_ADMIN:
        execute_admin(executor, request, reply, room, size);
        return 0;
    case OKV_OP_REPORT: /* handled by the session, as the next ones */
    case OKV_OP_HITS:
    case OKV_OP_JOIN:
    case OKV_OP_SHIP:
    case OKV_OP_VALUE:
    case OKV_OP_SNAPSHOT:
    case OKV_OP_BEAT:
    case OKV_OP_RELEASED:
    case OKV_OP_GOODBYE:
        break;
    }
    return OKV_EPROTO;
}
