#include "server/copies/documents.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "server/cluster/epochs.h"
#include "server/copies/settings.h"

/* ---- values ---- */

static json_t *hex(uint64_t value)
{
    return json_sprintf("%016" PRIx64, value);
}

static json_t *hex_bytes(const uint8_t *bytes, size_t size)
{
    char text[2 * OKV_WAL_ID_SIZE + 1];

    for (size_t i = 0; i < size; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    return json_string(text);
}

static bool read_hex_text(const char *text, size_t digits, uint64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < digits; i++) {
        const char *all = "0123456789abcdef", *at = text[i] ? strchr(all, text[i]) : NULL;
        if (!at)
            return false;
        *out = *out << 4 | (uint64_t)(at - all);
    }
    return true;
}

static bool read_hex(const json_t *value, uint64_t *out)
{
    return json_string_length(value) == 16 && read_hex_text(json_string_value(value), 16, out);
}

static bool read_hex_bytes(const json_t *value, uint8_t *out, size_t size)
{
    uint64_t byte = 0;

    if (json_string_length(value) != 2 * size)
        return false;
    for (size_t i = 0; i < size; i++) {
        if (!read_hex_text(json_string_value(value) + 2 * i, 2, &byte))
            return false;
        out[i] = (uint8_t)byte;
    }
    return true;
}

static bool read_number(const json_t *object, const char *name, uint64_t most, uint64_t *out)
{
    const json_t *value = json_object_get(object, name);

    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        (uint64_t)json_integer_value(value) > most)
        return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}

/* `size` is of `out`, with a NUL. */
static bool read_text(const json_t *value, char *out, size_t size)
{
    if (!json_is_string(value) || json_string_length(value) >= size ||
        strlen(json_string_value(value)) != json_string_length(value))
        return false;
    strcpy(out, json_string_value(value));
    return true;
}

/* Consumes the object, of which `is_whole` says whether nothing is missing. */
static char *text_of(json_t *object, bool is_whole)
{
    char *text = object && is_whole ? json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS) : NULL;

    json_decref(object);
    return text;
}

/* An object of this format, or NULL. */
static json_t *object_of(const void *bytes, size_t length)
{
    json_t *object = json_loadb(bytes, length, JSON_REJECT_DUPLICATES, NULL);
    uint64_t format;

    if (json_is_object(object) && read_number(object, "format", OKV_DOCUMENT_FORMAT, &format) &&
        format == OKV_DOCUMENT_FORMAT)
        return object;
    json_decref(object);
    return NULL;
}

/* ---- the cluster ---- */

static json_t *database_of(const struct okv_cluster_database *database)
{
    const struct okv_wal_identity *identity = &database->identity;

    return json_pack("{s:o, s:o, s:o}", "id", hex_bytes(identity->database_id, OKV_WAL_ID_SIZE),
                     "hash_seed", hex(identity->hash_seed), "position", hex(identity->position));
}

char *okv_document_of_cluster(const struct okv_cluster_document *cluster)
{
    json_t *databases = json_object();
    bool is_whole = true;

    for (unsigned i = 0; i < cluster->database_count; i++)
        is_whole &= json_object_set_new(databases, cluster->databases[i].name,
                                        database_of(&cluster->databases[i])) == 0;
    json_t *object =
        json_pack("{s:i, s:o, s:i, s:i, s:i, s:i, s:b, s:I, s:o}", "format", OKV_DOCUMENT_FORMAT,
                  "id", hex(cluster->id), "copies", (int)cluster->copies, "min_copies",
                  (int)cluster->copies_min, "lease_ms", (int)cluster->lease_ms, "replace_ms",
                  (int)cluster->replace_ms, "shares_hosts", cluster->shares_hosts, "began_ms",
                  (json_int_t)cluster->began_wall_ms, "databases", databases);
    return text_of(object, is_whole);
}

