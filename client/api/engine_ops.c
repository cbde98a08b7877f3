#include "client/api/engine_ops.h"

#include "client/api/command.h"
#include "client/connection/keepalive.h"
#include "client/connection/lease_wait.h"
#include "client/connection/reconnect.h"
#include "client/connection/request.h"
#include "client/get/directory.h"
#include "client/get/fast_path.h"
#include "client/get/hints.h"
#include "client/get/lookup.h"
#include "client/get/lookup_post.h"

static void message_handle(okv *handle, const struct okv_event *event)
{
    struct operation *unserved = request_message(handle, event);

    if (unserved)
        lookup_resume(handle, unserved);
}

static void operation_retry(okv *handle, struct operation *operation)
{
    if (operation->step == STEP_REPLY)
        request_post(handle, operation);
    else
        lookup_post(handle, operation);
}

/* The directory is taken anew in any case: it may have grown. */
static void table_learn(okv *handle, bool same_table)
{
    if (!same_table)
        hints_clear(handle);
    directory_load(handle);
}

const struct engine_ops client_engine_ops = {
    .link_advance = link_advance,
    .keepalive_tick = keepalive_tick,
    .lease_again = lease_again,
    .message = message_handle,
    .read_done = get_read_done,
    .link_read_done = link_read_done,
    .retry = operation_retry,
    .table_learn = table_learn,
    .begin_again = command_begin_again,
};
