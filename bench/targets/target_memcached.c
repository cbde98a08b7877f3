/* memcached, by its meta commands: a pipelined text protocol. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/targets/peer.h"

#define KEY_BYTES_MAX 250
#define STATS_BYTES 16384
/* The limit of a line of an answer. */
#define LINE_BYTES 2048
/* The limit of a request without its value. */
#define REQUEST_BYTES (KEY_BYTES_MAX + 128)
/* Overhead of an item within item_size_max. */
#define ITEM_OVERHEAD_BYTES (KEY_BYTES_MAX + 128)
/* The first version with the present form of meta commands. */
#define VERSION_MAJOR 1
#define VERSION_MINOR 6
#define VERSION_PATCH 10

struct memcached_target {
    struct peer peer;
    char line[LINE_BYTES]; /* an incomplete line */
    size_t line_length;
    bool in_value; /* in the middle of a value */
    uint64_t value_length;
    uint64_t value_taken; /* of it and its line end */
    char number[24];      /* the value of an incr */
    /* The text that answers "version" and "stats": lines are added until one of them is `last`. */
    char *text;
    size_t text_size;
    size_t text_length;
    const char *last;
    uint32_t item_size_max;
    char version[64];
};

/* ---- answers --------------------------------------------------------------- */

static int malformed(struct peer *peer, const char *what)
{
    return peer_fail(peer, OKV_EPROTO, "%s sent %s: is that a memcached?", peer->path, what);
}

/* A value that nothing asked for is dropped. */
static void take_value(struct memcached_target *target, const char *bytes, size_t length)
{
    struct peer_operation *operation = peer_waiting(&target->peer);
    uint64_t at = target->value_taken;
    char *to = operation->buffer;
    size_t size = operation->buffer_size;

    if (operation->kind == OKV_INCR) {
        to = target->number;
        size = sizeof target->number - 1;
    }
    if (target->value_length <= size)
        memcpy(to + at, bytes, length);
}

static int end_incr(struct memcached_target *target, struct peer_operation *operation)
{
    char *end = NULL;

    if (target->value_length >= sizeof target->number)
        return OKV_EPROTO;
    target->number[target->value_length] = '\0';
    uint64_t number = strtoull(target->number, &end, 10);
    operation->result.number = (int64_t)number;
    return number <= INT64_MAX ? OKV_OK : OKV_EOVERFLOW;
}

/* The value and its line end have come. */
static void end_value(struct memcached_target *target)
{
    struct peer_operation *operation = peer_waiting(&target->peer);
    int status = OKV_OK;

    target->in_value = false;
    if (operation->kind == OKV_INCR) {
        status = end_incr(target, operation);
    } else {
        operation->result.length = target->value_length;
        if (target->value_length > operation->buffer_size)
            status = OKV_ETOOSMALL;
    }
    peer_end(&target->peer, operation, status);
}

/* Consumes bytes of a value. Returns how many; 0: the end of the line is wrong. */
static size_t decode_value(struct memcached_target *target, const char *bytes, size_t length)
{
    static const char line_end[] = "\r\n";
    uint64_t left = target->value_length + 2 - target->value_taken;
    size_t part = length < left ? length : (size_t)left;
    size_t used = 0;

    if (target->value_taken < target->value_length) {
        uint64_t of_value = target->value_length - target->value_taken;
        used = part < of_value ? part : (size_t)of_value;
        take_value(target, bytes, used);
        target->value_taken += used;
    }
    while (used < part) {
        if (bytes[used++] != line_end[target->value_taken++ - target->value_length])
            return 0;
    }
    if (target->value_taken == target->value_length + 2)
        end_value(target);
    return part;
}

/* Parses the flags c, the version, and s, the size. */
static void read_flags(const char *flags, struct peer_operation *operation)
{
    for (const char *at = flags; (at = strchr(at, ' ')); at++) {
        if (at[1] == 'c')
            operation->result.version = strtoull(at + 2, NULL, 10);
        else if (at[1] == 's')
            operation->result.length = strtoull(at + 2, NULL, 10);
    }
}

/* "VA SIZE FLAG...": a value follows. Returns 0 or OKV_EPROTO. */
static int begin_value(struct memcached_target *target, const char *line,
                       struct peer_operation *operation)
{
    char *end = NULL;

