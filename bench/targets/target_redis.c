/* redis-server and valkey-server: RESP 2, read by hiredis's reader. */
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/targets/target_redis.h"

/* Redis's proto-max-bulk-len: no answer is longer. */
#define VALUE_BYTES_MAX (512u << 20)
#define INFO_BYTES 65536
#define ARGUMENTS_MAX 6

/* A parsed answer. */
struct reply {
    int type;
    int status; /* of a value that was delivered */
    long long integer;
    char text[160]; /* of an error or a status */
    size_t text_length;
};

struct redis_target {
    struct peer peer;
    redisReader *reader;
    struct reply reply;
    unsigned wait;  /* replicas that a put waits for; 0: none */
    bool was_put;   /* its WAIT has no answer yet */
    int put_status; /* of that put */
    char version[64];
};

/* ---- answers --------------------------------------------------------------- */

/* Copies a value straight to its buffer; reply_end() handles the rest. Elements of an array are
 * ignored: no request here has one for an answer. */
static void *found_string(const redisReadTask *task, char *bytes, size_t length)
{
    struct redis_target *target = task->privdata;
    struct reply *reply = &target->reply;

    if (task->parent)
        return reply;
    reply->type = task->type;
    if (task->type == REDIS_REPLY_STRING) {
        struct peer_operation *operation = peer_waiting(&target->peer);
        reply->status = OKV_EPROTO;
        if (operation && operation->kind == OKV_GET)
            reply->status = peer_deliver(operation, bytes, length);
    } else {
        reply->text_length = length < sizeof reply->text ? length : sizeof reply->text - 1;
        memcpy(reply->text, bytes, reply->text_length);
        reply->text[reply->text_length] = '\0';
    }
    return reply;
}

static void *found_integer(const redisReadTask *task, long long integer)
{
    struct redis_target *target = task->privdata;

    if (!task->parent) {
        target->reply.type = REDIS_REPLY_INTEGER;
        target->reply.integer = integer;
    }
    return &target->reply;
}

static void *found_nil(const redisReadTask *task)
{
    struct redis_target *target = task->privdata;

    if (!task->parent)
        target->reply.type = REDIS_REPLY_NIL;
    return &target->reply;
}

/* Replies are not allocated. */
static void forget(void *reply)
{
    (void)reply;
}

/* Not const only because hiredis takes it so. Replies of other types are hiredis's own. */
static redisReplyObjectFunctions reply_functions = {.createString = found_string,
                                                    .createInteger = found_integer,
                                                    .createNil = found_nil,
                                                    .freeObject = forget};

static int status_of_error(struct peer *peer, const struct reply *reply)
{
    if (strstr(reply->text, "not an integer"))
        return OKV_ENUMBER;
    if (strstr(reply->text, "overflow"))
        return OKV_EOVERFLOW;
    peer_note(peer, reply->text, reply->text_length);
    return strncmp(reply->text, "OOM ", 4) == 0 ? OKV_EFULL : OKV_EREFUSED;
}

/* The status of an operation with this answer; OKV_EPROTO: an answer to something else. */
static int status_of_reply(const struct reply *reply, struct peer_operation *operation)
{
    switch (operation->kind) {
    case OKV_GET:
        if (reply->type == REDIS_REPLY_STRING)
            return reply->status;
        return reply->type == REDIS_REPLY_NIL ? OKV_ENOTFOUND : OKV_EPROTO;
    case OKV_PUT:
        if (reply->type == REDIS_REPLY_STATUS)
            return OKV_OK;
        return reply->type == REDIS_REPLY_NIL ? OKV_EEXISTS : OKV_EPROTO;
    case OKV_DELETE:
        if (reply->type == REDIS_REPLY_INTEGER)
            return reply->integer != 0 ? OKV_OK : OKV_ENOTFOUND;
        return OKV_EPROTO;
    case OKV_INCR:
        operation->result.number = reply->integer;
        return reply->type == REDIS_REPLY_INTEGER ? OKV_OK : OKV_EPROTO;
    default:
        return reply->type == REDIS_REPLY_STATUS ? OKV_OK : OKV_EPROTO;
    }
}

static int malformed(struct peer *peer, const char *what)
{
    return peer_fail(peer, OKV_EPROTO, "%s sent %s: is that a %s?", peer->path, what,
                     peer->protocol->server);
}

/* With ?wait=N a put has two answers. True: this one is the first. */
static bool begins_wait(struct redis_target *target, const struct peer_operation *operation,
                        int *status)
{
    bool was_put = target->was_put;

    target->was_put = !was_put && target->wait > 0 && operation->kind == OKV_PUT;
    if (was_put) {
        bool has_replicas = target->reply.type == REDIS_REPLY_INTEGER &&
                            target->reply.integer >= (long long)target->wait;
        *status = target->put_status != OKV_OK ? target->put_status
                  : has_replicas               ? OKV_OK
                                               : OKV_EFEWCOPIES;
    }
    target->put_status = *status;
    return target->was_put;
}

