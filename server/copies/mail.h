/* Messages of other servers, and the answers to them. */
#ifndef OKV_SERVER_COPIES_MAIL_H
#define OKV_SERVER_COPIES_MAIL_H

#include "server/copies/state.h"

/* Takes all that has come. */
void okv_mail_take(struct okv_copies *copies);
/* Answers a primary with a message of the protocol: the request that is being taken in, or those
 * that wait. */
void okv_mail_answer(struct okv_copy *copy, const struct okv_peer_message *message);
/* The frames of the SHIP that is being taken in. */
const uint8_t *okv_mail_frames(const struct okv_copy *copy, size_t *length);
/* The first `count` pieces of the snapshot are loaded: those that carried them are answered. */
void okv_mail_answer_pieces(struct okv_copy *copy, unsigned count);
void okv_mail_end_pieces(struct okv_copy *copy);
/* Answers requests that wait for an acknowledgement, without one: none is owed any more. */
void okv_mail_end_waiting(struct okv_copy *copy);
/* Answers all without a message. */
void okv_mail_end(struct okv_copy *copy);

#endif
