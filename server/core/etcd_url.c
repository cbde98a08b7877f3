#include "server/core/etcd_url.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/error.h"

#define SHOWN_MAX 100

static bool has_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool is_port(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    unsigned long port = digits >= 1 && digits <= 5 && !text[digits] ? strtoul(text, NULL, 10) : 0;

    return port >= 1 && port <= UINT16_MAX;
}

/* Of "HOST:PORT" or "[HOST]:PORT", which it changes. */
static bool take_host(char *text, char *out)
{
    char *colon = strrchr(text, ':');

    if (!colon || !is_port(colon + 1))
        return false;
    *colon = '\0';
    size_t length = strlen(text);
    if (length > 2 && text[0] == '[' && text[length - 1] == ']') {
        text[length - 1] = '\0';
        text++;
    } else if (strchr(text, ':')) {
        return false;
    }
    memcpy(out, text, strlen(text) + 1);
    return *text && !strpbrk(text, "/?#@[] ");
}

int okv_etcd_url_parse(const char *text, size_t length, struct okv_etcd_url *out,
                       struct okv_diag *diag)
{
    char url[OKV_ETCD_URL_MAX + 1];

    if (length > 0 && text[length - 1] == '/')
        length--;
    snprintf(url, sizeof url, "%.*s", (int)(length < sizeof url ? length : sizeof url - 1), text);
    out->tls = has_prefix(url, "https://");
    if (length <= OKV_ETCD_URL_MAX && (out->tls || has_prefix(url, "http://")) &&
        take_host(strstr(url, "://") + 3, out->host))
        return 0;
    return okv_diag_set(diag, OKV_EINVAL,
                        "'%.*s' is not the address of a member of etcd: give http://HOST:PORT or "
                        "https://HOST:PORT",
                        (int)(length < SHOWN_MAX ? length : SHOWN_MAX), text);
}
