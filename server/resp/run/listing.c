#include "server/resp/run/listing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/resp/run/client.h"

/* Work for a byte of a key that is listed: it is encoded, and may be copied to the replies. */
#define KEY_PRICE 2u

bool okv_resp_listing_init(struct okv_resp_listing *listing)
{
    *listing = (struct okv_resp_listing){.walk.price = KEY_PRICE};
    if (okv_resp_buffer_room(&listing->keys, OKV_RESP_LISTING_ROOM))
        listing->keys.used = OKV_RESP_LISTING_ROOM;
    return listing->keys.used > 0;
}

void okv_resp_listing_fini(struct okv_resp_listing *listing)
{
    okv_resp_pattern_fini(&listing->pattern);
    okv_resp_buffer_fini(&listing->keys);
}

struct okv_resp_listing *okv_resp_listing_create(struct okv_resp_client *client)
{
    struct okv_resp_listing *listing = malloc(sizeof *listing);

    if (!listing || !okv_resp_listing_init(listing)) {
        free(listing);
        return NULL;
    }
    client->listing = listing;
    return listing;
}

void okv_resp_listing_destroy(struct okv_resp_client *client)
{
    if (!client->listing)
        return;
    okv_resp_buffer_discard(&client->listing->keys, &client->resp->trash);
    okv_resp_listing_fini(client->listing);
    free(client->listing);
    client->listing = NULL;
}

void okv_resp_listing_reply(struct okv_resp_client *client)
{
    struct okv_resp_buffer *keys = &client->listing->keys;
    char head[OKV_RESP_LISTING_ROOM];
    size_t length =
        (size_t)snprintf(head, sizeof head, "*%" PRIu64 "\r\n", client->listing->listed);

    client->sent = OKV_RESP_LISTING_ROOM - length;
    memcpy(keys->bytes + client->sent, head, length);
    okv_resp_buffer_discard(&client->out, &client->resp->trash);
    client->out = *keys;
    *keys = (struct okv_resp_buffer){.used = 0};
}

size_t okv_resp_listing_fresh(struct okv_resp_client *client)
{
    return client->listing ? okv_resp_buffer_fresh(&client->listing->keys) : 0;
}

size_t okv_resp_listing_bytes(const struct okv_resp_client *client)
{
    const struct okv_resp_listing *listing = client->listing;

    return listing ? sizeof *listing + listing->keys.capacity +
                         okv_resp_pattern_bytes(&listing->pattern)
                   : 0;
}
