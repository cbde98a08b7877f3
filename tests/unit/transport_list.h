/* Tests of the list in transport_list.c that are in other files. */
#ifndef OKV_TESTS_TRANSPORT_LIST_H
#define OKV_TESTS_TRANSPORT_LIST_H

#include "tests/support/transport_fixture.h"

/* transport_list_ends.c */
void an_armed_descriptor_wakes(void **state);
void a_close_of_our_own_wakes(void **state);
void the_server_closes(void **state);
void the_client_closes(void **state);
void a_close_ends_what_is_under_way(void **state);
void a_client_may_vanish_at_any_time(void **state);
void connections_leave_nothing_behind(void **state);
void several_clients_at_once(void **state);
/* Several clients of the server at the fixture's connect_uri, each with a thread, messages and
 * READs; returns how many there were. Fails the test when one of them failed. */
unsigned run_several_clients(struct fixture *fixture);

/* transport_list_steps.c */
void a_connect_in_steps_never_blocks(void **state);
void a_connect_in_steps_is_rejected(void **state);
void a_connect_in_steps_finds_nobody(void **state);
void a_connect_in_steps_ends_at_its_deadline(void **state);
void a_connect_is_cancelled_at_any_step(void **state);

/* transport_list_regions.c */
void connections_reach_their_own_region(void **state);

/* transport_list_flush.c */
void a_flush_sends_several_messages(void **state);
void unflushed_messages_end_with_the_connection(void **state);
void a_heartbeat_is_acknowledged_without_the_peers_process(void **state);
void a_heartbeat_finds_a_closed_connection(void **state);
void everything_is_acknowledged_in_the_end(void **state);

/* transport_list_endpoints.c */
void several_endpoints_on_one_listener(void **state);
/* Changes the URI to an address that the fixture's own server does not use. */
void choose_other_address(struct okv_uri *uri);

/* transport_list_fairness.c */
void busy_connections_starve_nobody(void **state);

/* transport_list_rendezvous.c */
void a_rendezvous_brings_the_right_bytes(void **state);
void a_rendezvous_may_begin_inside_the_buffer(void **state);
void several_rendezvous_reads_at_once(void **state);
void a_rendezvous_arrives_in_the_region_of_its_connection(void **state);
void rendezvous_reads_outside_the_region_are_refused(void **state);
void only_a_server_may_start_a_rendezvous(void **state);
void memory_that_is_not_advertised_cannot_be_read(void **state);
void a_rendezvous_after_withdraw_brings_no_other_bytes(void **state);
void adverts_come_and_go(void **state);
void a_client_that_closes_ends_its_rendezvous_reads(void **state);
void a_server_that_closes_ends_its_rendezvous_reads(void **state);

#endif