static bool read_database(const json_t *object, struct okv_cluster_database *out)
{
    struct okv_wal_identity *identity = &out->identity;

    return read_hex_bytes(json_object_get(object, "id"), identity->database_id, OKV_WAL_ID_SIZE) &&
           read_hex(json_object_get(object, "hash_seed"), &identity->hash_seed) &&
           read_hex(json_object_get(object, "position"), &identity->position) &&
           identity->position % OKV_WAL_ALIGNMENT == 0;
}

static bool read_databases(json_t *databases, struct okv_cluster_document *out)
{
    const char *name;
    json_t *value;

    if (!json_is_object(databases) || json_object_size(databases) > OKV_DATABASES_MAX)
        return false;
    json_object_foreach(databases, name, value)
    {
        struct okv_cluster_database *database = &out->databases[out->database_count++];
        if (!okv_name_is_valid(name) || !read_database(value, database))
            return false;
        strcpy(database->name, name);
    }
    return out->database_count > 0;
}

static bool read_cluster(json_t *object, struct okv_cluster_document *out)
{
    const json_t *shares_hosts = json_object_get(object, "shares_hosts");
    uint64_t copies, copies_min, lease_ms, replace_ms;
    struct okv_diag why;

    *out = (struct okv_cluster_document){.database_count = 0};
    if (!read_number(object, "copies", OKV_COPIES_MAX, &copies) ||
        !read_number(object, "min_copies", OKV_COPIES_MAX, &copies_min) ||
        !read_number(object, "lease_ms", OKV_LEASE_MOST_MS, &lease_ms) ||
        !read_number(object, "replace_ms", OKV_REPLACE_MOST_MS, &replace_ms) ||
        !json_is_boolean(shares_hosts) ||
        !read_number(object, "began_ms", INT64_MAX, &out->began_wall_ms) ||
        !read_hex(json_object_get(object, "id"), &out->id) || out->id == 0)
        return false;
    out->copies = (unsigned)copies;
    out->copies_min = (unsigned)copies_min;
    out->lease_ms = (uint32_t)lease_ms;
    out->replace_ms = (uint32_t)replace_ms;
    out->shares_hosts = json_is_true(shares_hosts);
    return okv_settings_check(out, &why) == 0 &&
           read_databases(json_object_get(object, "databases"), out);
}

bool okv_document_read_cluster(const void *bytes, size_t length, struct okv_cluster_document *out)
{
    json_t *object = object_of(bytes, length);
    bool is_sound = object && read_cluster(object, out);

    json_decref(object);
    return is_sound;
}

/* ---- servers ---- */

char *okv_document_of_server(const struct okv_server_document *server)
{
    json_t *uris = json_array(), *copies = json_object();
    bool is_whole = true;

    for (unsigned i = 0; i < server->uri_count; i++)
        is_whole &= json_array_append_new(uris, json_string(server->uris[i])) == 0;
    for (unsigned i = 0; i < server->copy_count; i++)
        is_whole &= json_object_set_new(copies, server->copies[i].database,
                                        hex(server->copies[i].incarnation)) == 0;
    return text_of(json_pack("{s:i, s:o, s:o, s:o, s:s, s:s, s:o}", "format", OKV_DOCUMENT_FORMAT,
                             "id", hex(server->id), "boot", hex(server->boot), "uris", uris, "host",
                             server->host, "version", server->version, "copies", copies),
                   is_whole);
}

static bool read_copies(json_t *copies, struct okv_server_document *out)
{
    const char *name;
    json_t *value;

    if (!json_is_object(copies) || json_object_size(copies) > OKV_DATABASES_MAX)
        return false;
    json_object_foreach(copies, name, value)
    {
        struct okv_server_copy *copy = &out->copies[out->copy_count++];
        if (!okv_name_is_valid(name) || !read_hex(value, &copy->incarnation))
            return false;
        strcpy(copy->database, name);
    }
    return true;
}

