#include "bench/load/loop_state.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/clock.h"

#define RESULTS 64
/* The longest sleep between checks of *stop. */
#define WAIT_MS 100
/* A sleep may end this much late, so the loop stays awake for the rest. */
#define SLEEP_SLACK_NS 200000u
#define CACHE_LINE 64u

/* ---- making and ending -------------------------------------------------- */

static okv *target_handle(struct target *target)
{
    return target->ops->handle ? target->ops->handle(target) : NULL;
}

static int connection_init(struct loop *loop, struct connection *connection, struct target *target)
{
    const struct loop_config *config = &loop->config;
    size_t room = (size_t)config->values->high + config->key_size;
    okv *handle = target_handle(target);

    room = (room + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    connection->target = target;
    connection->memory_size = config->slot_count * room;
    connection->slots = calloc(config->slot_count, sizeof *connection->slots);
    connection->free_slots = calloc(config->slot_count, sizeof *connection->free_slots);
    connection->commands = calloc(config->slot_count, sizeof *connection->commands);
    connection->memory = calloc(1, connection->memory_size);
    if (!connection->slots || !connection->free_slots || !connection->commands ||
        !connection->memory)
        return OKV_ENOMEM;
    for (uint32_t i = config->slot_count; i-- > 0;) {
        connection->slots[i].value = connection->memory + i * room;
        connection->slots[i].key = connection->slots[i].value + config->values->high;
        connection->free_slots[connection->free_count++] = i;
    }
    if (handle && config->registered)
        return okv_register(handle, connection->memory, connection->memory_size,
                            &connection->registration);
    return OKV_OK;
}

static void connection_fini(struct connection *connection)
{
    free(connection->memory);
    free(connection->commands);
    free(connection->free_slots);
    free(connection->slots);
}

/* The limit of a request's payload. */
static size_t echo_max(struct target *target)
{
    okv *handle = target_handle(target);
    struct okv_info info;

    if (!handle)
        return 0;
    okv_info(handle, &info);
    return info.max_message_value;
}

int loop_create(const struct loop_config *config, struct loop **out)
{
    struct loop *loop = calloc(1, sizeof *loop);
    int rc = OKV_ENOMEM;

    if (!loop)
        return rc;
    loop->config = *config;
    loop->counter = (uint64_t)config->id << 48;
    loop->echo_max = echo_max(config->targets[0]);
    loop->connections = calloc(config->target_count, sizeof *loop->connections);
    loop->results = calloc(config->slot_count, sizeof *loop->results);
    if (!loop->connections || !loop->results)
        goto destroy;
    for (uint32_t i = 0; i < config->target_count; i++) {
        rc = connection_init(loop, &loop->connections[i], config->targets[i]);
        if (rc != OKV_OK)
            goto destroy;
    }
    *out = loop;
    return OKV_OK;

destroy:
    loop_destroy(loop);
    return rc;
}

void loop_destroy(struct loop *loop)
{
    if (!loop)
        return;
    for (uint32_t i = 0; loop->connections && i < loop->config.target_count; i++)
        connection_fini(&loop->connections[i]);
    free(loop->results);
    free(loop->connections);
    free(loop);
}

/* ---- submitting --------------------------------------------------------- */

/* Operations of a connection, gathered or under way. */
static uint32_t connection_load(const struct loop *loop, const struct connection *connection)
{
    return loop->config.slot_count - connection->free_count;
}

/* Operations of a connection that were submitted. */
static uint32_t connection_pending(const struct loop *loop, const struct connection *connection)
{
    return connection_load(loop, connection) - connection->gathered;
}

static void fill_get(const struct loop *loop, struct slot *slot, struct okv_command *command)
{
    command->kind = OKV_GET;
    command->buffer = slot->value;
    command->buffer_size = loop->config.values->high;
}

static void fill_put(struct loop *loop, struct slot *slot, struct okv_command *command)
{
    slot->value_length = loop_value_size(loop, slot->record);
    workload_value_write(loop_value_number(loop, slot->record), ++loop->counter, slot->value,
                         slot->value_length);
    command->kind = OKV_PUT;
    command->value = slot->value;
    command->value_length = slot->value_length;
}

/* A payload as long as the record's key and value, from the slot's memory. */
static void fill_echo(const struct loop *loop, struct slot *slot, struct okv_command *command)
{
    size_t length = workload_value_size(loop->config.values, slot->record) + loop->config.key_size;

    command->kind = OKV_PING;
    command->value = slot->value;
    command->value_length = length < loop->echo_max ? length : loop->echo_max;
}

static const char *number_key(const struct loop *loop, const struct slot *slot)
{
    workload_number_key_write(slot->record, slot->key, loop->config.key_size);
    return slot->key;
}

static const char *record_key(const struct loop *loop, const struct slot *slot)
{
    size_t length;

    if (loop->config.trace)
        return trace_key(loop->config.trace, slot->record, &length);
    workload_key_write(slot->record, slot->key, loop->config.key_size);
    return slot->key;
}

/* Gathers the command of the slot's operation. */
static struct okv_command *gather(struct loop *loop, struct connection *connection, uint32_t index)
{
    struct slot *slot = &connection->slots[index];
    struct okv_command *command = &connection->commands[connection->gathered++];

    *command = (struct okv_command){.kind = OKV_PING, .tag = index};
    switch (slot->operation) {
    case OPERATION_PING:
        return command;
    case OPERATION_ECHO:
        fill_echo(loop, slot, command);
        return command;
    case OPERATION_INCR:
        command->key = number_key(loop, slot);
        command->kind = OKV_INCR;
        command->delta = 1;
        break;
    case OPERATION_DELETE:
        command->key = slot->is_number ? number_key(loop, slot) : record_key(loop, slot);
        command->kind = OKV_DELETE;
        break;
    default:
        command->key = record_key(loop, slot);
        if (slot->writes || slot->operation == OPERATION_PUT || slot->operation == OPERATION_INSERT)
            fill_put(loop, slot, command);
        else
            fill_get(loop, slot, command);
    }
    command->key_length = loop_key_size(loop, slot);
    return command;
}

/* Gives an order a slot. */
static void begin(struct loop *loop, struct connection *connection, const struct loop_order *order)
{
    uint32_t index = connection->free_slots[--connection->free_count];
    struct slot *slot = &connection->slots[index];

    slot->operation = order->operation;
    slot->record = order->record;
    slot->is_number = order->is_number;
    slot->start_ns = order->due_ns;
    slot->writes = false;
    gather(loop, connection, index);
}

/* Depth 1 on one connection: then a caller would use the blocking get. */
static bool is_get_alone(const struct loop *loop, const struct connection *connection)
{
    return loop->run->depth == 1 && loop->config.target_count == 1 && connection->gathered == 1 &&
           connection->commands[0].kind == OKV_GET && connection->target->ops->get;
}

/* Submits the gathered commands with one doorbell; those not accepted stay gathered. Returns 0 or a
 * final code. */
static int submit(struct loop *loop, struct connection *connection)
{
    size_t accepted = 0;

    if (connection->gathered == 0)
        return OKV_OK;
    uint64_t now_ns = okv_clock_ns();
    for (uint32_t i = 0; i < connection->gathered; i++) {
        struct slot *slot = &connection->slots[connection->commands[i].tag];
        if (slot->start_ns == 0)
            slot->start_ns = now_ns;
    }
    if (is_get_alone(loop, connection)) {
        connection->target->ops->get(
            connection->target, &connection->commands[--connection->gathered], &connection->got);
        connection->has_got = true;
        return OKV_OK;
    }
    int rc = connection->target->ops->submit(connection->target, connection->commands,
                                             connection->gathered, &accepted);
    connection->gathered -= (uint32_t)accepted;
    if (connection->gathered > 0)
        memmove(connection->commands, connection->commands + accepted,
                connection->gathered * sizeof *connection->commands);
    if (rc == OKV_OK || (rc == OKV_EAGAIN && connection_pending(loop, connection) > 0))
        return OKV_OK;
    loop_note_failure(loop, connection, rc);
    return rc;
}

/* Drops gathered commands and frees their slots. */
static void drop_gathered(struct loop *loop)
{
    for (uint32_t i = 0; i < loop->config.target_count; i++) {
        struct connection *connection = &loop->connections[i];
        while (connection->gathered > 0)
            connection->free_slots[connection->free_count++] =
                (uint32_t)connection->commands[--connection->gathered].tag;
    }
    loop->held = false;
    loop->over = true;
}

/* True while the loop may ask for schedule. */
static bool goes_on(const struct loop *loop)
{
    if (loop->over || atomic_load_explicit(loop->config.stop, memory_order_relaxed))
        return false;
    return loop->run->deadline_ns == 0 || loop->now_ns < loop->run->deadline_ns;
}

/* True when an order is due; it is in loop->order. */
static bool order_ready(struct loop *loop)
{
    if (!loop->held) {
        loop->over = !goes_on(loop) || !loop->run->next(loop->run->user, &loop->order);
        loop->held = !loop->over;
    }
    return loop->held && loop->order.due_ns <= loop->now_ns;
}

/* Begins as many orders as fit, round-robin over the connections, and submits them. Returns 0 or a
 * final code. */
static int fill(struct loop *loop)
{
    uint32_t full = 0;
    int rc = OKV_OK;

    while (full < loop->config.target_count) {
        struct connection *connection = &loop->connections[loop->next_connection];
        if (connection_load(loop, connection) >= loop->run->depth) {
            full++;
        } else if (order_ready(loop)) {
            begin(loop, connection, &loop->order);
            loop->held = false;
            full = 0;
        } else {
            break;
        }
        loop->next_connection =
            loop->next_connection + 1 < loop->config.target_count ? loop->next_connection + 1 : 0;
    }
    for (uint32_t i = 0; rc == OKV_OK && i < loop->config.target_count; i++)
        rc = submit(loop, &loop->connections[i]);
    return rc;
}

/* ---- results ------------------------------------------------------------ */

/* Gathers the put after the get of an rmw or cas. An rmw puts a deleted record again, a cas does
 * not. Returns whether there is a put. */
static bool go_on_writing(struct loop *loop, struct connection *connection, struct slot *slot,
                          const struct okv_result *result)
{
    bool missed = result->status == OKV_ENOTFOUND && slot->operation == OPERATION_RMW;

    if (result->status != OKV_OK && !missed)
        return false;
    if (missed)
        loop->tally->missing++;
    else
        loop_check_success(loop, slot, result);
    slot->writes = true;
    struct okv_command *command = gather(loop, connection, (uint32_t)result->tag);
    if (slot->operation == OPERATION_CAS) {
        command->flags = OKV_IF_VERSION;
        command->version = result->version;
    }
    return true;
}

/* A get that missed ends, and the put of its record begins in its slot. */
static int store_miss(struct loop *loop, struct connection *connection, struct slot *slot,
                      const struct okv_result *result)
{
    int rc = loop_count_result(loop, connection, slot, result);

    slot->operation = OPERATION_PUT;
    slot->start_ns = 0;
    gather(loop, connection, (uint32_t)result->tag);
    return rc;
}

static int finish(struct loop *loop, struct connection *connection, const struct okv_result *result)
{
    struct slot *slot = &connection->slots[result->tag];

    if (loop->run->stores_misses && slot->operation == OPERATION_GET &&
        result->status == OKV_ENOTFOUND)
        return store_miss(loop, connection, slot, result);
    if (slot->operation != OPERATION_GET && loop_slot_gets(slot) &&
        go_on_writing(loop, connection, slot, result))
        return OKV_OK;
    connection->free_slots[connection->free_count++] = (uint32_t)result->tag;
    if (slot->operation == OPERATION_INSERT && loop->config.inserts)
        inserts_end(loop->config.inserts, slot->record);
    return loop_count_result(loop, connection, slot, result);
}

/* As the target's poll(), or the result of its get(). */
static int poll_results(struct connection *connection, struct okv_result *results, int max)
{
    if (!connection->has_got)
        return connection->target->ops->poll(connection->target, results, max);
    connection->has_got = false;
    results[0] = connection->got;
    return 1;
}

/* Collects results of a connection and adds their number to *total. Returns 0 or a final code. */
static int collect(struct loop *loop, struct connection *connection, uint32_t *total)
{
    struct okv_result results[RESULTS];
    int failure = OKV_OK;

    int count = poll_results(connection, results, RESULTS);
    if (count < 0) {
        loop_note_failure(loop, connection, count);
        return count;
    }
    if (count == 0)
        return OKV_OK;
    *total += (uint32_t)count;
    loop_see_results(loop);
    uint32_t gathered = connection->gathered;
    for (int i = 0; i < count; i++) {
        int rc = finish(loop, connection, &results[i]);
        if (rc != OKV_OK)
            failure = rc;
    }
    /* Operations that continue with a put have not ended. */
    atomic_fetch_add_explicit(loop->config.done,
                              (uint32_t)count - (connection->gathered - gathered),
                              memory_order_relaxed);
    return failure;
}

/* ---- the loop ----------------------------------------------------------- */

/* Operations under way. */
static uint32_t pending(const struct loop *loop)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < loop->config.target_count; i++)
        count += connection_pending(loop, &loop->connections[i]);
    return count;
}

