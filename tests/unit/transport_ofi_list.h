/* Tests of transport_ofi_test.c that are in other files. Their state is a struct fixture. */
#ifndef OKV_TESTS_TRANSPORT_OFI_LIST_H
#define OKV_TESTS_TRANSPORT_OFI_LIST_H

#include "tests/support/transport_client.h"

/* transport_ofi_greetings.c: what a server says */

void greetings_that_name_no_provider(void **state);
void a_greeting_with_half_a_name(void **state);
void answers_with_bytes_that_nothing_uses(void **state);
void a_server_that_hangs_up(void **state);

/* transport_ofi_memory.c: what is lent to the provider and to the peer */

void a_client_advertises_no_more_than_its_credits(void **state);
void a_rendezvous_read_without_memory(void **state);
void an_endpoint_that_cannot_be_closed(void **state);
void memory_that_the_provider_keeps(void **state);

/* transport_ofi_poll.c: descriptors and polls */

void descriptors_in_sets_of_the_program(void **state);
void a_flood_and_one_poll(void **state);
void receives_that_fail(void **state);
void errors_of_nothing_of_ours(void **state);
void errors_of_a_client(void **state);
void a_queue_that_has_overrun(void **state);
void a_receive_that_fails_four_times(void **state);

/* transport_ofi_network.c */

void a_server_on_the_network(void **state);

/* transport_ofi_progress.c: a server whose worker does not poll */

void reads_beside_a_busy_worker(void **state);
void a_sleeping_worker_is_woken(void **state);
/* For a server whose process serves READs: from now on it does nothing, until server_go_on() or the
 * guard. False: its progress thread was not stopped. */
bool server_stand_still(struct client *client);
void server_go_on(struct client *client);

#endif
