#include "client/cli/item_json.h"

#include <okv.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/cli/run.h"

#define NAME_TEXT 32

static json_t *base64_of(const void *bytes, size_t length)
{
    size_t size = sodium_base64_encoded_len(length, sodium_base64_VARIANT_ORIGINAL);
    char *text = malloc(size);

    if (!text)
        return NULL;
    sodium_bin2base64(text, size, bytes, length, sodium_base64_VARIANT_ORIGINAL);
    json_t *string = json_stringn_nocheck(text, size - 1);
    free(text);
    return string;
}

void cli_json_add(json_t **object, const char *name, json_t *value)
{
    if (json_object_set_new(*object, name, value) == 0)
        return;
    json_decref(*object);
    *object = NULL;
}

/* As the member `name`, or in base64 as the one of the longer name. */
static void add_bytes(json_t **object, const char *name, const void *bytes, size_t length)
{
    json_t *text = json_stringn(bytes, length); /* NULL unless it is UTF-8 */
    char longer[NAME_TEXT];

    snprintf(longer, sizeof longer, "%s_base64", name);
    cli_json_add(object, text ? name : longer, text ? text : base64_of(bytes, length));
}

json_t *cli_json_key(const void *key, size_t length)
{
    json_t *object = json_object();

    add_bytes(&object, "key", key, length);
    return object;
}

json_t *cli_json_item(const void *key, size_t key_length, const void *value, size_t value_length,
                      uint64_t version)
{
    json_t *object = cli_json_key(key, key_length);

    add_bytes(&object, "value", value, value_length);
    cli_json_add(&object, "version", json_integer((json_int_t)version));
    return object;
}

json_t *cli_json_ttl(int64_t ttl_ms)
{
    return ttl_ms == OKV_TTL_NONE ? json_null() : json_integer(ttl_ms);
}

int cli_json_dump(const json_t *root, size_t flags, FILE *stream)
{
    if (stream != stdout || !isatty(STDOUT_FILENO))
        return json_dumpf(root, stream, flags);
    char *text = json_dumps(root, flags | JSON_ENSURE_ASCII);
    if (!text)
        return -1;
    for (const char *at = text; *at; at++) {
        if (*at == 0x7f)
            fputs("\\u007f", stdout);
        else
            putchar(*at);
    }
    free(text);
    return 0;
}

int cli_print_json_line(const char *command, json_t *object)
{
    /* As many digits as a double has for sure: 0.1 is 0.1. */
    int rc = cli_json_dump(object, JSON_COMPACT | JSON_REAL_PRECISION(15), stdout);

    json_decref(object);
    if (rc && !ferror(stdout)) {
        fprintf(stderr, "okv: %s: out of memory\n", command);
        return CLI_FAILED;
    }
    putchar('\n');
    return CLI_DONE;
}
