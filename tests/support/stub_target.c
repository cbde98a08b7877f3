#include "tests/support/stub_target.h"

#include <string.h>
#include <time.h>

#define START_NS UINT64_C(1000000000)
#define POLL_NS 200
#define YIELD_NS 1000

/* ---- the clock ---------------------------------------------------------- */

/* What the linker puts in place of the system's functions knows no state but this. */
static uint64_t clock_ns = START_NS;

/* Sanitizers' libraries refer to them, too. */
#define SEEN __attribute__((visibility("default")))
SEEN int __wrap_clock_gettime(clockid_t id, struct timespec *time);
SEEN int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
SEEN int __wrap_sched_yield(void);

int __wrap_clock_gettime(clockid_t id, struct timespec *time)
{
    (void)id;
    time->tv_sec = (time_t)(clock_ns / 1000000000u);
    time->tv_nsec = (long)(clock_ns % 1000000000u);
    return 0;
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
    (void)left;
    clock_ns += (uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_nsec;
    return 0;
}

int __wrap_sched_yield(void)
{
    clock_ns += YIELD_NS;
    return 0;
}

uint64_t stub_target_now(void)
{
    return clock_ns;
}

void stub_target_pass(uint64_t ns)
{
    clock_ns += ns;
}

/* ---- the store ---------------------------------------------------------- */

struct stub_item *stub_target_item(struct stub_target *target, const void *key, size_t key_length)
{
    struct stub_item *item = target->items;

    while (item->key_length != 0 &&
           (item->key_length != key_length || memcmp(item->key, key, key_length) != 0))
        item++;
    return item;
}

static int get(struct stub_target *target, const struct okv_command *command,
               struct okv_result *result)
{
    struct stub_item *item = stub_target_item(target, command->key, command->key_length);

    if (item->version == 0)
        return OKV_ENOTFOUND;
    result->length = item->value_length;
    result->version = item->version;
    if (command->buffer_size < item->value_length)
        return OKV_ETOOSMALL;
    memcpy(command->buffer, item->value, item->value_length);
    if (target->corrupts)
        ((char *)command->buffer)[item->value_length - 1] ^= 1;
    item->version += target->meddles;
    return OKV_OK;
}

/* Names an item that is written for the first time. */
static struct stub_item *claim(struct stub_target *target, const struct okv_command *command)
{
    struct stub_item *item = stub_target_item(target, command->key, command->key_length);

    memcpy(item->key, command->key, command->key_length);
    item->key_length = command->key_length;
    return item;
}

static int put(struct stub_target *target, const struct okv_command *command,
               struct okv_result *result)
{
    struct stub_item *item = claim(target, command);

    if (command->flags & OKV_IF_VERSION && item->version == 0)
        return OKV_ENOTFOUND;
    if (command->flags & OKV_IF_VERSION && item->version != command->version)
        return OKV_ECONFLICT;
    memcpy(item->value, command->value, command->value_length);
    item->value_length = command->value_length;
    result->version = ++item->version;
    return OKV_OK;
}

static int apply(struct stub_target *target, const struct okv_command *command,
                 struct okv_result *result)
{
    struct stub_item *item;

    switch (command->kind) {
    case OKV_GET:
        return get(target, command, result);
    case OKV_PUT:
        return put(target, command, result);
    case OKV_INCR:
        item = claim(target, command);
        result->number = item->number += command->delta;
        result->version = ++item->version;
        return OKV_OK;
    case OKV_DELETE:
        item = stub_target_item(target, command->key, command->key_length);
        if (item->version == 0)
            return OKV_ENOTFOUND;
        item->version = 0;
        return OKV_OK;
    default:
        return OKV_OK;
    }
}

/* ---- the functions of a target ------------------------------------------ */

static uint64_t end_of(const struct stub_target *target)
{
    uint64_t end_ns = clock_ns + target->service_ns;

    if (end_ns >= target->still_from_ns && clock_ns < target->still_until_ns)
        return target->still_until_ns + target->service_ns;
    return end_ns;
}

static int stub_submit(struct target *base, const struct okv_command *commands, size_t count,
                       size_t *accepted)
{
    struct stub_target *target = (struct stub_target *)base;

    target->submits++;
    for (*accepted = 0; *accepted < count; ++*accepted) {
        const struct okv_command *command = &commands[*accepted];
        if (target->pending == target->room)
            return OKV_EAGAIN;
        struct stub_operation *operation = &target->operations[target->pending++];
        *operation = (struct stub_operation){.end_ns = end_of(target), .result.tag = command->tag};
        int code = command->kind == OKV_PUT && target->put_code ? target->put_code : target->code;
        operation->result.status = code ? code : apply(target, command, &operation->result);
        target->counts[command->kind]++;
        target->last_value_length = command->value_length;
        if (target->pending > target->pending_max)
            target->pending_max = target->pending;
        if (target->first_ns == 0)
            target->first_ns = clock_ns;
        target->last_ns = clock_ns;
    }
    return OKV_OK;
}

static int stub_poll(struct target *base, struct okv_result *results, int max)
{
    struct stub_target *target = (struct stub_target *)base;
    uint32_t kept = 0;
    int count = 0;

    if (target->poll_code)
        return target->poll_code;
    for (uint32_t i = 0; i < target->pending; i++) {
        if (count < max && target->operations[i].end_ns <= clock_ns)
            results[count++] = target->operations[i].result;
        else
            target->operations[kept++] = target->operations[i];
    }
    target->pending = kept;
    clock_ns += count == 0 ? POLL_NS : 0;
    return count;
}

static int stub_wait(struct target *base, int timeout_ms)
{
    struct stub_target *target = (struct stub_target *)base;
    uint64_t until_ns = clock_ns + (uint64_t)timeout_ms * 1000000u;

    for (uint32_t i = 0; i < target->pending; i++) {
        if (target->operations[i].end_ns < until_ns)
            until_ns = target->operations[i].end_ns;
    }
    if (until_ns > clock_ns)
        clock_ns = until_ns;
    return OKV_OK;
}

static int stub_get_many(struct target *base, const struct okv_command *commands,
                         struct okv_result *results, size_t count)
{
    struct stub_target *target = (struct stub_target *)base;

    for (size_t i = 0; i < count; i++) {
        results[i] = (struct okv_result){0};
        results[i].status = apply(target, &commands[i], &results[i]);
        target->counts[commands[i].kind]++;
    }
    target->submits++;
    clock_ns += target->service_ns;
    return target->code;
}

static const char *stub_why(struct target *base)
{
    const struct stub_target *target = (struct stub_target *)base;

    return target->poll_code ? "the stub says so" : "";
}

void stub_target_init(struct stub_target *target)
{
    static const struct target_ops ops = {.submit = stub_submit,
                                          .poll = stub_poll,
                                          .wait = stub_wait,
                                          .get_many = stub_get_many,
                                          .why = stub_why};

    memset(target, 0, sizeof *target);
    target->base.ops = &ops;
    target->service_ns = 10000;
    target->still_from_ns = UINT64_MAX;
    target->room = STUB_TARGET_PENDING;
    clock_ns = START_NS;
}
