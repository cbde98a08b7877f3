/* Messages to the server that no operation waits for, one of a kind at a time. */
#ifndef OKV_CLIENT_CONNECTION_NOTICE_H
#define OKV_CLIENT_CONNECTION_NOTICE_H

#include "client/handle.h"

/* The send buffer for another one. NULL: one is owed its reply, there is no buffer, or no credit
 * beyond those that stay for operations. */
uint8_t *notice_room(okv *handle, const struct notice *notice, uint32_t stay);
/* Posts it in that buffer, and flushes. */
void notice_post(okv *handle, struct notice *notice, uint8_t *room, unsigned opcode,
                 const void *value, uint32_t length);
/* True when it is the reply to that notice, which then is owed none. */
bool notice_reply(okv *handle, struct notice *notice, unsigned opcode,
                  const struct okv_reply_message *reply);

#endif