    if (operation->kind != OKV_GET && operation->kind != OKV_INCR)
        return OKV_EPROTO;
    uint64_t length = strtoull(line + 3, &end, 10);
    if (end == line + 3 || length > UINT32_MAX)
        return OKV_EPROTO;
    read_flags(end, operation);
    target->in_value = true;
    target->value_length = length;
    target->value_taken = 0;
    return OKV_OK;
}

/* The status of an operation after a line that ends its answer; OKV_EPROTO: none of ours. */
static int status_of_line(struct peer *peer, const char *line, struct peer_operation *operation)
{
    static const struct {
        const char *words;
        int status;
    } answers[] = {{"EN", OKV_ENOTFOUND},
                   {"NF", OKV_ENOTFOUND},
                   {"NS", OKV_EEXISTS},
                   {"EX", OKV_ECONFLICT},
                   {"CLIENT_ERROR cannot increment", OKV_ENUMBER},
                   {"SERVER_ERROR object too large", OKV_EVALUESIZE},
                   {"SERVER_ERROR out of memory", OKV_EFULL}};

    if (operation->kind == OKV_PING)
        return strcmp(line, "MN") == 0 ? OKV_OK : OKV_EPROTO;
    if (operation->kind != OKV_GET && (strcmp(line, "HD") == 0 || strncmp(line, "HD ", 3) == 0)) {
        read_flags(line + 2, operation);
        return OKV_OK;
    }
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++)
        if (strncmp(line, answers[i].words, strlen(answers[i].words)) == 0)
            return answers[i].status;
    if (!strstr(line, "ERROR"))
        return OKV_EPROTO;
    peer_note(peer, line, strlen(line));
    return OKV_EREFUSED;
}

/* Another line of a text. Returns 0 or OKV_EPROTO. */
static int add_text(struct memcached_target *target, const char *line,
                    struct peer_operation *operation)
{
    bool is_last = strncmp(line, target->last, strlen(target->last)) == 0;
    size_t room = target->text_size - target->text_length;

    int used = snprintf(target->text + target->text_length, room, "%s\n", line);
    if (used < 0 || (size_t)used >= room)
        return OKV_EPROTO;
    target->text_length += (size_t)used;
    if (!is_last && strncmp(line, "STAT ", 5) != 0)
        return OKV_EPROTO;
    if (is_last)
        peer_end(&target->peer, operation, OKV_OK);
    return OKV_OK;
}

/* A line without its end. Returns 0 or the target's failure. */
static int decode_line(struct memcached_target *target, const char *line)
{
    struct peer *peer = &target->peer;
    struct peer_operation *operation = peer_waiting(peer);
    int rc;

    if (!operation)
        return malformed(peer, "an answer that nothing had asked for");
    if (target->text) {
        rc = add_text(target, line, operation);
    } else if (strncmp(line, "VA ", 3) == 0) {
        rc = begin_value(target, line, operation);
    } else {
        int status = status_of_line(peer, line, operation);
        rc = status == OKV_EPROTO ? status : OKV_OK;
        if (rc == OKV_OK)
            peer_end(peer, operation, status);
    }
    return rc == OKV_OK ? OKV_OK : malformed(peer, "an unexpected reply");
}

/* Consumes bytes of a line. Returns how many; 0: it is too long, or the target has failed. */
static size_t decode_text(struct memcached_target *target, const char *bytes, size_t length)
{
    const char *end = memchr(bytes, '\n', length);
    size_t part = end ? (size_t)(end - bytes) + 1 : length;

    if (part > sizeof target->line - target->line_length)
        return 0;
    memcpy(target->line + target->line_length, bytes, part);
    target->line_length += part;
    if (!end)
        return part;
    if (target->line_length < 2 || target->line[target->line_length - 2] != '\r')
        return 0;
    target->line[target->line_length - 2] = '\0';
    target->line_length = 0;
    return decode_line(target, target->line) == OKV_OK ? part : 0;
}

static int decode(struct peer *peer, const char *bytes, size_t length)
{
    struct memcached_target *target = (struct memcached_target *)peer;

    while (length > 0) {
        size_t used = target->in_value ? decode_value(target, bytes, length)
                                       : decode_text(target, bytes, length);
        if (used == 0)
            return peer->code != OKV_OK ? peer->code : malformed(peer, "an unexpected reply");
        bytes += used;
        length -= used;
    }
    return OKV_OK;
}

