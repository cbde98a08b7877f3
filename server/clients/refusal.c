#include "server/clients/refusal.h"

#include <stdio.h>

#include "server/core/log.h"
#include "server/core/server.h"
#include "shared/base/clock.h"
#include "shared/base/uri.h"
#include "shared/format/wire.h"

void okv_refusal_log(struct okv_server *server, const struct okv_refusal *refusal)
{
    bool has_user = refusal->user[0];
    char text[OKV_LOG_TEXT_MAX];

    if (refusal->reason == OKV_REJECT_STOPPING)
        return;
    /* A client claims any bytes. */
    const char *user = okv_name_is_valid(refusal->user) ? refusal->user : "of no valid name";
    snprintf(text, sizeof text, "%s%s%s%s: refused: %s", refusal->peer, has_user ? " (user " : "",
             has_user ? user : "", has_user ? ")" : "", okv_reject_text((uint32_t)refusal->reason));
    if (!server->config.users || refusal->is_proven)
        okv_log_line(&server->log, OKV_LOG_NOTICE, "clients", okv_clock_ns(), text);
    else
        okv_log_stranger(&server->log, okv_clock_ns(), text);
}
