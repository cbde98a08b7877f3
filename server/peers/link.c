#include "server/peers/link.h"

#include <stdlib.h>
#include <string.h>

#include "server/peers/introduction.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

/* A member of a cluster demands the second one of all that connect. */
#define FEATURES (uint32_t)(OKV_FEATURE_REPLICATE | OKV_FEATURE_LEASE)

#define EVENTS_PER_POLL 16
#define NO_RIGHT "the user lacks the right replicate there"

/* A message that has no answer, or the place for one. */
struct place {
    bool is_used;
    unsigned opcode;
    uint64_t sequence, cookie;
    uint8_t *body; /* that is lent, or NULL */
    struct okv_advert *advert;
};

enum state { CONNECTING, OPEN, LOST };

struct okv_link {
    struct okv_link_params params;
    struct okv_introduction introduction;
    const struct okv_transport_ops *ops;
    enum state state;
    struct okv_connecting *connecting;
    struct okv_conn *conn;
    uint64_t sequence;
    uint32_t slot_size; /* of the other server */
    uint32_t place_count;
    struct place *places; /* [place_count], by request slot */
};

/* ---- the end ---- */

static void release(struct okv_link *link, struct place *place, bool is_answered)
{
    link->ops->withdraw(place->advert, is_answered);
    free(place->body);
    *place = (struct place){.is_used = false};
}

static void disconnect(struct okv_link *link)
{
    link->ops->connect_cancel(link->connecting);
    link->connecting = NULL;
    for (uint32_t i = 0; i < link->place_count; i++)
        if (link->places[i].is_used)
            release(link, &link->places[i], false);
    if (link->conn)
        link->ops->conn_destroy(link->conn);
    link->conn = NULL;
}

/* `why` may be the connection's; "": the code says it. */
static void lose(struct okv_link *link, int status, const char *why)
{
    link->state = LOST;
    link->params.calls->lost(link->params.context, status, why[0] ? why : okv_error_text(status));
    disconnect(link);
}

void okv_link_close(struct okv_link *link)
{
    if (!link)
        return;
    disconnect(link);
    free(link->places);
    free(link);
}

/* ---- the beginning ---- */

int okv_link_open(const struct okv_link_params *params, struct okv_link **out,
                  struct okv_diag *diag)
{
    struct okv_link *link = calloc(1, sizeof *link);
    struct okv_wire_hello hello;

    if (!link)
        return OKV_ENOMEM;
    link->params = *params;
    link->ops = okv_transport_for(params->uri->scheme);
    link->places = calloc(params->messages_max, sizeof *link->places);
    link->introduction = (struct okv_introduction){
        .user = params->user,
        .key = params->key,
        .hello = {.slot_size = OKV_SLOT_SIZE_DEFAULT,
                  .credits = params->messages_max,
                  .features = FEATURES,
                  .database = okv_database_id(params->database)},
    };
    memcpy(link->introduction.hello.client_id, &params->client_id, OKV_CLIENT_ID_SIZE);
    okv_introduction_begin(&link->introduction, &hello);
    const struct okv_connect_params connect = {
        .hello = (const uint8_t *)&hello,
        .hello_length = sizeof hello,
        .next_hello = okv_introduction_next,
        .user = &link->introduction,
        .limits = {.slot_size = OKV_SLOT_SIZE_DEFAULT, .credits = params->messages_max},
        .deadline_ns = okv_clock_ns() + params->timeout_ns,
    };
    int rc = !link->places ? OKV_ENOMEM
             : !link->ops
                 ? okv_diag_set(diag, OKV_EUNSUPPORTED, "there is no such transport")
                 : link->ops->connect_start(params->uri, &connect, &link->connecting, diag);
    if (rc) {
        free(link->places);
        free(link);
        return rc;
    }
    *out = link;
    return 0;
}

static int refused(const struct okv_answer *answer, struct okv_diag *why)
{
    struct okv_reject reject;

    if (!answer->rejected || okv_reject_decode(answer->bytes, answer->length, &reject))
        return OKV_EREFUSED;
    return okv_diag_set(why, okv_reject_code(reject.reason), "%s",
                        reject.reason == OKV_REJECT_NO_RIGHT ? NO_RIGHT
                                                             : okv_reject_text(reject.reason));
}