/* How long the loop may sleep until an order is due. */
static uint64_t idle_ns(const struct loop *loop)
{
    uint64_t due_ns = loop->order.due_ns;

    /* An order that is due waits for room, which a result makes. */
    if (!loop->held || due_ns <= loop->now_ns)
        return WAIT_MS * UINT64_C(1000000);
    uint64_t left_ns = due_ns - loop->now_ns;
    if (left_ns > WAIT_MS * UINT64_C(1000000))
        return WAIT_MS * UINT64_C(1000000);
    return left_ns > SLEEP_SLACK_NS ? left_ns - SLEEP_SLACK_NS : 0;
}

/* Waits until a result may have come or an order is due. A wait on a descriptor works for one
 * connection, and takes whole milliseconds. */
static void rest(struct loop *loop)
{
    struct target *target = loop->connections[0].target;
    uint64_t idle = idle_ns(loop);
    int wait_ms = (int)(idle / 1000000u);

    if (pending(loop) == 0 && idle > 0) {
        struct timespec time = {.tv_nsec = (long)idle};
        nanosleep(&time, NULL);
    } else if (loop->config.target_count == 1 && wait_ms > 0) {
        target->ops->wait(target, wait_ms); /* the next poll reports a failure */
    } else {
        sched_yield();
    }
    if (loop->held)
        loop->now_ns = okv_clock_ns();
}

