/* The tests of transport_list.c that are in transport_list_ends.c. */
#ifndef OKV_TESTS_TRANSPORT_LIST_H
#define OKV_TESTS_TRANSPORT_LIST_H

void an_armed_descriptor_wakes(void **state);
void a_close_of_our_own_wakes(void **state);
void the_server_closes(void **state);
void the_client_closes(void **state);
void a_close_ends_what_is_under_way(void **state);
void a_client_may_vanish_at_any_time(void **state);
void connections_leave_nothing_behind(void **state);
void several_clients_at_once(void **state);

#endif