static int take_welcome(struct okv_link *link, const struct okv_answer *answer,
                        struct okv_diag *why)
{
    struct okv_welcome welcome;

    if (!okv_introduction_is_answered(&link->introduction, answer->bytes, answer->length))
        return okv_diag_set(why, OKV_EDENIED, "what listens there does not know the key");
    int rc = okv_welcome_decode(answer->bytes, answer->length, &welcome);
    if (rc == 0 && (welcome.features & ~FEATURES || welcome.slot_size > OKV_SLOT_SIZE_DEFAULT ||
                    welcome.credits > link->params.messages_max))
        rc = OKV_EPROTO;
    if (rc)
        return okv_diag_set(why, rc, "its welcome makes no sense");
    if (!(welcome.features & OKV_FEATURE_REPLICATE))
        return okv_diag_set(why, OKV_EUNSUPPORTED, "it is no member of a cluster");
    if (!(welcome.rights & OKV_RIGHT_REPLICATE))
        return okv_diag_set(why, OKV_EDENIED, NO_RIGHT);
    link->slot_size = welcome.slot_size;
    link->place_count = welcome.credits;
    return link->ops->set_remote(link->conn, welcome.region_address, welcome.region_length,
                                 welcome.rkey);
}

static void connect_on(struct okv_link *link)
{
    struct okv_answer answer = {.length = 0};
    struct okv_diag why = {.text = ""};
    int rc = link->ops->connect_step(link->connecting, &answer, &link->conn, &why);

    if (rc == OKV_EAGAIN)
        return;
    link->connecting = NULL;
    if (rc)
        link->conn = NULL;
    if (rc == OKV_EREFUSED)
        rc = refused(&answer, &why);
    if (rc == 0)
        rc = take_welcome(link, &answer, &why);
    if (rc) {
        lose(link, rc, why.text);
        return;
    }
    link->state = OPEN;
    link->params.calls->opened(link->params.context);
}

/* ---- answers ---- */

static void take_answer(struct okv_link *link, const struct okv_event *event)
{
    struct okv_reply_message reply = {.status = 0};
    int rc = event->has_immediate
                 ? okv_reply_decode(event->immediate, event->data, event->length, &reply)
                 : OKV_EPROTO;
    struct place *place = reply.slot < link->place_count ? &link->places[reply.slot] : NULL;

    if (rc == 0 && reply.opcode == OKV_OP_GOODBYE) {
        lose(link, reply.status ? reply.status : OKV_EDISCONNECTED, "it said goodbye");
        return;
    }
    if (rc || !place || !place->is_used || place->opcode != reply.opcode ||
        place->sequence != reply.sequence) {
        lose(link, OKV_EPROTO, "it sent an answer that makes no sense");
        return;
    }
    uint64_t cookie = place->cookie;
    release(link, place, true);
    link->params.calls->answered(link->params.context, cookie, reply.status, reply.value,
                                 reply.value_length);
}

static void take_events(struct okv_link *link, const struct okv_event *events, int count)
{
    for (int i = 0; i < count && link->state == OPEN; i++) {
        const struct okv_event *event = &events[i];
        if (event->type == OKV_EVENT_CLOSED)
            lose(link, event->status, link->conn->failure);
        if (event->type != OKV_EVENT_RECV)
            continue;
        take_answer(link, event);
        if (link->state == OPEN) /* else its buffer went with the connection */
            link->ops->recv_release(link->conn->endpoint, event);
    }
}

static int poll_once(struct okv_link *link)
{
    struct okv_event events[EVENTS_PER_POLL];
    int count = link->ops->poll(link->conn->endpoint, events, EVENTS_PER_POLL);

    if (count < 0)
        lose(link, count, "");
    take_events(link, events, count);
    return count;
}

