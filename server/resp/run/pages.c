#include "server/resp/run/pages.h"

#include "server/resp/run/listing.h"
#include "server/resp/run/transaction.h"

void okv_resp_spend_filled(struct okv_resp_client *client)
{
    size_t filled = okv_resp_buffer_fresh(&client->in) + okv_resp_buffer_fresh(&client->out) +
                    okv_resp_transaction_fresh(client) + okv_resp_listing_fresh(client) +
                    okv_resp_buffer_fresh(&client->bitop.versions);

    okv_turn_spend(&client->resp->turn, okv_resp_price_of_filled(filled));
}

void okv_resp_spend_unmapped(struct okv_resp *resp)
{
    size_t pages = resp->trash.unmapped / OKV_TURN_PAGE;

    resp->trash.unmapped = 0;
    okv_turn_spend(&resp->turn, pages * OKV_TURN_UNMAPPED_PAGE);
    okv_turn_end_step(&resp->turn);
}
