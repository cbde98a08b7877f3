#include "client/connection/notice.h"

#include "shared/base/error.h"

uint8_t *notice_room(okv *handle, const struct notice *notice, uint32_t stay)
{
    if (notice->is_owed || handle->request_slots.count <= stay)
        return NULL;
    return handle->transport->send_buffer(handle->conn);
}

void notice_post(okv *handle, struct notice *notice, uint8_t *room, unsigned opcode,
                 const void *value, uint32_t length)
{
    struct request_slots *slots = &handle->request_slots;
    const struct okv_request_message request = {
        .opcode = opcode,
        .slot = slots->free[--slots->count],
        .sequence = handle->next_sequence++,
        .value = value,
        .value_length = length,
    };

    *notice = (struct notice){true, request.slot, request.sequence};
    uint32_t size = okv_request_encode(&request, room);
    if (handle->transport->post_send(handle->conn, size,
                                     okv_immediate(request.opcode, request.slot)))
        handle->lost = true; /* engine_flush() handles it */
    else
        handle->transport->flush(handle->conn);
}

bool notice_reply(okv *handle, struct notice *notice, unsigned opcode,
                  const struct okv_reply_message *reply)
{
    struct request_slots *slots = &handle->request_slots;

    if (!notice->is_owed || reply->opcode != opcode || reply->slot != notice->request_slot ||
        reply->sequence != notice->sequence || reply->status != OKV_OK)
        return false;
    notice->is_owed = false;
    slots->answered[reply->slot] = reply->sequence;
    slots->free[slots->count++] = reply->slot;
    return true;
}
