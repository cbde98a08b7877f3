#include "server/cluster/action.h"

#include <string.h>

struct okv_protocol_action *okv_action_add(struct okv_protocol *protocol,
                                           enum okv_protocol_action_type type)
{
    struct okv_protocol_action *action = &protocol->out->of[protocol->out->count++];

    memset(action, 0, sizeof *action);
    action->type = type;
    return action;
}

void okv_action_position(struct okv_protocol *protocol, enum okv_protocol_action_type type,
                         uint64_t position)
{
    okv_action_add(protocol, type)->position = position;
}

void okv_action_server(struct okv_protocol *protocol, enum okv_protocol_action_type type,
                       uint64_t server)
{
    okv_action_add(protocol, type)->server = server;
}

struct okv_peer_message *okv_action_send(struct okv_protocol *protocol, uint64_t server,
                                         enum okv_peer_message_type type)
{
    struct okv_protocol_action *action = okv_action_add(protocol, OKV_ACTION_SEND);

    action->server = server;
    action->message.type = type;
    action->message.epoch = protocol->epoch;
    return &action->message;
}
