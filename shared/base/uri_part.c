#include "shared/base/uri_part.h"

#include <arpa/inet.h>
#include <string.h>

const char *okv_uri_scheme_name(const struct okv_uri *uri)
{
    static const char *const names[] = {
        [OKV_SCHEME_RDMA] = "rdma", [OKV_SCHEME_LOCAL] = "local", [OKV_SCHEME_OFI] = "ofi",
        [OKV_SCHEME_TCP] = "tcp",   [OKV_SCHEME_RESP] = "resp",
    };

    if (uri->tls)
        return uri->scheme == OKV_SCHEME_TCP ? "tcps" : "resps";
    return names[uri->scheme];
}

bool okv_uri_copy_part(struct okv_uri_part part, char *out, size_t size)
{
    if (part.length >= size)
        return false;
    memcpy(out, part.text, part.length);
    out[part.length] = '\0';
    return true;
}

bool okv_name_is_valid(const char *name)
{
    size_t length = strlen(name);

    for (size_t i = 0; i < length; i++)
        if (!okv_uri_is_letter(name[i]) && !okv_uri_is_digit(name[i]) && !strchr(".-_", name[i]))
            return false;
    return length > 0 && length < OKV_NAME_SIZE && strcmp(name, ".") != 0 &&
           strcmp(name, "..") != 0;
}

bool okv_group_is_valid(const char *group)
{
    struct in_addr address;

    if (strlen(group) >= OKV_GROUP_SIZE || inet_pton(AF_INET, group, &address) != 1)
        return false;
    /* The first block is for the protocols of routers (RFC 5771). */
    return ntohl(address.s_addr) >= 0xe0000100u && ntohl(address.s_addr) <= 0xefffffffu;
}

static bool is_address(int family, const char *text)
{
    unsigned char bytes[16];
    return inet_pton(family, text, bytes) == 1;
}

bool okv_uri_is_ipv4(const char *text)
{
    return is_address(AF_INET, text);
}

bool okv_uri_is_ipv6(const char *text)
{
    static const char forbidden[] = " %[]:&=@";
    char address[INET6_ADDRSTRLEN];
    const char *zone = strchr(text, '%');
    size_t length = zone ? (size_t)(zone - text) : strlen(text);

    if (zone && (zone[1] == '\0' || strpbrk(zone + 1, forbidden)))
        return false;
    if (!okv_uri_copy_part((struct okv_uri_part){text, length}, address, sizeof address))
        return false;
    return is_address(AF_INET6, address);
}
