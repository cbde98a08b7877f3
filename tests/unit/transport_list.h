/* The tests of transport_list.c that are in other files. */
#ifndef OKV_TESTS_TRANSPORT_LIST_H
#define OKV_TESTS_TRANSPORT_LIST_H

/* transport_list_ends.c */
void an_armed_descriptor_wakes(void **state);
void a_close_of_our_own_wakes(void **state);
void the_server_closes(void **state);
void the_client_closes(void **state);
void a_close_ends_what_is_under_way(void **state);
void a_client_may_vanish_at_any_time(void **state);
void connections_leave_nothing_behind(void **state);
void several_clients_at_once(void **state);

/* transport_list_pulls.c */
void a_pull_brings_the_right_bytes(void **state);
void a_pull_may_begin_inside_of_what_is_exposed(void **state);
void several_pulls_at_once(void **state);
void pulls_outside_the_region_are_refused(void **state);
void only_a_server_pulls(void **state);
void what_is_not_exposed_cannot_be_pulled(void **state);
void a_pull_after_unexpose_brings_no_other_bytes(void **state);
void exposures_come_and_go(void **state);
void a_client_that_closes_ends_its_pulls(void **state);
void a_server_that_closes_ends_its_pulls(void **state);

#endif
