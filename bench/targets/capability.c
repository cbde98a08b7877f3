#include "bench/targets/capability.h"

#include <stdio.h>

int capability_check(const struct okv_command *command)
{
    if (command->kind < OKV_GET || command->kind > OKV_PING)
        return OKV_EINVAL;
    if (command->kind == OKV_PING)
        return OKV_OK;
    if (!command->key)
        return OKV_EINVAL;
    return command->key_length >= 1 && command->key_length <= OKV_KEY_MAX_BYTES ? OKV_OK
                                                                                : OKV_EKEYSIZE;
}

int capability_decline(const char *server, const struct okv_command *command, char *why,
                       size_t why_size)
{
    static const char *const kinds[] = {
        [OKV_GET] = "get",       [OKV_HEAD] = "head", [OKV_PUT] = "put",
        [OKV_DELETE] = "delete", [OKV_INCR] = "incr", [OKV_APPEND] = "append",
        [OKV_TOUCH] = "touch",   [OKV_PING] = "ping",
    };
    const char *condition = "";

    if (command->flags & OKV_IF_VERSION)
        condition = " on a version";
    else if (command->flags & OKV_WITH_TTL)
        condition = " with a time to live";
    else if (command->flags & OKV_KEEP_TTL)
        condition = " that keeps a time to live";
    else if (command->kind == OKV_INCR && command->delta < 0)
        condition = " by less than 0";
    if (command->kind == OKV_PING)
        snprintf(why, why_size, "%s does not offer a ping with %zu bytes", server,
                 command->value_length);
    else
        snprintf(why, why_size, "%s does not offer a %s%s with a key of %zu bytes", server,
                 kinds[command->kind], condition, command->key_length);
    return OKV_EUNSUPPORTED;
}
