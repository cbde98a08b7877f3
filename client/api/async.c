/* Commands whose results come later, and many commands at once. */
#include "client/api/argument_error.h"
#include "client/api/command.h"
#include "client/api/denial.h"
#include "client/api/fd.h"
#include "client/connection/wait.h"
#include "client/engine/operation.h"
#include "client/engine/progress.h"
#include "client/get/fast_path.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

/* Explains why commands[taken] was not accepted. */
static int submit_refuse(okv *handle, int rc, const struct okv_command *commands, size_t taken,
                         const char *single)
{
    if (single)
        return command_explain(handle, rc, commands, single);
    return command_explain_nth(handle, rc, commands, taken, "okv_submit");
}

/* `single` is the call that has one command; NULL: okv_submit(). */
static inline int submit_all(okv *handle, const struct okv_command *commands, size_t count,
                             size_t *accepted, const char *single)
{
    size_t taken = 0;
    int rc = 0;

    if (handle->failure || count == 0) {
        argument_error_clear(handle);
        return handle->failure;
    }
    uint64_t now = call_begin(handle);
    while (taken < count) {
        if (!fast_get_start(handle, &commands[taken], now, DELIVER_TO_POLL, NULL))
            rc = command_start(handle, &commands[taken], now, DELIVER_TO_POLL, NULL, NULL);
        if (rc)
            break;
        taken++;
    }
    engine_flush(handle);
    if (accepted)
        *accepted = taken;
    return rc ? submit_refuse(handle, rc, commands, taken, single) : 0;
}

static inline int submit(okv *handle, const struct okv_command *commands, size_t count,
                         size_t *accepted, const char *single)
{
    const char *call = single ? single : "okv_submit";

    if (accepted)
        *accepted = 0;
    if (!handle || (!commands && count > 0))
        return argument_refuse(handle, call, "commands: it is NULL");
    if (call_enter(handle, call))
        return OKV_EINVAL;
    return call_leave(handle, submit_all(handle, commands, count, accepted, single));
}

int okv_submit(okv *handle, const struct okv_command *commands, size_t count, size_t *accepted)
{
    return submit(handle, commands, count, accepted, NULL);
}

int okv_submit_get(okv *handle, const void *key, size_t key_length, void *buffer, size_t size,
                   uint64_t tag)
{
    struct okv_command command = {
        .kind = OKV_GET,
        .tag = tag,
        .key = key,
        .key_length = key_length,
        .buffer = buffer,
        .buffer_size = size,
    };

    return submit(handle, &command, 1, NULL, __func__);
}

int okv_submit_put(okv *handle, const void *key, size_t key_length, const void *value,
                   size_t value_length, uint64_t tag)
{
    struct okv_command command = {
        .kind = OKV_PUT,
        .tag = tag,
        .key = key,
        .key_length = key_length,
        .value = value,
        .value_length = value_length,
    };

    return submit(handle, &command, 1, NULL, __func__);
}

int okv_submit_delete(okv *handle, const void *key, size_t key_length, uint64_t tag)
{
    struct okv_command command = {
        .kind = OKV_DELETE, .tag = tag, .key = key, .key_length = key_length};

    return submit(handle, &command, 1, NULL, __func__);
}

int okv_submit_ping(okv *handle, uint64_t tag)
{
    struct okv_command command = {.kind = OKV_PING, .tag = tag};

    return submit(handle, &command, 1, NULL, __func__);
}

/* okv_why() is about the first result that needs no command for its sentence. */
static __attribute__((cold)) void poll_explain(okv *handle, const struct okv_result *results,
                                               int count)
{
    argument_error_clear(handle);
    for (int i = 0; i < count && handle->argument_error.text[0] == '\0'; i++) {
        if (results[i].status == OKV_EDENIED)
            denial_explain(handle);
        else if (results[i].status == OKV_EFULL)
            command_explain(handle, OKV_EFULL, NULL, "okv_poll");
    }
}

int okv_poll(okv *handle, struct okv_result *results, int max)
{
    if (!handle || !results)
        return argument_refuse(handle, __func__, "results: it is NULL");
    if (max < 1)
        return argument_refuse(handle, __func__, "max: %d is below 1", max);
    if (call_enter(handle, __func__))
        return OKV_EINVAL;
    if (handle->ended.count == 0) {
        argument_error_clear(handle);
        bool idle = !engine_progress(handle);
        if (handle->event_fd.armed)
            fd_follow(handle, idle);
    }

    int n = 0, failed = 0;
    for (; n < max && handle->ended.count > 0; n++) {
        struct result_queue *ended = &handle->ended;
        results[n] = ended->results[ended->first];
        failed |= results[n].status;
        ended->first = ring_index(ended->first, 1, handle->depth);
        ended->count--;
        handle->pending--;
    }
    if (failed)
        poll_explain(handle, results, n);
    return call_leave(handle, n > 0 ? n : handle->failure);
}

