#include "server/copies/mail.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "server/cluster/message.h"
#include "server/core/server.h"
#include "server/database/database.h"
#include "server/identity/authority.h"
#include "server/peers/inbox.h"
#include "server/wal/copies/copies.h"
#include "server/wal/format.h"
#include "shared/base/error.h"

/* ---- answers ---- */

static void answer(struct okv_copies *copies, struct okv_peer_mail *mail, int status)
{
    okv_peer_inbox_answer(copies->inbox, mail, status, NULL, 0);
}

static struct okv_peer_mail *take_first(struct okv_copy_mail *waiting)
{
    struct okv_peer_mail *first = STAILQ_FIRST(&waiting->list);

    STAILQ_REMOVE_HEAD(&waiting->list, next);
    return first;
}

/* Answers all waiting mail but the last without a message, and returns the last; NULL: none waits.
 */
static struct okv_peer_mail *last_of(struct okv_copy *copy)
{
    struct okv_copy_mail *waiting = &copy->mail;
    struct okv_peer_mail *last = NULL;

    while (!STAILQ_EMPTY(&waiting->list)) {
        if (last)
            answer(copy->copies, last, 0);
        last = take_first(waiting);
    }
    return last;
}

void okv_mail_answer(struct okv_copy *copy, const struct okv_peer_message *message)
{
    struct okv_copies *copies = copy->copies;
    /* What the log has to say before the event acknowledges an earlier SHIP. */
    bool is_of_taken = copy->mail.taken && message->sent_us == copy->mail.taken_us;
    struct okv_peer_mail *mail = is_of_taken ? copy->mail.taken : last_of(copy);
    const struct okv_peer_letter letter = {
        .server = copies->id, .options = copies->options, .message = *message};
    uint8_t bytes[OKV_PEER_MESSAGE_MAX];

    copy->mail.taken = is_of_taken ? NULL : copy->mail.taken;
    if (mail)
        okv_peer_inbox_answer(copies->inbox, mail, 0, bytes,
                              (uint32_t)okv_peer_letter_encode(&letter, bytes));
}

static void drop_frames(struct okv_copy_mail *waiting)
{
    free(waiting->bytes);
    waiting->bytes = NULL;
    waiting->used = waiting->size = 0;
    waiting->rest = 0;
}

void okv_mail_answer_pieces(struct okv_copy *copy, unsigned count)
{
    struct okv_copy_loading *loading = &copy->loading;

    while (loading->answered < count && !STAILQ_EMPTY(&loading->list)) {
        struct okv_peer_mail *mail = STAILQ_FIRST(&loading->list);
        STAILQ_REMOVE_HEAD(&loading->list, next);
        answer(copy->copies, mail, 0);
        loading->answered++;
    }
}

void okv_mail_end_pieces(struct okv_copy *copy)
{
    okv_mail_answer_pieces(copy, UINT_MAX);
    copy->loading.answered = 0;
}

void okv_mail_end_waiting(struct okv_copy *copy)
{
    struct okv_peer_mail *last = last_of(copy);

    if (last)
        answer(copy->copies, last, 0);
}

void okv_mail_end(struct okv_copy *copy)
{
    okv_mail_end_waiting(copy);
    okv_mail_end_pieces(copy);
    drop_frames(&copy->mail);
}

/* ---- frames ---- */

const uint8_t *okv_mail_frames(const struct okv_copy *copy, size_t *length)
{
    *length = copy->mail.frames_length;
    return copy->mail.frames;
}

/* Keeps the bytes of one of several requests. OKV_EPROTO: they are too many, or another one is
 * missing; OKV_ENOMEM. */
static int keep_frames(struct okv_copy_mail *waiting, const struct okv_peer_mail *mail,
                       uint64_t rest)
{
    uint64_t needed = waiting->used + mail->length + rest;

    if (rest > OKV_WAL_FRAME_MAX || needed > OKV_WAL_FRAME_MAX ||
        (waiting->rest && waiting->rest != mail->length + rest))
        return OKV_EPROTO;
    if (needed > waiting->size) {
        uint8_t *larger = realloc(waiting->bytes, needed);
        if (!larger)
            return OKV_ENOMEM;
        waiting->bytes = larger;
        waiting->size = needed;
    }
    if (mail->length)
        memcpy(waiting->bytes + waiting->used, mail->body, mail->length);
    waiting->used += mail->length;
    waiting->rest = rest;
    return 0;
}