/* ---- requests -------------------------------------------------------------- */

struct request {
    char text[REQUEST_BYTES];
    size_t length;
};

static void add(struct request *request, const void *bytes, size_t length)
{
    memcpy(request->text + request->length, bytes, length);
    request->length += length;
}

static void add_word(struct request *request, const char *word)
{
    add(request, word, strlen(word));
}

/* By hand: printf would dominate the cost of a request. */
static void add_number(struct request *request, const char *word, uint64_t number)
{
    char digits[20];
    size_t at = sizeof digits;

    add_word(request, word);
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    add(request, digits + at, sizeof digits - at);
}

/* A key is a word in the line of a command: no blanks, no line ends. */
static bool takes_key(const struct okv_command *command)
{
    const unsigned char *key = command->key;

    if (command->key_length > KEY_BYTES_MAX)
        return false;
    for (size_t i = 0; i < command->key_length; i++)
        if (key[i] <= ' ' || key[i] == 0x7f)
            return false;
    return true;
}

/* No ttl: memcached counts in seconds, and a set cannot keep one. */
static int add_put(struct request *request, const struct okv_command *command)
{
    if (command->flags & (OKV_WITH_TTL | OKV_KEEP_TTL))
        return OKV_EUNSUPPORTED;
    add_word(request, "ms ");
    add(request, command->key, command->key_length);
    add_number(request, " ", command->value_length);
    if (command->flags & OKV_IF_ABSENT)
        add_word(request, " ME");
    if (command->flags & OKV_IF_VERSION)
        add_number(request, " C", command->version);
    return OKV_OK;
}

static int add_delete(struct request *request, const struct okv_command *command)
{
    add_word(request, "md ");
    add(request, command->key, command->key_length);
    if (command->flags & OKV_IF_VERSION)
        add_number(request, " C", command->version);
    return OKV_OK;
}

/* Numbers are unsigned and stop at 0, so only additions are comparable. */
static int add_incr(struct request *request, const struct okv_command *command)
{
    if (command->delta < 0)
        return OKV_EUNSUPPORTED;
    add_word(request, "ma ");
    add(request, command->key, command->key_length);
    add_number(request, " v N0 D", (uint64_t)command->delta);
    add_number(request, " J", (uint64_t)command->delta);
    return OKV_OK;
}

static int add_command(struct request *request, const struct okv_command *command)
{
    if (command->kind == OKV_PING) {
        add_word(request, "mn");
        return command->value_length == 0 ? OKV_OK : OKV_EUNSUPPORTED;
    }
    if (!takes_key(command))
        return OKV_EUNSUPPORTED;
    switch (command->kind) {
    case OKV_GET:
    case OKV_HEAD:
        add_word(request, "mg ");
        add(request, command->key, command->key_length);
        add_word(request, command->kind == OKV_GET ? " v c" : " s c");
        return OKV_OK;
    case OKV_PUT:
        return add_put(request, command);
    case OKV_DELETE:
        return add_delete(request, command);
    case OKV_INCR:
        return add_incr(request, command);
    default:
        return OKV_EUNSUPPORTED;
    }
}

static int encode(struct peer *peer, const struct okv_command *command)
{
    struct request request;
    size_t before = peer->output_length;

    request.length = 0;
    int rc = add_command(&request, command);
    if (rc != OKV_OK)
        return rc;
    add_word(&request, "\r\n");
    rc = peer_write(peer, request.text, request.length);
    if (rc == OKV_OK && command->kind == OKV_PUT) {
        rc = peer_write(peer, command->value, command->value_length);
        if (rc == OKV_OK)
            rc = peer_write(peer, "\r\n", 2);
    }
    if (rc != OKV_OK)
        peer->output_length = before;
    return rc;
}

/* ---- the target ------------------------------------------------------------ */

static const struct peer_protocol memcached_protocol = {.scheme = "memcached",
                                                        .server = "memcached",
                                                        .port = "11211",
                                                        .wire = &peer_socket,
                                                        .encode = encode,
                                                        .decode = decode};

/* Sends a request whose answer is lines, up to the one that begins with `last`. */
static int ask_text(struct memcached_target *target, const char *request, const char *last,
                    char *text, size_t size)
{
    size_t length = 0;

    text[0] = '\0';
    target->text = text;
    target->text_size = size;
    target->text_length = 0;
    target->last = last;
    int rc = peer_ask(&target->peer, request, strlen(request), NULL, 0, &length);
    target->text = NULL;
    return rc;
}