static bool read_server(json_t *object, struct okv_server_document *out)
{
    json_t *uris = json_object_get(object, "uris"), *uri;
    size_t i;

    *out = (struct okv_server_document){.uri_count = (unsigned)json_array_size(uris)};
    if (!read_hex(json_object_get(object, "id"), &out->id) ||
        !read_hex(json_object_get(object, "boot"), &out->boot) ||
        !read_text(json_object_get(object, "host"), out->host, sizeof out->host) ||
        !read_text(json_object_get(object, "version"), out->version, sizeof out->version) ||
        !read_copies(json_object_get(object, "copies"), out) || json_array_size(uris) < 1 ||
        json_array_size(uris) > OKV_ADVERTISED_MAX)
        return false;
    json_array_foreach(uris, i, uri)
    {
        if (!read_text(uri, out->uris[i], sizeof out->uris[i]))
            return false;
    }
    return true;
}

bool okv_document_read_server(const void *bytes, size_t length, struct okv_server_document *out)
{
    json_t *object = object_of(bytes, length);
    bool is_sound = object && read_server(object, out);

    json_decref(object);
    return is_sound;
}

/* ---- shards ---- */

static json_t *member_of(struct okv_member member)
{
    return json_pack("{s:o, s:o}", "server", hex(member.server), "incarnation",
                     hex(member.incarnation));
}

char *okv_document_of_shard(const struct okv_shard_key *key)
{
    json_t *isr = json_array(), *wanted = json_array();
    bool is_whole = true;

    for (unsigned i = 0; i < key->isr_count; i++)
        is_whole &= json_array_append_new(isr, member_of(key->isr[i])) == 0;
    for (unsigned i = 0; i < key->wanted_count; i++)
        is_whole &= json_array_append_new(wanted, hex(key->wanted[i])) == 0;
    return text_of(json_pack("{s:i, s:I, s:o, s:o, s:o, s:o}", "format", OKV_DOCUMENT_FORMAT,
                             "epoch", (json_int_t)key->epoch, "by", hex(key->by), "primary",
                             member_of(key->primary), "isr", isr, "wanted", wanted),
                   is_whole);
}

static bool read_member(const json_t *object, struct okv_member *out)
{
    return read_hex(json_object_get(object, "server"), &out->server) &&
           read_hex(json_object_get(object, "incarnation"), &out->incarnation);
}

static bool read_members(const json_t *isr, struct okv_shard_key *out)
{
    out->isr_count = (unsigned)json_array_size(isr);
    if (out->isr_count < 1 || out->isr_count > OKV_COPIES_MAX)
        return false;
    for (unsigned i = 0; i < out->isr_count; i++)
        if (!read_member(json_array_get(isr, i), &out->isr[i]))
            return false;
    return true;
}

static bool read_wanted(const json_t *wanted, struct okv_shard_key *out)
{
    out->wanted_count = (unsigned)json_array_size(wanted);
    if (out->wanted_count < 1 || out->wanted_count > OKV_COPIES_MAX)
        return false;
    for (unsigned i = 0; i < out->wanted_count; i++)
        if (!read_hex(json_array_get(wanted, i), &out->wanted[i]))
            return false;
    return true;
}

/* A primary is one of the set, which has each server once. */
static bool is_sound_set(const struct okv_shard_key *key)
{
    for (unsigned i = 0; i < key->isr_count; i++) {
        if (key->isr[i].server == 0)
            return false;
        for (unsigned k = 0; k < i; k++)
            if (key->isr[k].server == key->isr[i].server)
                return false;
    }
    for (unsigned i = 0; i < key->wanted_count; i++)
        if (key->wanted[i] == 0)
            return false;
    return okv_key_has(key, key->primary);
}

static bool read_shard(json_t *object, struct okv_shard_key *out)
{
    *out = (struct okv_shard_key){.epoch = 0};
    return read_number(object, "epoch", OKV_EPOCH_MAX, &out->epoch) && out->epoch > 0 &&
           read_hex(json_object_get(object, "by"), &out->by) &&
           read_member(json_object_get(object, "primary"), &out->primary) &&
           read_members(json_object_get(object, "isr"), out) &&
           read_wanted(json_object_get(object, "wanted"), out) && is_sound_set(out);
}

bool okv_document_read_shard(const void *bytes, size_t length, struct okv_shard_key *out)
{
    json_t *object = object_of(bytes, length);
    bool is_sound = object && read_shard(object, out);

    json_decref(object);
    return is_sound;
}