/* ---- requests ---- */

static bool is_of_operation(unsigned opcode, enum okv_peer_message_type type)
{
    switch (type) {
    case OKV_PEER_JOIN:
        return opcode == OKV_OP_JOIN;
    case OKV_PEER_SHIP:
        return opcode == OKV_OP_SHIP;
    case OKV_PEER_BEAT:
        return opcode == OKV_OP_BEAT;
    case OKV_PEER_RELEASED:
        return opcode == OKV_OP_RELEASED;
    case OKV_PEER_PIECE:
        return opcode == OKV_OP_SNAPSHOT;
    default:
        return false;
    }
}

static bool is_from_leader(const struct okv_copy *copy, const struct okv_peer_letter *letter)
{
    const struct okv_protocol *protocol = &copy->protocol;

    return letter->server == protocol->leader && letter->message.epoch == protocol->epoch;
}

/* What comes in several requests comes over the connection of the last JOIN: what is left of an
 * earlier one does not mix with it. */
static void note_join(struct okv_copy *copy, const struct okv_peer_sender *from,
                      const struct okv_peer_letter *letter)
{
    if (!is_from_leader(copy, letter))
        return;
    copy->mail.joined = from;
    drop_frames(&copy->mail);
}

/* One that comes to nothing is answered without a message. That of a SHIP comes when its frames are
 * where they are to be. */
static void step(struct okv_copy *copy, struct okv_peer_mail *mail,
                 const struct okv_peer_letter *letter)
{
    const struct okv_protocol_event event = {
        .type = OKV_EVENT_MESSAGE, .server = letter->server, .message = letter->message};
    struct okv_copy_mail *waiting = &copy->mail;
    const struct okv_peer_sender *from = mail->from;

    if (letter->message.type == OKV_PEER_JOIN)
        copy->joined_us = letter->message.sent_us;
    waiting->taken = mail;
    waiting->taken_us = letter->message.sent_us;
    okv_copy_tell(copy, &event);
    if (letter->message.type == OKV_PEER_JOIN)
        note_join(copy, from, letter);
    mail = waiting->taken;
    waiting->taken = NULL;
    if (!mail)
        return;
    if (letter->message.type == OKV_PEER_SHIP && copy->protocol.owed != 0)
        STAILQ_INSERT_TAIL(&waiting->list, mail, next);
    else
        answer(copy->copies, mail, 0);
}

static void take_frames(struct okv_copy *copy, struct okv_peer_mail *mail,
                        const struct okv_peer_letter *letter)
{
    struct okv_copy_mail *waiting = &copy->mail;
    bool is_alone = letter->rest == 0 && waiting->rest == 0;
    int rc = is_alone ? 0 : keep_frames(waiting, mail, letter->rest);

    if (rc)
        drop_frames(waiting);
    if (rc || letter->rest) {
        answer(copy->copies, mail, rc);
        return;
    }
    waiting->frames = is_alone ? mail->body : waiting->bytes;
    waiting->frames_length = is_alone ? mail->length : waiting->used;
    step(copy, mail, letter);
    waiting->frames = NULL;
    waiting->frames_length = 0;
    if (!is_alone)
        drop_frames(waiting);
}

/* Of another primary it is refused, and comes to nothing over another connection. */
static void take_ship(struct okv_copy *copy, struct okv_peer_mail *mail,
                      const struct okv_peer_letter *letter)
{
    if (!is_from_leader(copy, letter) && letter->rest == 0)
        step(copy, mail, letter);
    else if (!is_from_leader(copy, letter) || copy->mail.joined != mail->from)
        answer(copy->copies, mail, 0);
    else
        take_frames(copy, mail, letter);
}

