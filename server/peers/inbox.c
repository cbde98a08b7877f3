#include "server/peers/inbox.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "server/core/server.h"
#include "shared/base/error.h"

/* What mail counts as: many without a body fill the inbox, too. */
static uint64_t size_of(const struct okv_peer_mail *mail)
{
    return sizeof *mail + mail->length;
}

int okv_peer_inbox_create(struct okv_server *server, struct okv_peer_inbox **out)
{
    struct okv_peer_inbox *inbox = calloc(1, sizeof *inbox);

    if (!inbox)
        return OKV_ENOMEM;
    inbox->server = server;
    inbox->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (inbox->fd < 0) {
        free(inbox);
        return OKV_EIO;
    }
    pthread_mutex_init(&inbox->lock, NULL);
    STAILQ_INIT(&inbox->mail);
    for (unsigned i = 0; i < OKV_WORKERS_MAX; i++)
        STAILQ_INIT(&inbox->answered[i]);
    *out = inbox;
    return 0;
}

void okv_peer_inbox_destroy(struct okv_peer_inbox *inbox)
{
    if (!inbox)
        return;
    okv_peer_mail_free_all(inbox, &inbox->mail);
    for (unsigned i = 0; i < OKV_WORKERS_MAX; i++)
        okv_peer_mail_free_all(inbox, &inbox->answered[i]);
    pthread_mutex_destroy(&inbox->lock);
    close(inbox->fd);
    free(inbox);
}

/* ---- senders ---- */

struct okv_peer_sender *okv_peer_sender_create(void *session, uint64_t id, unsigned database,
                                               unsigned worker)
{
    struct okv_peer_sender *sender = malloc(sizeof *sender);

    if (!sender)
        return NULL;
    *sender = (struct okv_peer_sender){
        .session = session, .id = id, .database = database, .worker = worker, .mail_count = 1};
    sender->last.from = sender;
    return sender;
}

void okv_peer_sender_close(struct okv_peer_inbox *inbox, struct okv_peer_sender *sender)
{
    sender->session = NULL;
    okv_peer_inbox_add(inbox, &sender->last);
}

/* ---- mail ---- */

/* Returns whether there is room, and takes it. */
static bool take_room(struct okv_peer_inbox *inbox, struct okv_peer_mail *mail)
{
    pthread_mutex_lock(&inbox->lock);
    bool is_there = inbox->bytes < OKV_PEER_INBOX_BYTES;
    if (is_there) {
        inbox->bytes += size_of(mail);
        mail->from->mail_count++;
    }
    pthread_mutex_unlock(&inbox->lock);
    return is_there;
}

int okv_peer_mail_create(struct okv_peer_inbox *inbox, struct okv_peer_sender *sender,
                         const struct okv_request_message *request, struct okv_peer_mail **out)
{
    if (request->value_length > OKV_PEER_BODY_MAX)
        return OKV_EVALUESIZE;
    struct okv_peer_mail *mail = malloc(sizeof *mail);
    if (!mail)
        return OKV_ENOMEM;
    mail->from = sender;
    mail->opcode = request->opcode;
    mail->slot = request->slot;
    mail->sequence = request->sequence;
    mail->header_length = request->key_length;
    memcpy(mail->header, request->key, request->key_length);
    mail->length = request->value_length;
    mail->body = NULL;
    if (!take_room(inbox, mail)) {
        free(mail);
        return OKV_EAGAIN;
    }
    if (mail->length)
        mail->body = malloc(mail->length);
    if (mail->length && !mail->body) {
        okv_peer_mail_free(inbox, mail);
        return OKV_ENOMEM;
    }
    *out = mail;
    return 0;
}

void okv_peer_inbox_add(struct okv_peer_inbox *inbox, struct okv_peer_mail *mail)
{
    pthread_mutex_lock(&inbox->lock);
    bool was_empty = STAILQ_EMPTY(&inbox->mail);
    STAILQ_INSERT_TAIL(&inbox->mail, mail, next);
    pthread_mutex_unlock(&inbox->lock);
    if (was_empty)
        eventfd_write(inbox->fd, 1);
}

struct okv_peer_mail *okv_peer_inbox_take(struct okv_peer_inbox *inbox)
{
    eventfd_t count;

    pthread_mutex_lock(&inbox->lock);
    struct okv_peer_mail *mail = STAILQ_FIRST(&inbox->mail);
    if (mail)
        STAILQ_REMOVE_HEAD(&inbox->mail, next);
    else
        eventfd_read(inbox->fd, &count);
    pthread_mutex_unlock(&inbox->lock);
    return mail;
}

/* The body is not needed any more, and its room is. */
static void drop_body(struct okv_peer_inbox *inbox, struct okv_peer_mail *mail)
{
    free(mail->body);
    mail->body = NULL;
    pthread_mutex_lock(&inbox->lock);
    inbox->bytes -= mail->length;
    mail->length = 0;
    pthread_mutex_unlock(&inbox->lock);
}

void okv_peer_inbox_answer(struct okv_peer_inbox *inbox, struct okv_peer_mail *mail, int status,
                           const void *bytes, uint32_t length)
{
    unsigned worker = mail->from->worker;

    if (mail->opcode == 0) {
        okv_peer_mail_free(inbox, mail);
        return;
    }
    drop_body(inbox, mail);
    mail->status = status;
    mail->reply_length = length;
    if (length)
        memcpy(mail->reply, bytes, length);
    pthread_mutex_lock(&inbox->lock);
    STAILQ_INSERT_TAIL(&inbox->answered[worker], mail, next);
    atomic_store(&inbox->has_answers[worker], true);
    pthread_mutex_unlock(&inbox->lock);
    okv_server_wake(inbox->server, worker);
}

void okv_peer_inbox_answered(struct okv_peer_inbox *inbox, unsigned worker,
                             struct okv_peer_mail_list *out)
{
    if (!atomic_load_explicit(&inbox->has_answers[worker], memory_order_relaxed))
        return;
    pthread_mutex_lock(&inbox->lock);
    STAILQ_CONCAT(out, &inbox->answered[worker]);
    atomic_store(&inbox->has_answers[worker], false);
    pthread_mutex_unlock(&inbox->lock);
}

void okv_peer_mail_free(struct okv_peer_inbox *inbox, struct okv_peer_mail *mail)
{
    struct okv_peer_sender *sender = mail->from;
    bool is_whole = mail->opcode != 0; /* else it is a part of the sender, and may go with it */

    pthread_mutex_lock(&inbox->lock);
    if (is_whole)
        inbox->bytes -= size_of(mail);
    bool is_last = --sender->mail_count == 0;
    pthread_mutex_unlock(&inbox->lock);
    if (is_whole) {
        free(mail->body);
        free(mail);
    }
    if (is_last)
        free(sender);
}

void okv_peer_mail_free_all(struct okv_peer_inbox *inbox, struct okv_peer_mail_list *list)
{
    struct okv_peer_mail *mail;

    while ((mail = STAILQ_FIRST(list))) {
        STAILQ_REMOVE_HEAD(list, next);
        okv_peer_mail_free(inbox, mail);
    }
}
