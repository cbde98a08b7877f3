#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "server/etcd/message.h"

#define BASE64 sodium_base64_VARIANT_ORIGINAL

static json_t *base64(const void *bytes, size_t length)
{
    size_t size = sodium_base64_encoded_len(length, BASE64);
    char *text = malloc(size);
    json_t *json = NULL;

    if (text)
        json = json_string(sodium_bin2base64(text, size, bytes, length, BASE64));
    free(text);
    return json;
}

static json_t *base64_text(const char *text)
{
    return base64(text, strlen(text));
}

/* The first key after all that begin with `prefix`, whose last byte is not 0xff. */
static json_t *end_of(const char *prefix)
{
    size_t length = strlen(prefix);
    char *end = strdup(prefix);
    json_t *json = NULL;

    if (end) {
        end[length - 1]++;
        json = base64(end, length);
    }
    free(end);
    return json;
}

static json_t *number(uint64_t value)
{
    return json_sprintf("%llu", (unsigned long long)value);
}

static char *dump(json_t *json)
{
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;

    json_decref(json);
    return text;
}

char *okv_etcd_encode_get(const char *prefix, bool keys_only)
{
    return dump(json_pack("{so so sb}", "key", base64_text(prefix), "range_end", end_of(prefix),
                          "keys_only", keys_only));
}

static json_t *compare_of(const struct okv_etcd_change *change)
{
    return json_pack("{so ss ss so}", "key", base64_text(change->key), "target", "MOD", "result",
                     "EQUAL", "mod_revision", number(change->mod_revision));
}

static json_t *success_of(const struct okv_etcd_change *change)
{
    json_t *key = base64_text(change->key);

    if (!change->value)
        return json_pack("{s{so}}", "request_delete_range", "key", key);
    return json_pack("{s{so so so}}", "request_put", "key", key, "value",
                     base64(change->value, change->length), "lease", number(change->lease));
}

static json_t *failure_of(const struct okv_etcd_change *change)
{
    return json_pack("{s{so}}", "request_range", "key", base64_text(change->key));
}

static json_t *list_of(const struct okv_etcd_change *changes, size_t count,
                       json_t *(*part)(const struct okv_etcd_change *change))
{
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++)
        if (json_array_append_new(list, part(&changes[i]))) {
            json_decref(list);
            return NULL;
        }
    return list;
}

char *okv_etcd_encode_swap(const struct okv_etcd_change *changes, size_t count)
{
    return dump(json_pack("{so so so}", "compare", list_of(changes, count, compare_of), "success",
                          list_of(changes, count, success_of), "failure",
                          list_of(changes, count, failure_of)));
}

char *okv_etcd_encode_watch(const char *prefix, uint64_t from_revision)
{
    return dump(json_pack("{s{so so so}}", "create_request", "key", base64_text(prefix),
                          "range_end", end_of(prefix), "start_revision", number(from_revision)));
}

char *okv_etcd_encode_grant(uint32_t ttl_s)
{
    return dump(json_pack("{so}", "TTL", number(ttl_s)));
}

char *okv_etcd_encode_lease(uint64_t lease)
{
    return dump(json_pack("{so}", "ID", number(lease)));
}

char *okv_etcd_encode_login(const char *user, const char *password)
{
    return dump(json_pack("{ss ss}", "name", user, "password", password));
}
