#include "shared/format/opcode.h"

#include "shared/format/wire.h"

#define READ .right = OKV_RIGHT_READ
#define WRITE .right = OKV_RIGHT_WRITE, .is_write = true
#define ADMIN .right = OKV_RIGHT_ADMIN
/* The key is the message's header, the value its body. */
#define PEER                                                              \
    {                                                                     \
        .right = OKV_RIGHT_REPLICATE, .has_key = true, .has_value = true, \
        .flags = OKV_REQUEST_RENDEZVOUS                                   \
    }

const struct okv_opcode_facts okv_opcodes[OKV_OPCODES] = {
    [OKV_OP_PING] = {READ, .has_value = true},
    [OKV_OP_GET] = {READ, .has_key = true},
    [OKV_OP_PUT] = {WRITE, .has_key = true, .has_value = true, .has_ttl = true,
                    .flags = OKV_REQUEST_IF_ABSENT | OKV_REQUEST_IF_VERSION |
                             OKV_REQUEST_RENDEZVOUS | OKV_REQUEST_KEEP_TTL},
    [OKV_OP_DELETE] = {WRITE, .has_key = true, .flags = OKV_REQUEST_IF_VERSION},
    [OKV_OP_STAT] = {READ},
    [OKV_OP_APPEND] = {WRITE, .has_key = true, .has_value = true},
    [OKV_OP_TOUCH] = {WRITE, .has_key = true, .has_ttl = true},
    [OKV_OP_INCR] = {WRITE, .has_key = true, .has_argument = true},
    [OKV_OP_FLUSH] = {ADMIN, .is_write = true, .has_value = true, .has_argument = true},
    [OKV_OP_ADMIN] = {ADMIN, .has_value = true},
    [OKV_OP_REPORT] = {READ, .has_value = true},
    [OKV_OP_INCR_TTL] = {WRITE, .has_key = true, .has_argument = true, .has_ttl = true},
    [OKV_OP_GET_TOUCH] = {WRITE, .has_key = true, .has_ttl = true},
    [OKV_OP_HITS] = {READ, .has_value = true},
    [OKV_OP_JOIN] = PEER,
    [OKV_OP_SHIP] = PEER,
    [OKV_OP_VALUE] = PEER,
    [OKV_OP_SNAPSHOT] = PEER,
    [OKV_OP_BEAT] = PEER,
    [OKV_OP_RELEASED] = PEER,
    [OKV_OP_GOODBYE] = {READ, .has_value = true},
};

const char *okv_right_name(unsigned rights)
{
    if (rights & OKV_RIGHT_READ)
        return "read";
    if (rights & OKV_RIGHT_WRITE)
        return "write";
    if (rights & OKV_RIGHT_ADMIN)
        return "admin";
    return rights & OKV_RIGHT_REPLICATE ? "replicate" : NULL;
}