static int collect_all(struct loop *loop)
{
    uint32_t total = 0;
    int rc = OKV_OK;

    for (uint32_t i = 0; rc == OKV_OK && i < loop->config.target_count; i++) {
        if (connection_pending(loop, &loop->connections[i]) > 0)
            rc = collect(loop, &loop->connections[i], &total);
    }
    if (rc == OKV_OK && total == 0)
        rest(loop);
    return rc;
}

static int run_single(struct loop *loop)
{
    int rc = OKV_OK;

    while (rc == OKV_OK) {
        if (atomic_load_explicit(loop->config.stop, memory_order_relaxed))
            drop_gathered(loop);
        rc = fill(loop);
        if (rc == OKV_OK && !loop->held && pending(loop) == 0)
            break;
        if (rc == OKV_OK)
            rc = collect_all(loop);
    }
    drop_gathered(loop);
    return rc;
}

/* ---- batches ------------------------------------------------------------ */

/* Fills the commands of a batch. Returns their number. */
static uint32_t batch_fill(struct loop *loop, struct connection *connection)
{
    struct loop_order order = {0};
    uint32_t count = 0;

    while (count < loop->run->depth && loop->run->next(loop->run->user, &order)) {
        order.operation = OPERATION_GET;
        connection->slots[count].operation = OPERATION_GET;
        connection->slots[count].record = order.record;
        connection->slots[count].writes = false;
        gather(loop, connection, count++);
    }
    connection->gathered = 0;
    return count;
}

