/* okv as a target: a handle. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/targets/target.h"

#define STAT_BYTES 65536

struct target_okv {
    struct target base;
    okv *handle;
    struct okv_info info;
};

static okv *handle_of(struct target *target)
{
    return ((struct target_okv *)target)->handle;
}

static int target_open(const struct target_config *config, struct target **out, char *why,
                       size_t why_size)
{
    struct okv_options options = *config->okv;

    options.timeout_ms = config->timeout_ms;
    options.depth = config->depth;
    options.credits = config->credits;
    /* A reconnect would spoil the results: it takes time, and the table may be empty. */
    options.reconnect = OKV_RECONNECT_NEVER;
    if (!options.user != !options.key_file) {
        snprintf(why, why_size, "%s",
                 options.user ? "--user needs --key-file, or OKV_KEY_FILE"
                              : "--key-file needs --user, or OKV_USER");
        return OKV_EINVAL;
    }
    struct target_okv *target = calloc(1, sizeof *target);
    if (!target) {
        snprintf(why, why_size, "%s", okv_strerror(OKV_ENOMEM));
        return OKV_ENOMEM;
    }
    target->base.ops = &target_okv_ops;
    int rc = okv_open(config->uri, &options, &target->handle, why, why_size);
    if (rc != OKV_OK) {
        free(target);
        return rc;
    }
    okv_info(target->handle, &target->info);
    *out = &target->base;
    return OKV_OK;
}

static void target_close(struct target *target)
{
    struct target_okv *self = (struct target_okv *)target;

    okv_close(&self->handle);
    free(self);
}

/* A figure from the server's text, or NAN. */
static double figure(const char *text, const char *name)
{
    size_t length = strlen(name);

    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && line[length] == ' ')
            return strtod(line + length, NULL);
    }
    return NAN;
}

static bool evicts(struct target *target)
{
    char text[STAT_BYTES] = "";
    size_t length = 0;

    return okv_stat(handle_of(target), text, sizeof text, &length) == OKV_OK &&
           figure(text, "evicts") > 0;
}

static void target_info(struct target *target, struct target_info *info)
{
    const struct target_okv *self = (struct target_okv *)target;

    *info = (struct target_info){.kind = "okv",
                                 .transport = self->info.transport,
                                 .path = self->info.path,
                                 .version = "",
                                 .bucket_bytes = self->info.bucket_bytes,
                                 .max_value = self->info.max_value,
                                 .region_bytes = self->info.region_bytes,
                                 .evicts = evicts(target)};
}

static int target_submit(struct target *target, const struct okv_command *commands, size_t count,
                         size_t *accepted)
{
    return okv_submit(handle_of(target), commands, count, accepted);
}

static int target_poll(struct target *target, struct okv_result *results, int max)
{
    return okv_poll(handle_of(target), results, max);
}

static int target_wait(struct target *target, int timeout_ms)
{
    return okv_wait(handle_of(target), timeout_ms);
}

static int target_get_many(struct target *target, const struct okv_command *commands,
                           struct okv_result *results, size_t count)
{
    return okv_call_many(handle_of(target), commands, results, count);
}

static void target_get(struct target *target, const struct okv_command *command,
                       struct okv_result *result)
{
    *result = (struct okv_result){.tag = command->tag};
    result->status = okv_get(handle_of(target), command->key, command->key_length, command->buffer,
                             command->buffer_size, &result->length, &result->version);
}

static const char *target_why(struct target *target)
{
    return okv_why(handle_of(target));
}

static int target_stat(struct target *target, struct target_stat *stat)
{
    char text[STAT_BYTES];
    size_t length = 0;

    int rc = okv_stat(handle_of(target), text, sizeof text, &length);
    if (rc != OKV_OK)
        return rc;
    stat->cpu_ms = figure(text, "cpu_ms");
    stat->items = figure(text, "items");
    stat->user_bytes = figure(text, "user_bytes");
    stat->memory_bytes =
        figure(text, "index_bytes") + figure(text, "overflow_bytes") + figure(text, "extent_bytes");
    return OKV_OK;
}

static void target_counters(struct target *target, struct okv_counters *counters)
{
    okv_counters(handle_of(target), counters);
}

const struct target_ops target_okv_ops = {
    .open = target_open,
    .close = target_close,
    .info = target_info,
    .submit = target_submit,
    .poll = target_poll,
    .wait = target_wait,
    .get_many = target_get_many,
    .get = target_get,
    .why = target_why,
    .stat = target_stat,
    .counters = target_counters,
    .handle = handle_of,
};