uint32_t okv_pending(const okv *handle)
{
    return call_may_look(handle, __func__) ? handle->pending : 0;
}

/* ---- many commands ---- */

/* The commands of one okv_call_many(). */
struct many {
    const struct okv_command *commands;
    struct okv_result *results;
    size_t count;
    size_t next; /* the first that was not started */
    uint64_t begun_ns;
};

static uint64_t next_deadline_ns(const okv *handle, const struct many *many)
{
    return command_deadline_ns(handle, &many->commands[many->next], many->begun_ns);
}

static void next_end(struct many *many, int status)
{
    many->results[many->next] =
        (struct okv_result){.tag = many->commands[many->next].tag, .status = status};
    many->next++;
}

/* Starts the next command. One that is invalid or past its deadline ends at once. False: no free
 * slot. */
static bool start_next(okv *handle, struct many *many, uint64_t now)
{
    if (next_deadline_ns(handle, many) <= now) {
        handle->counters.timeouts++;
        next_end(many, timeout_status(handle));
        return true;
    }
    if (handle->active == handle->depth)
        return false;
    if (fast_get_start(handle, &many->commands[many->next], many->begun_ns, DELIVER_TO_ARRAY,
                       &many->results[many->next])) {
        many->next++;
        return true;
    }
    int rc = command_start(handle, &many->commands[many->next], many->begun_ns, DELIVER_TO_ARRAY,
                           &many->results[many->next], NULL);
    if (rc == OKV_EAGAIN) /* abandoned operations have the slots */
        return false;
    if (rc)
        next_end(many, rc);
    else
        many->next++;
    return true;
}

static void start_some(okv *handle, struct many *many, uint64_t now)
{
    while (many->next < many->count && start_next(handle, many, now))
        ;
    engine_flush(handle);
}

static void many_run(okv *handle, struct many *many)
{
    struct waiting waiting = {0};

    start_some(handle, many, many->begun_ns);
    while (many->next < many->count || handle->active > 0) {
        bool left = many->next < many->count;
        wait_pause(handle, &waiting, left ? next_deadline_ns(handle, many) : UINT64_MAX);
        if (left)
            start_some(handle, many, okv_clock_ns());
    }
}

/* The handle's failure, if it ended a command: it may also have come after the last result. */
static int many_failure(const okv *handle, const struct many *many)
{
    for (size_t i = 0; handle->failure && i < many->count; i++)
        if (many->results[i].status == handle->failure)
            return handle->failure;
    return OKV_OK;
}

static bool may_have_sentence(int status)
{
    return status == OKV_EINVAL || status == OKV_EKEYSIZE || status == OKV_EVALUESIZE ||
           status == OKV_ETTL || status == OKV_EFULL;
}

/* okv_why() is about the first command that there is a sentence for. */
static void many_explain(okv *handle, const struct many *many)
{
    for (size_t i = 0; i < many->count && handle->argument_error.text[0] == '\0'; i++) {
        int status = many->results[i].status;
        if (status == OKV_EDENIED)
            denial_explain(handle);
        else if (may_have_sentence(status))
            command_explain_nth(handle, status, many->commands, i, "okv_call_many");
    }
}

/* Ends all with `rc`, before any has started. */
static int many_refuse(struct many *many, int rc)
{
    while (many->next < many->count)
        next_end(many, rc);
    return rc;
}

static int call_many(okv *handle, struct many *many)
{
    argument_error_clear(handle);
    if (handle->failure)
        return many_refuse(many, handle->failure);
    if (handle->active > 0)
        return many_refuse(many, OKV_EAGAIN);
    many->begun_ns = call_begin(handle);
    many_run(handle, many);
    int failure = many_failure(handle, many);
    if (!failure)
        many_explain(handle, many);
    return failure;
}

int okv_call_many(okv *handle, const struct okv_command *commands, struct okv_result *results,
                  size_t count)
{
    struct many many = {.commands = commands, .results = results, .count = count};

    if (!handle || (!commands && count > 0))
        return argument_refuse(handle, __func__, "commands: it is NULL");
    if (!results && count > 0)
        return argument_refuse(handle, __func__, "results: it is NULL");
    if (call_enter(handle, __func__))
        return OKV_EINVAL;
    return call_leave(handle, call_many(handle, &many));
}