static int batch_run(struct loop *loop, struct connection *connection, uint32_t count)
{
    uint64_t start_ns = okv_clock_ns();
    int rc = connection->target->ops->get_many(connection->target, connection->commands,
                                               loop->results, count);

    if (rc != OKV_OK) {
        loop_note_failure(loop, connection, rc);
        return rc;
    }
    loop_see_results(loop);
    atomic_fetch_add_explicit(loop->config.done, count, memory_order_relaxed);
    for (uint32_t i = 0; i < count; i++) {
        connection->slots[i].start_ns = start_ns;
        int final = loop_count_result(loop, connection, &connection->slots[i], &loop->results[i]);
        if (final != OKV_OK)
            rc = final;
    }
    return rc;
}

static int run_batches(struct loop *loop)
{
    int rc = OKV_OK;

    while (rc == OKV_OK && goes_on(loop)) {
        struct connection *connection = &loop->connections[loop->next_connection];
        uint32_t count = batch_fill(loop, connection);
        if (count == 0)
            break;
        rc = batch_run(loop, connection, count);
        loop->next_connection =
            loop->next_connection + 1 < loop->config.target_count ? loop->next_connection + 1 : 0;
    }
    return rc;
}

/* Lets end what a run that failed left under way, whose outcome is told already. */
static void settle(struct loop *loop)
{
    struct okv_result results[RESULTS];

    for (uint32_t i = 0; i < loop->config.target_count; i++) {
        struct connection *connection = &loop->connections[i];
        while (connection_pending(loop, connection) > 0) {
            int count = poll_results(connection, results, RESULTS);
            if (count < 0)
                break; /* the run will say it */
            for (int j = 0; j < count; j++)
                connection->free_slots[connection->free_count++] = (uint32_t)results[j].tag;
            if (count == 0)
                connection->target->ops->wait(connection->target, WAIT_MS);
        }
    }
}

int loop_run(struct loop *loop, const struct loop_run_config *config)
{
    loop->run = config;
    loop->tally = config->tally;
    loop->now_ns = okv_clock_ns();
    loop->second = NULL;
    loop->second_until_ns = 0;
    loop->held = false;
    loop->over = false;

    settle(loop);
    int rc = config->batches ? run_batches(loop) : run_single(loop);
    if (rc != OKV_OK)
        atomic_store_explicit(loop->config.stop, true, memory_order_relaxed);
    return rc;
}
