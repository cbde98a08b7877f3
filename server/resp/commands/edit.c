#include "server/resp/commands/edit.h"

#include <string.h>

#include "server/command/execute.h"
#include "server/database/database.h"
#include "server/resp/run/call.h"
#include "server/resp/run/long_build.h"
#include "server/resp/run/lookup.h"
#include "server/resp/run/upload.h"
#include "shared/base/error.h"

static int make_short(struct okv_resp_edit *edit, const struct okv_store_now *now,
                      struct okv_store_next *next)
{
    uint64_t before = now ? now->value_length : 0;

    edit->made.used = 0;
    uint8_t *bytes = okv_resp_buffer_room(&edit->made, edit->length + 1);
    if (!bytes)
        return OKV_ENOMEM;
    okv_turn_spend(&edit->call->client->resp->turn, edit->length);
    if (before)
        memcpy(bytes, now->value, before);
    if (edit->offset > before)
        memset(bytes + before, 0, edit->offset - before);
    if (edit->with.length)
        memcpy(bytes + edit->offset, edit->with.text, edit->with.length);
    next->value = bytes;
    if (edit->write && !edit->write(edit, bytes) && now && edit->length == before)
        return OKV_STORE_KEEP;
    return 0;
}

/* Sets what was made, or takes the current value for making it. */
static int make_long(struct okv_resp_edit *edit, const struct okv_store_now *now,
                     struct okv_store_next *next)
{
    struct okv_resp_client *client = edit->call->client;

    if (okv_resp_build_is_of(client, now ? now->version : 0)) {
        next->value = okv_store_long_bytes(&edit->call->executor->database->store,
                                           okv_resp_long_value(client));
        return 0;
    }
    edit->is_stale = client->build != NULL;
    if (edit->is_stale)
        return OKV_STORE_KEEP;
    int rc = okv_resp_build_take(edit->call, now);
    edit->is_taken = rc == 0;
    return rc ? rc : OKV_STORE_KEEP;
}

/* The byte that SETBIT writes. */
static void make_byte(struct okv_resp_edit *edit, const struct okv_store_now *now)
{
    edit->byte = now && edit->offset < now->value_length ? now->value[edit->offset] : 0;
    edit->was_set = edit->byte & edit->mask;
    edit->byte = (uint8_t)(edit->sets ? edit->byte | edit->mask : edit->byte & ~edit->mask);
    edit->with = (struct okv_resp_arg){&edit->byte, 1};
}

static int decide_edit(void *user, const struct okv_store_now *now, struct okv_store_next *next)
{
    struct okv_resp_edit *edit = user;
    uint64_t before = now ? now->value_length : 0;

    if (edit->mask)
        make_byte(edit, now);
    if (edit->mask && edit->offset < before && edit->was_set == edit->sets) {
        edit->length = before;
        return OKV_STORE_KEEP; /* it is as it shall be */
    }
    if (edit->with.length == 0 && !edit->write && (now || !edit->is_append)) {
        edit->length = before;
        return OKV_STORE_KEEP;
    }
    edit->offset = edit->is_append ? before : edit->offset;
    uint64_t end = edit->offset + edit->with.length;
    edit->length = end > before ? end : before;
    if (edit->length > edit->call->executor->database->store.max_value)
        return OKV_EVALUESIZE;
    *next = (struct okv_store_next){NULL, (uint32_t)edit->length, now ? now->expiry_ms : 0};
    return edit->length < OKV_RESP_LONG_MIN || edit->call->is_part ? make_short(edit, now, next)
                                                                   : make_long(edit, now, next);
}

/* The current value was taken. */
static int begin_build(struct okv_resp_edit *edit)
{
    struct okv_resp_client *client = edit->call->client;
    const struct okv_resp_arg *key = &edit->call->args[1];

    if (edit->mask) {
        client->build->byte = edit->byte;
        edit->with.text = &client->build->byte;
    }
    const struct okv_resp_plan plan = {.key = key,
                                       .database = client->common.database,
                                       .patch = &edit->with,
                                       .patch_offset = (uint32_t)edit->offset,
                                       .length = (uint32_t)edit->length,
                                       .is_draft = edit->write != NULL};
    return okv_resp_build_begin(edit->call, &plan);
}

/* Writes to a draft. *is_over: it is as the value that the key had, which so is its new one. */
static int write_draft(struct okv_resp_edit *edit, bool *is_over)
{
    struct okv_resp_client *client = edit->call->client;

    if (!client->build || !client->build->is_draft)
        return 0;
    const struct okv_store_long_value *value = &client->build->transfer.value;
    uint8_t *bytes = okv_store_long_bytes(&edit->call->executor->database->store, value);
    edit->length = value->value_length;
    *is_over = !edit->write(edit, bytes) && client->build->version &&
               value->before_length == value->value_length;
    if (*is_over)
        return 0;
    okv_resp_build_revise(client);
    return OKV_RESP_GOES_ON;
}

int okv_resp_edit_run(struct okv_resp_edit *edit)
{
    struct okv_resp_call *call = edit->call;
    bool is_over = false;
    int rc = okv_resp_build_step(call->client, edit->mask ? NULL : &edit->with);

    if (rc == 0)
        rc = write_draft(edit, &is_over);
    if (rc == 0 && !is_over)
        rc = okv_resp_modify(call, &call->args[1], decide_edit, edit);
    okv_resp_buffer_fini(&edit->made);
    if (rc == 0 && edit->is_taken)
        return begin_build(edit);
    if (rc == 0 && edit->is_stale) {
        okv_resp_build_end(call->client);
        return OKV_RESP_GOES_ON;
    }
    return rc;
}