/* An event from before an arm wakes nobody. */
static void poll_and_arm(struct okv_link *link)
{
    bool is_armed = false;

    while (link->state == OPEN && (poll_once(link) > 0 || !is_armed)) {
        int rc = link->state == OPEN ? link->ops->arm(link->conn->endpoint) : 0;
        is_armed = true;
        if (rc)
            lose(link, rc, "");
    }
}

struct okv_link_wait okv_link_run(struct okv_link *link)
{
    if (link->state == CONNECTING)
        connect_on(link);
    poll_and_arm(link);
    if (link->state == CONNECTING)
        return (struct okv_link_wait){link->connecting->fd, link->connecting->wake_ns};
    return (struct okv_link_wait){link->state == OPEN ? link->conn->endpoint->fd : -1, UINT64_MAX};
}

/* ---- messages ---- */

static uint64_t length_of(const struct iovec *body, int parts)
{
    uint64_t length = 0;

    for (int i = 0; i < parts; i++)
        length += body[i].iov_len;
    return length;
}

static void gather(uint8_t *out, const struct iovec *body, int parts)
{
    for (int i = 0; i < parts; i++) {
        if (body[i].iov_len)
            memcpy(out, body[i].iov_base, body[i].iov_len);
        out += body[i].iov_len;
    }
}

static struct place *free_place(struct okv_link *link)
{
    for (uint32_t i = 0; i < link->place_count; i++)
        if (!link->places[i].is_used)
            return &link->places[i];
    return NULL;
}

bool okv_link_takes_parts(const struct okv_link *link)
{
    uint32_t used = 0;

    for (uint32_t i = 0; i < link->place_count; i++)
        used += link->places[i].is_used;
    return link->state == OPEN && (used == 0 || link->place_count - used > 1);
}

/* Lends a copy of the body, which the request names in its place. */
static int lend(struct okv_link *link, struct place *place, const struct iovec *body, int parts,
                struct okv_request_message *request)
{
    uint8_t *copy = malloc(request->value_length);

    if (!copy)
        return OKV_ENOMEM;
    gather(copy, body, parts);
    int rc = link->ops->advertise(link->conn, copy, request->value_length, &place->advert);
    if (rc) {
        free(copy);
        return rc;
    }
    place->body = copy;
    request->flags = OKV_REQUEST_RENDEZVOUS;
    request->rendezvous_address = place->advert->address;
    request->rendezvous_key = place->advert->key;
    return 0;
}

static void post(struct okv_link *link, struct place *place,
                 const struct okv_request_message *request, uint64_t cookie, uint8_t *out)
{
    place->is_used = true;
    place->opcode = request->opcode;
    place->sequence = request->sequence;
    place->cookie = cookie;
    uint32_t length = okv_request_encode(request, out);
    /* A connection that fails here reports itself by its CLOSED event. */
    link->ops->post_send(link->conn, length, okv_immediate(request->opcode, request->slot));
    link->ops->flush(link->conn);
}

int okv_link_send(struct okv_link *link, unsigned opcode, const void *header,
                  uint32_t header_length, const struct iovec *body, int parts, uint64_t cookie)
{
    uint64_t length = length_of(body, parts);

    if (link->state != OPEN)
        return OKV_EDISCONNECTED;
    if (header_length < 1 || header_length > OKV_KEY_MAX || length > UINT32_MAX)
        return OKV_EINVAL;
    struct place *place = free_place(link);
    uint8_t *out = place ? link->ops->send_buffer(link->conn) : NULL;
    if (!out)
        return OKV_EAGAIN;
    struct okv_request_message request = {
        .opcode = opcode,
        .slot = (uint16_t)(place - link->places),
        .sequence = link->sequence + 1,
        .key = header,
        .key_length = header_length,
        .value = out + OKV_REQUEST_HEADER + header_length,
        .value_length = (uint32_t)length,
    };
    if (length <= okv_slot_value_max(link->slot_size)) {
        gather(out + OKV_REQUEST_HEADER + header_length, body, parts);
    } else {
        int rc = lend(link, place, body, parts, &request);
        if (rc)
            return rc;
    }
    link->sequence++;
    post(link, place, &request, cookie, out);
    return 0;
}