static int reply_end(struct redis_target *target)
{
    struct peer_operation *operation = peer_waiting(&target->peer);

    if (!operation)
        return malformed(&target->peer, "an answer that nothing had asked for");
    int status = target->reply.type == REDIS_REPLY_ERROR
                     ? status_of_error(&target->peer, &target->reply)
                     : status_of_reply(&target->reply, operation);
    if (begins_wait(target, operation, &status))
        return OKV_OK;
    if (status == OKV_EPROTO)
        return malformed(&target->peer, "an answer to something else");
    peer_end(&target->peer, operation, status);
    return OKV_OK;
}

int redis_target_decode(struct peer *peer, const char *bytes, size_t length)
{
    struct redis_target *target = (struct redis_target *)peer;
    void *found = NULL;

    if (redisReaderFeed(target->reader, bytes, length) != REDIS_OK)
        return malformed(peer, "a malformed reply");
    for (;;) {
        target->reply = (struct reply){.type = 0};
        if (redisReaderGetReply(target->reader, &found) != REDIS_OK)
            return malformed(peer, "an unexpected reply");
        if (!found)
            break;
        if (found != &target->reply)
            return malformed(peer, "an answer of another kind");
        int rc = reply_end(target);
        if (rc != OKV_OK)
            return rc;
    }
    if (target->reader->len - target->reader->pos > VALUE_BYTES_MAX + 4096u)
        return malformed(peer, "an answer without an end");
    return OKV_OK;
}

/* ---- requests -------------------------------------------------------------- */

struct request {
    const char *arguments[ARGUMENTS_MAX];
    size_t lengths[ARGUMENTS_MAX];
    int count;
    char number[24];
};

static void add_bytes(struct request *request, const void *bytes, size_t length)
{
    request->arguments[request->count] = bytes;
    request->lengths[request->count++] = length;
}

static void add_word(struct request *request, const char *word)
{
    add_bytes(request, word, strlen(word));
}

static void add_number(struct request *request, int64_t number)
{
    snprintf(request->number, sizeof request->number, "%" PRId64, number);
    add_word(request, request->number);
}

static int add_put(struct request *request, const struct okv_command *command)
{
    if (command->flags & (OKV_IF_VERSION | OKV_KEEP_TTL))
        return OKV_EUNSUPPORTED;
    add_word(request, "SET");
    add_bytes(request, command->key, command->key_length);
    add_bytes(request, command->value, command->value_length);
    if (command->flags & OKV_IF_ABSENT)
        add_word(request, "NX");
    if (command->flags & OKV_WITH_TTL) {
        add_word(request, "PX");
        add_number(request, command->ttl_ms);
    }
    return OKV_OK;
}

/* HEAD is left out: STRLEN does not tell an empty value from none. */
static int add_command(struct request *request, const struct okv_command *command)
{
    switch (command->kind) {
    case OKV_PUT:
        return add_put(request, command);
    case OKV_GET:
        add_word(request, "GET");
        break;
    case OKV_DELETE:
        if (command->flags != 0)
            return OKV_EUNSUPPORTED;
        add_word(request, "DEL");
        break;
    case OKV_INCR:
        add_word(request, "INCRBY");
        break;
    case OKV_PING:
        if (command->value_length > 0)
            return OKV_EUNSUPPORTED;
        add_word(request, "PING");
        return OKV_OK;
    default:
        return OKV_EUNSUPPORTED;
    }
    add_bytes(request, command->key, command->key_length);
    if (command->kind == OKV_INCR)
        add_number(request, command->delta);
    return OKV_OK;
}

/* Shorter than the client waits for an answer, which then says how many there are. */
static int write_wait(struct redis_target *target)
{
    char text[64];

    if (target->wait == 0)
        return OKV_OK;
    int length = snprintf(text, sizeof text, "WAIT %u %" PRIu64 "\r\n", target->wait,
                          target->peer.timeout_ns / 2000000);
    return peer_write(&target->peer, text, (size_t)length);
}

int redis_target_encode(struct peer *peer, const struct okv_command *command)
{
    struct request request = {.count = 0};
    char *text = NULL;

    int rc = add_command(&request, command);
    if (rc != OKV_OK)
        return rc;
    int length = redisFormatCommandArgv(&text, request.count, request.arguments, request.lengths);
    if (length < 0)
        return OKV_ENOMEM;
    rc = peer_write(peer, text, (size_t)length);
    redisFreeCommand(text);
    if (rc == OKV_OK && command->kind == OKV_PUT)
        rc = write_wait((struct redis_target *)peer);
    return rc;
}

/* ---- the target ------------------------------------------------------------ */

static const struct peer_protocol redis_protocol = {.scheme = "redis",
                                                    .server = "redis-server",
                                                    .port = "6379",
                                                    .wire = &peer_socket,
                                                    .encode = redis_target_encode,
                                                    .decode = redis_target_decode};

/* Asks for the server's INFO, a text of lines. */
static int ask_info(struct peer *peer, char *text, size_t size)
{
    size_t length = 0;
    int rc = peer_ask(peer, "INFO\r\n", 6, text, size - 1, &length);

    text[rc == OKV_OK ? length : 0] = '\0';
    return rc;
}

