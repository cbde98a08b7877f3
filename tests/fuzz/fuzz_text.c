/* What people write: URIs, sizes, and lines of items. */
#include "client/cli/tsv.h"
#include "shared/base/error.h"
#include "shared/base/size.h"
#include "shared/base/uri_list.h"
#include "shared/base/uri_part.h"
#include "tests/fuzz/fuzz_input.h"

#define TEXT_MAX 1024

/* Appends "?key=value" or "&key=value" unless the value is "". */
static void write_option(char *out, size_t size, const char *key, const char *value)
{
    size_t length = strlen(out);

    if (value[0])
        snprintf(out + length, size - length, "%c%s=%s", strchr(out, '?') ? '&' : '?', key, value);
}

static void write_number(char *out, size_t size, const char *key, unsigned number)
{
    char text[16];

    snprintf(text, sizeof text, "%u", number);
    write_option(out, size, key, text);
}

/* The URI that stands for what was understood. */
static void write_uri(const struct okv_uri *uri, char *out, size_t size)
{
    const char *scheme = okv_uri_scheme_name(uri);
    bool is_ipv6 = strchr(uri->host, ':') != NULL;
    char mode[8];

    if (uri->path[0])
        snprintf(out, size, "%s://%s", scheme, uri->path);
    else if (uri->name[0])
        snprintf(out, size, "%s://discover/%s", scheme, uri->name);
    else
        snprintf(out, size, is_ipv6 ? "%s://[%s]:%s" : "%s://%s:%s", scheme, uri->host, uri->port);
    write_option(out, size, "source", uri->source);
    write_option(out, size, "device", uri->device);
    if (uri->port_number)
        write_number(out, size, "port", uri->port_number);
    if (uri->has_gid)
        write_number(out, size, "gid", uri->gid);
    snprintf(mode, sizeof mode, "%o", uri->mode);
    write_option(out, size, "mode", uri->mode ? mode : "");
    write_option(out, size, "provider", uri->provider);
    write_option(out, size, "group", uri->group);
    write_option(out, size, "ca", uri->of_tls.ca);
    write_option(out, size, "cert", uri->of_tls.cert);
    write_option(out, size, "key", uri->of_tls.key);
    write_option(out, size, "server-name", uri->of_tls.server_name);
    write_option(out, size, "database", uri->database);
    write_option(out, size, "uids", uri->any_uid ? "any" : "");
}

/* What is a server's URI is a list of it; what is not may be a cluster's. */
static void check_list(const char *text, bool is_server)
{
    struct okv_uri_list list;
    struct okv_diag diag = {.text = ""};
    int rc = okv_uri_list_parse(text, &list, &diag);

    FUZZ_CHECK(rc == 0 || (rc == OKV_EURI && diag.text[0] && !list.text));
    FUZZ_CHECK(rc == 0 || !is_server);
    if (rc)
        return;
    FUZZ_CHECK(list.count >= 1 && list.count <= OKV_SERVERS_MAX);
    FUZZ_CHECK(is_server ? !list.cluster[0] : okv_name_is_valid(list.cluster));
    for (unsigned i = 0; i < list.count; i++) {
        struct okv_uri uri;
        char *server = okv_uri_list_server(&list, list.servers[i]);
        FUZZ_CHECK(server && okv_uri_parse(server, &uri, NULL) == 0);
        free(server);
    }
    okv_uri_list_free(&list);
}

