#include "server/resp/net/buffer_pool.h"

#include <stdlib.h>
#include <string.h>

#include "server/resp/run/listing.h"
#include "server/resp/run/shared.h"
#include "server/resp/run/transaction.h"

/* Larger buffers are not kept for the next client. */
#define POOLED_MAX (1u << 20)
/* Bytes of finished requests that are removed in any case. */
#define DONE_MAX (1u << 20)

static void swap_buffers(struct okv_resp_buffer *a, struct okv_resp_buffer *b)
{
    struct okv_resp_buffer c = *a;

    *a = *b;
    *b = c;
}

void okv_resp_buffers_borrow(struct okv_resp_client *client)
{
    struct okv_resp *resp = client->resp;
    struct okv_resp_parser *parser = &client->parser;

    if (!client->in.bytes)
        swap_buffers(&client->in, &resp->in);
    if (!client->out.bytes)
        swap_buffers(&client->out, &resp->out);
    client->out.most =
        okv_resp_is_short_of_memory(client) ? OKV_RESP_SHORT_MAX : OKV_RESP_BUFFER_MAX;
    if (parser->args)
        return;
    parser->args = resp->args;
    parser->capacity = resp->arg_capacity;
    resp->args = NULL;
    resp->arg_capacity = 0;
}

/* Keeps an empty buffer for the next client. */
static void return_buffer(struct okv_resp_buffer *borrowed, struct okv_resp_buffer *to,
                          struct okv_resp_trash *trash)
{
    borrowed->used = 0;
    if (borrowed->has_failed || to->bytes || borrowed->capacity > POOLED_MAX)
        okv_resp_buffer_discard(borrowed, trash);
    else
        swap_buffers(borrowed, to);
}

/* Removes finished requests when they are the larger part of the buffer, so that a long pipeline is
 * moved a few times, and not each time it is served. */
static void drop_done(struct okv_resp_client *client)
{
    if (client->at >= client->in.used - client->at || client->at >= DONE_MAX)
        client->at -= okv_resp_buffer_drop(&client->in, client->at, &client->resp->trash);
}

static void return_input(struct okv_resp *resp, struct okv_resp_client *client)
{
    struct okv_resp_buffer rest = {.used = 0};

    if (okv_resp_parser_is_fixed(&client->parser))
        return;
    drop_done(client);
    if (client->in.used == client->at) {
        client->at = 0;
        return_buffer(&client->in, &resp->in, &resp->trash);
    } else if (client->in.used - client->at <= OKV_RESP_SMALL_REST &&
               client->in.capacity > OKV_RESP_SMALL_REST) {
        okv_resp_buffer_add(&rest, client->in.bytes + client->at, client->in.used - client->at);
        if (rest.has_failed)
            return;
        explicit_bzero(client->in.bytes + client->at, rest.used);
        return_buffer(&client->in, &resp->in, &resp->trash);
        client->in = rest;
        client->at = 0;
    }
}

void okv_resp_buffers_return(struct okv_resp_client *client)
{
    struct okv_resp *resp = client->resp;
    struct okv_resp_parser *parser = &client->parser;

    return_input(resp, client);
    if (client->out.used == 0)
        return_buffer(&client->out, &resp->out, &resp->trash);
    if (parser->count > 0)
        return;
    if (resp->args || parser->capacity * sizeof *parser->args > POOLED_MAX) {
        okv_resp_memory_discard(parser->args, parser->capacity * sizeof *parser->args,
                                &resp->trash);
    } else {
        resp->args = parser->args;
        resp->arg_capacity = parser->capacity;
    }
    parser->args = NULL;
    parser->capacity = 0;
}

void okv_resp_buffers_discard(struct okv_resp_client *client)
{
    struct okv_resp_trash *trash = &client->resp->trash;
    struct okv_resp_parser *parser = &client->parser;

    okv_resp_memory_discard(parser->args, parser->capacity * sizeof *parser->args, trash);
    *parser = (struct okv_resp_parser){0};
    okv_resp_buffer_discard(&client->in, trash);
    okv_resp_buffer_discard(&client->out, trash);
    okv_resp_buffer_discard(&client->text, trash);
    okv_resp_buffer_discard(&client->bitop.versions, trash);
}

void okv_resp_count_memory(struct okv_resp_client *client)
{
    atomic_int_fast64_t *all = &client->resp->shared->memory;
    size_t memory = client->in.capacity + client->out.capacity + client->text.capacity +
                    client->bitop.versions.capacity +
                    client->parser.capacity * sizeof *client->parser.args +
                    okv_resp_transaction_bytes(client) + okv_resp_listing_bytes(client);

    if (memory == client->memory)
        return;
    atomic_fetch_add(all, (int64_t)memory - (int64_t)client->memory);
    client->memory = memory;
}
