#include "server/clients/refusal.h"

#include <stdio.h>

#include "server/clients/client_table.h"
#include "server/core/log.h"
#include "server/core/server.h"
#include "shared/base/clock.h"
#include "shared/base/uri.h"
#include "shared/format/wire.h"

void okv_refusal_count(struct okv_stats *stats, int reason)
{
    switch (reason) {
    case OKV_REJECT_VERSION:
        OKV_STATS_ADD(stats, rejected_version, 1);
        break;
    case OKV_REJECT_FEATURE:
    case OKV_REJECT_SLOT_SIZE:
        OKV_STATS_ADD(stats, rejected_feature, 1);
        break;
    case OKV_REJECT_BUSY:
        OKV_STATS_ADD(stats, rejected_busy, 1);
        break;
    case OKV_REJECT_USER:
        OKV_STATS_ADD(stats, rejected_user, 1);
        break;
    case OKV_REJECT_ADDRESS:
        OKV_STATS_ADD(stats, rejected_address, 1);
        break;
    case OKV_REJECT_STOPPING:
        OKV_STATS_ADD(stats, rejected_stopping, 1);
        break;
    case OKV_REJECT_RESOURCES:
        OKV_STATS_ADD(stats, rejected_resources, 1);
        break;
    case OKV_REJECT_DATABASE:
        OKV_STATS_ADD(stats, rejected_database, 1);
        break;
    case OKV_REJECT_GONE:
        OKV_STATS_ADD(stats, rejected_gone, 1);
        break;
    case OKV_REJECT_CHALLENGE:
        OKV_STATS_ADD(stats, challenges, 1);
        break;
    case OKV_REJECT_DENIED:
        OKV_STATS_ADD(stats, rejected_denied, 1);
        break;
    case OKV_REJECT_STALE:
        OKV_STATS_ADD(stats, rejected_stale, 1);
        break;
    case OKV_REJECT_NO_RIGHT:
        OKV_STATS_ADD(stats, rejected_no_right, 1);
        break;
    case OKV_REJECT_PATH_MTU:
        OKV_STATS_ADD(stats, rejected_mtu, 1);
        break;
    case OKV_REJECT_UID:
        OKV_STATS_ADD(stats, rejected_uid, 1);
        break;
    case OKV_REJECT_NOT_PRIMARY: /* it goes on to another server */
        break;
    default:
        OKV_STATS_ADD(stats, rejected_malformed, 1);
        break;
    }
}

void okv_refusal_log(struct okv_server *server, const struct okv_refusal *refusal)
{
    char text[OKV_LOG_TEXT_MAX];

    /* As is usual: the client goes on to another server. */
    if (refusal->reason == OKV_REJECT_STOPPING || refusal->reason == OKV_REJECT_NOT_PRIMARY)
        return;
    /* A client claims any bytes. */
    bool is_valid = !refusal->user[0] || okv_name_is_valid(refusal->user);
    const struct okv_client_who who =
        okv_client_who(refusal->peer, is_valid ? refusal->user : "of no valid name");
    snprintf(text, sizeof text, "%s: refused: %s%s%s%s", who.text,
             refusal->stranger[0] ? refusal->stranger : okv_reject_text((uint32_t)refusal->reason),
             refusal->device[0] ? " (" : "", refusal->device, refusal->device[0] ? ")" : "");
    if (!server->config.users || refusal->is_proven)
        okv_log_line(&server->log, OKV_LOG_NOTICE, "clients", okv_clock_ns(), text);
    else
        okv_log_stranger(&server->log, okv_clock_ns(), text);
}
