#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "server/etcd/message.h"

/* Decimal digits, as proto3 has numbers of 64 bits. */
static int read_number(const json_t *object, const char *name, uint64_t *out)
{
    const json_t *json = json_object_get(object, name);
    const char *text = json_string_value(json);

    if (!json)
        return OKV_OK;
    if (!text || !*text)
        return OKV_EPROTO;
    uint64_t value = 0;
    for (; *text; text++) {
        unsigned digit = (unsigned)(unsigned char)*text - '0';
        if (digit > 9 || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, digit, &value))
            return OKV_EPROTO;
    }
    *out = value;
    return OKV_OK;
}

/* The bytes of all items in a row; base64 is longer than what it stands for. */
struct room {
    char *at;
    size_t left;
};

static const char *read_bytes(const json_t *object, const char *name, struct room *room,
                              size_t *length)
{
    const json_t *json = json_object_get(object, name);
    const char *text = json ? json_string_value(json) : "";
    char *bytes = room->at;

    if (!text || room->left == 0 ||
        sodium_base642bin((unsigned char *)bytes, room->left - 1, text, strlen(text), NULL, length,
                          NULL, sodium_base64_VARIANT_ORIGINAL))
        return NULL;
    bytes[*length] = '\0';
    room->at += *length + 1;
    room->left -= *length + 1;
    return bytes;
}

static int read_item(struct okv_etcd_message *message, const json_t *json, struct room *room)
{
    struct okv_etcd_item item = {0};
    size_t key_length;

    item.key = read_bytes(json, "key", room, &key_length);
    if (!item.key || key_length == 0 || strlen(item.key) != key_length)
        return OKV_EPROTO;
    item.value = read_bytes(json, "value", room, &item.length);
    int rc = item.value ? read_number(json, "mod_revision", &item.mod_revision) : OKV_EPROTO;
    if (rc)
        return rc;
    message->items[message->count++] = item;
    return OKV_OK;
}

/* A get has its items at `body`, a swap in an answer for each key. */
static int read_items(struct okv_etcd_message *message, const json_t *body, size_t length)
{
    const json_t *kvs = json_object_get(body, "kvs");
    const json_t *responses = json_object_get(body, "responses"), *json;
    struct room room = {NULL, length};
    size_t index;
    int rc = OKV_OK;

    size_t most = json_array_size(kvs) + json_array_size(responses);
    if (most == 0)
        return OKV_OK;
    message->items = calloc(most, sizeof *message->items);
    message->bytes = room.at = malloc(length);
    if (!message->items || !message->bytes)
        return OKV_ENOMEM;
    json_array_foreach(kvs, index, json) if ((rc = read_item(message, json, &room))) return rc;
    json_array_foreach(responses, index, json)
    {
        kvs = json_object_get(json_object_get(json, "response_range"), "kvs");
        if (json_array_size(kvs) && (rc = read_item(message, json_array_get(kvs, 0), &room)))
            return rc;
    }
    return OKV_OK;
}

static int read_events(struct okv_etcd_message *message, const json_t *body)
{
    const json_t *events = json_object_get(body, "events"), *json;
    size_t index;

    json_array_foreach(events, index, json)
    {
        uint64_t revision = 0;
        int rc = read_number(json_object_get(json, "kv"), "mod_revision", &revision);
        if (rc)
            return rc;
        if (revision > message->event_revision)
            message->event_revision = revision;
    }
    return OKV_OK;
}

/* Of calls: {"error": TEXT, "code": N}; later versions leave out the first. Of streams:
 * {"error": {"message": TEXT, "grpc_code": N}}. */
static void read_error(struct okv_etcd_message *message)
{
    const json_t *error = json_object_get(message->root, "error");
    const json_t *in = json_is_object(error) ? error : message->root;
    const json_t *code = json_object_get(in, "code");

    message->error = json_string_value(json_object_get(in, "message"));
    if (!message->error)
        message->error = json_string_value(error);
    if (!code)
        code = json_object_get(in, "grpc_code");
    json_int_t value = json_integer_value(code);
    message->error_code = value > 0 && value <= 16 ? (int)value : 0;
    if (!message->error && (error || code))
        message->error = "";
}

static int read_body(struct okv_etcd_message *message, const json_t *body, size_t length)
{
    const json_t *header = json_object_get(body, "header");
    int rc;

    message->succeeded = json_is_true(json_object_get(body, "succeeded"));
    message->is_created = json_is_true(json_object_get(body, "created"));
    message->is_canceled = json_is_true(json_object_get(body, "canceled"));
    message->token = json_string_value(json_object_get(body, "token"));
    if ((rc = read_number(header, "cluster_id", &message->cluster_id)) ||
        (rc = read_number(header, "revision", &message->revision)) ||
        (rc = read_number(body, "ID", &message->lease)) ||
        (rc = read_number(body, "TTL", &message->ttl_s)) || (rc = read_events(message, body)))
        return rc;
    return read_items(message, body, length);
}

int okv_etcd_message_decode(struct okv_etcd_message *message, const char *text, size_t length)
{
    memset(message, 0, sizeof *message);
    message->root = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(message->root))
        return OKV_EPROTO;
    read_error(message);
    json_t *result = json_object_get(message->root, "result");
    return read_body(message, result ? result : message->root, length);
}

void okv_etcd_message_fini(struct okv_etcd_message *message)
{
    json_decref(message->root);
    free(message->items);
    free(message->bytes);
    memset(message, 0, sizeof *message);
}