/* Of another snapshot than the one that is awaited: nothing is loaded. */
static bool is_awaited(const struct okv_copy *copy, const struct okv_peer_mail *mail,
                       const struct okv_peer_letter *letter)
{
    return copy->is_loading && is_from_leader(copy, letter) && copy->mail.joined == mail->from &&
           letter->message.sent_us == copy->loading.id;
}

/* Hands the bytes to the log. The answer, once they are loaded, lets the primary send another
 * piece.
 */
static void take_piece(struct okv_copy *copy, struct okv_peer_mail *mail,
                       const struct okv_peer_letter *letter)
{
    struct okv_copy_mail *waiting = &copy->mail;
    const struct okv_peer_message *message = &letter->message;
    int rc = is_awaited(copy, mail, letter) ? keep_frames(waiting, mail, letter->rest) : OKV_EINVAL;

    if (rc || letter->rest) {
        answer(copy->copies, mail, rc);
        return;
    }
    if (message->flags & OKV_PEER_LAST)
        copy->loading.whole = message->published;
    rc = okv_wal_copies_add_piece(copy->database->wal, waiting->bytes, waiting->used,
                                  message->flags & OKV_PEER_LAST ? message->from : 0, message->to);
    waiting->bytes = NULL;
    drop_frames(waiting);
    if (rc)
        answer(copy->copies, mail, rc);
    else
        STAILQ_INSERT_TAIL(&copy->loading.list, mail, next);
}

/* Users are changed on one server after the other: a copy that is in the set stays. */
static bool has_same_users(const struct okv_copy *copy, const struct okv_peer_letter *letter)
{
    return letter->message.type != OKV_PEER_JOIN ||
           okv_key_has(&copy->protocol.key, copy->protocol.self) ||
           letter->users == okv_authority_digest(copy->copies->server->authority);
}

static int check(const struct okv_copy *copy, const struct okv_peer_mail *mail,
                 struct okv_peer_letter *letter)
{
    int rc = okv_peer_letter_decode(mail->header, mail->header_length, letter);

    if (rc)
        return rc;
    if (!is_of_operation(mail->opcode, letter->message.type))
        return OKV_EPROTO;
    if (letter->options != copy->copies->options || !has_same_users(copy, letter))
        return OKV_EINVAL;
    return copy->has_begun ? 0 : OKV_EAGAIN;
}

static void refuse(struct okv_copy *copy, struct okv_peer_mail *mail,
                   const struct okv_peer_letter *letter, int status)
{
    if (status == OKV_EINVAL && !copy->has_told_refusal)
        okv_log_say(&copy->copies->server->log, OKV_LOG_ERROR, "cluster",
                    "database %s: the primary has other %s, and this server gets no copy: give all "
                    "servers of the cluster the same",
                    copy->database->config->name,
                    letter->options == copy->copies->options ? "users"
                                                             : "options for its databases");
    copy->has_told_refusal |= status == OKV_EINVAL;
    answer(copy->copies, mail, status);
}

static void take(struct okv_copies *copies, struct okv_peer_mail *mail)
{
    struct okv_copy *copy = &copies->of[mail->from->database];
    struct okv_peer_letter letter;

    if (mail->opcode == 0) {
        if (copy->mail.joined == mail->from) {
            copy->mail.joined = NULL;
            drop_frames(&copy->mail);
        }
        answer(copies, mail, 0);
        return;
    }
    int rc = check(copy, mail, &letter);
    copy->has_told_refusal &= rc != 0;
    if (rc)
        refuse(copy, mail, &letter, rc);
    else if (letter.message.type == OKV_PEER_SHIP)
        take_ship(copy, mail, &letter);
    else if (letter.message.type == OKV_PEER_PIECE)
        take_piece(copy, mail, &letter);
    else
        step(copy, mail, &letter);
}

void okv_mail_take(struct okv_copies *copies)
{
    struct okv_peer_mail *mail;

    while ((mail = okv_peer_inbox_take(copies->inbox)))
        take(copies, mail);
}