/* Stores the version after `name`, if the server has one. */
static bool note_version(struct redis_target *target, const char *info, const char *name,
                         const char *whose)
{
    const char *found = strstr(info, name);

    if (!found)
        return false;
    found += strlen(name);
    int length = (int)strcspn(found, "\r\n");
    snprintf(target->version, sizeof target->version, "%.*s%s", length, found, whose);
    return true;
}

/* "7.0.15", or "8.1.0 of Valkey": others also report a version of Redis. */
static void read_version(struct redis_target *target, const char *info)
{
    if (!note_version(target, info, "\nvalkey_version:", " of Valkey") &&
        !note_version(target, info, "\nokv_version:", " of okv"))
        note_version(target, info, "redis_version:", "");
}

int redis_target_open(const struct target_ops *ops, const struct peer_protocol *protocol,
                      const struct target_config *config, struct target **out, char *why,
                      size_t why_size)
{
    struct redis_target *target = calloc(1, sizeof *target);
    char *info = malloc(INFO_BYTES);
    int rc = OKV_ENOMEM;

    if (!target || !info)
        goto free_memory;
    target->peer.target.ops = ops;
    target->reader = redisReaderCreateWithFunctions(&reply_functions);
    if (!target->reader)
        goto free_memory;
    target->reader->privdata = target;
    target->reader->maxbuf = 0; /* no limit: keep a buffer once allocated */
    rc = peer_open(&target->peer, protocol, config, why, why_size);
    if (rc != OKV_OK)
        goto free_reader;
    rc = ask_info(&target->peer, info, INFO_BYTES);
    if (rc != OKV_OK)
        goto fini_peer;
    read_version(target, info);
    free(info);
    *out = &target->peer.target;
    return OKV_OK;

fini_peer:
    snprintf(why, why_size, "%s",
             target->peer.why[0] != '\0' ? target->peer.why : okv_strerror(rc));
    peer_fini(&target->peer);
free_reader:
    redisReaderFree(target->reader);
free_memory:
    if (rc == OKV_ENOMEM)
        snprintf(why, why_size, "%s", okv_strerror(rc));
    free(info);
    free(target);
    return rc;
}

/* redis://HOST:PORT?wait=N */
static int redis_open(const struct target_config *config, struct target **out, char *why,
                      size_t why_size)
{
    static const char option[] = "?wait=";
    struct target_config plain = *config;
    const char *found = strstr(config->uri, option);
    char uri[sizeof((struct peer *)0)->path];
    unsigned wait = 0;
    int end = 0;

    if (found) {
        if (sscanf(found + strlen(option), "%3u%n", &wait, &end) != 1 || wait == 0 ||
            found[strlen(option) + (size_t)end] || (size_t)(found - config->uri) >= sizeof uri) {
            snprintf(why, why_size, "\"%.200s\": ?wait= is for 1 to 999 replicas", config->uri);
            return OKV_EURI;
        }
        snprintf(uri, sizeof uri, "%.*s", (int)(found - config->uri), config->uri);
        plain.uri = uri;
    }
    int rc = redis_target_open(&target_redis_ops, &redis_protocol, &plain, out, why, why_size);
    if (rc == OKV_OK)
        ((struct redis_target *)*out)->wait = wait;
    return rc;
}

void redis_target_close(struct target *base)
{
    struct redis_target *target = (struct redis_target *)base;

    peer_fini(&target->peer);
    redisReaderFree(target->reader);
    free(target);
}

void redis_target_info(struct target *base, struct target_info *info)
{
    struct redis_target *target = (struct redis_target *)base;

    *info = (struct target_info){.kind = "redis",
                                 .transport = target->peer.is_unix ? "unix" : "tcp",
                                 .path = target->peer.path,
                                 .version = target->version,
                                 .max_value = VALUE_BYTES_MAX};
}

/* The keys of its first database. */
static double count_items(const char *info)
{
    const char *keys = strstr(info, "\ndb0:keys=");

    return keys ? strtod(keys + 10, NULL) : 0;
}

int redis_target_stat(struct target *base, struct target_stat *stat)
{
    struct redis_target *target = (struct redis_target *)base;
    char info[INFO_BYTES];
    int rc = ask_info(&target->peer, info, sizeof info);

    *stat =
        (struct target_stat){.cpu_ms = NAN, .items = NAN, .user_bytes = NAN, .memory_bytes = NAN};
    if (rc != OKV_OK)
        return rc;
    stat->cpu_ms =
        1e3 * (peer_figure(info, "used_cpu_user", ':') + peer_figure(info, "used_cpu_sys", ':'));
    stat->items = count_items(info);
    stat->memory_bytes = peer_figure(info, "used_memory", ':');
    return OKV_OK;
}

const struct target_ops target_redis_ops = {.open = redis_open,
                                            .close = redis_target_close,
                                            .info = redis_target_info,
                                            .submit = peer_submit,
                                            .poll = peer_poll,
                                            .wait = peer_wait,
                                            .get_many = peer_get_many,
                                            .why = peer_why,
                                            .stat = redis_target_stat};