static int read_version(struct memcached_target *target, char *text, size_t size)
{
    unsigned major = 0;
    unsigned minor = 0;
    unsigned patch = 0;

    int rc = ask_text(target, "version\r\n", "VERSION ", text, size);
    if (rc != OKV_OK)
        return rc;
    snprintf(target->version, sizeof target->version, "%.*s", (int)strcspn(text + 8, "\n"),
             text + 8);
    if (sscanf(target->version, "%u.%u.%u", &major, &minor, &patch) == 3 &&
        (major << 20 | minor << 10 | patch) >=
            (VERSION_MAJOR << 20 | VERSION_MINOR << 10 | VERSION_PATCH))
        return OKV_OK;
    return peer_fail(&target->peer, OKV_EVERSION, "memcached there is %s: %d.%d.%d is needed",
                     target->version, VERSION_MAJOR, VERSION_MINOR, VERSION_PATCH);
}

static int introduce(struct memcached_target *target)
{
    char text[STATS_BYTES];

    int rc = read_version(target, text, sizeof text);
    if (rc == OKV_OK)
        rc = ask_text(target, "stats settings\r\n", "END", text, sizeof text);
    if (rc != OKV_OK)
        return rc;
    double size = peer_figure(text, "STAT item_size_max", ' ');
    if (!(size > ITEM_OVERHEAD_BYTES && size < UINT32_MAX))
        return malformed(&target->peer, "no item_size_max");
    target->item_size_max = (uint32_t)size;
    return OKV_OK;
}

static int memcached_open(const struct target_config *config, struct target **out, char *why,
                          size_t why_size)
{
    struct memcached_target *target = calloc(1, sizeof *target);

    if (!target) {
        snprintf(why, why_size, "%s", okv_strerror(OKV_ENOMEM));
        return OKV_ENOMEM;
    }
    target->peer.target.ops = &target_memcached_ops;
    int rc = peer_open(&target->peer, &memcached_protocol, config, why, why_size);
    if (rc != OKV_OK)
        goto free_target;
    rc = introduce(target);
    if (rc != OKV_OK)
        goto fini_peer;
    *out = &target->peer.target;
    return OKV_OK;

fini_peer:
    snprintf(why, why_size, "%s",
             target->peer.why[0] != '\0' ? target->peer.why : okv_strerror(rc));
    peer_fini(&target->peer);
free_target:
    free(target);
    return rc;
}

static void memcached_close(struct target *base)
{
    struct memcached_target *target = (struct memcached_target *)base;

    peer_fini(&target->peer);
    free(target);
}

static void memcached_info(struct target *base, struct target_info *info)
{
    struct memcached_target *target = (struct memcached_target *)base;

    *info = (struct target_info){.kind = "memcached",
                                 .transport = target->peer.is_unix ? "unix" : "tcp",
                                 .path = target->peer.path,
                                 .version = target->version,
                                 .max_value = target->item_size_max - ITEM_OVERHEAD_BYTES};
}

static int memcached_stat(struct target *base, struct target_stat *stat)
{
    struct memcached_target *target = (struct memcached_target *)base;
    char text[STATS_BYTES];
    int rc = ask_text(target, "stats\r\n", "END", text, sizeof text);

    *stat =
        (struct target_stat){.cpu_ms = NAN, .items = NAN, .user_bytes = NAN, .memory_bytes = NAN};
    if (rc != OKV_OK)
        return rc;
    stat->cpu_ms = 1e3 * (peer_figure(text, "STAT rusage_user", ' ') +
                          peer_figure(text, "STAT rusage_system", ' '));
    stat->items = peer_figure(text, "STAT curr_items", ' ');
    stat->memory_bytes =
        peer_figure(text, "STAT bytes", ' ') + peer_figure(text, "STAT hash_bytes", ' ');
    return OKV_OK;
}

const struct target_ops target_memcached_ops = {.open = memcached_open,
                                                .close = memcached_close,
                                                .info = memcached_info,
                                                .submit = peer_submit,
                                                .poll = peer_poll,
                                                .wait = peer_wait,
                                                .get_many = peer_get_many,
                                                .why = peer_why,
                                                .stat = memcached_stat};