static void fuzz_uri(struct fuzz_input *input)
{
    struct okv_uri uri, again;
    struct okv_diag diag = {.text = ""};
    char written[TEXT_MAX];
    char *text = fuzz_text(input, TEXT_MAX);
    int rc = okv_uri_parse(text, &uri, &diag);

    FUZZ_CHECK(rc == 0 || (rc == OKV_EURI && diag.text[0]));
    FUZZ_CHECK(memchr(diag.text, '\0', sizeof diag.text));
    check_list(text, rc == 0);
    if (rc == 0) {
        FUZZ_CHECK(memchr(uri.host, '\0', sizeof uri.host));
        FUZZ_CHECK(memchr(uri.port, '\0', sizeof uri.port));
        FUZZ_CHECK(memchr(uri.device, '\0', sizeof uri.device));
        FUZZ_CHECK(memchr(uri.source, '\0', sizeof uri.source));
        FUZZ_CHECK(memchr(uri.provider, '\0', sizeof uri.provider));
        FUZZ_CHECK(memchr(uri.path, '\0', sizeof uri.path));
        FUZZ_CHECK(memchr(uri.name, '\0', sizeof uri.name));
        FUZZ_CHECK(memchr(uri.group, '\0', sizeof uri.group));
        write_uri(&uri, written, sizeof written);
        FUZZ_CHECK(okv_uri_parse(written, &again, NULL) == 0);
        FUZZ_CHECK(memcmp(&again, &uri, sizeof uri) == 0);
    }
    free(text);
}

static void fuzz_size(struct fuzz_input *input)
{
    char written[OKV_SIZE_TEXT];
    char *text = fuzz_text(input, 64);
    uint64_t bytes = 77, again;

    if (okv_size_parse(text, &bytes) == 0) {
        FUZZ_CHECK(text[0] >= '0' && text[0] <= '9');
        FUZZ_CHECK(bytes >= strtoull(text, NULL, 10));
        okv_size_format(bytes, written, sizeof written);
        FUZZ_CHECK(memchr(written, '\0', sizeof written));
        if (okv_size_parse(written, &again) == 0)
            FUZZ_CHECK(again <= bytes && bytes - again <= bytes / 10);
    } else {
        FUZZ_CHECK(bytes == 77);
    }
    free(text);
}

/* What is written is one line that reads as the same item. */
static void check_written(const struct tsv_item *item)
{
    char *line = NULL;
    size_t length = 0;
    struct tsv_item again;
    FILE *out = open_memstream(&line, &length);

    FUZZ_CHECK(out && tsv_write(out, item) == 0 && fclose(out) == 0);
    FUZZ_CHECK(length > 0 && memchr(line, '\n', length) == line + length - 1);
    FUZZ_CHECK(tsv_parse(line, length, &again) == NULL);
    FUZZ_CHECK(again.key_length == item->key_length && again.value_length == item->value_length);
    FUZZ_CHECK(memcmp(again.key, item->key, item->key_length) == 0);
    FUZZ_CHECK(item->value_length == 0 ||
               memcmp(again.value, item->value, item->value_length) == 0);
    FUZZ_CHECK(again.expires_at_ms == item->expires_at_ms);
    free(line);
}

static void fuzz_tsv_line(struct fuzz_input *input)
{
    struct tsv_item item;
    size_t length;
    char *line = (char *)fuzz_bytes(input, 4096, &length);

    if (!tsv_parse(line, length, &item)) {
        FUZZ_CHECK(item.key == line && item.value > item.key);
        FUZZ_CHECK(item.key_length >= 1 && item.value + item.value_length <= line + length);
        check_written(&item);
    }
    free(line);
}

static void fuzz_tsv_item(struct fuzz_input *input)
{
    size_t key_length = 1 + fuzz_below(input, 40), value_length;
    char *key = malloc(key_length);

    FUZZ_CHECK(key);
    fuzz_copy(input, key, key_length);
    uint8_t *value = fuzz_bytes(input, 1024, &value_length);
    const struct tsv_item item = {
        .key = key, .key_length = key_length, .value = (char *)value, .value_length = value_length};
    check_written(&item);
    free(value);
    free(key);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};

    switch (fuzz_u8(&input) & 3) {
    case 0:
        fuzz_uri(&input);
        break;
    case 1:
        fuzz_size(&input);
        break;
    case 2:
        fuzz_tsv_line(&input);
        break;
    default:
        fuzz_tsv_item(&input);
        break;
    }
    return 0;
}
