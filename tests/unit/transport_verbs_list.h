/* Tests of transport_verbs_test.c that are in other files. Their state is a struct meeting. */
#ifndef OKV_TESTS_TRANSPORT_VERBS_LIST_H
#define OKV_TESTS_TRANSPORT_VERBS_LIST_H

/* transport_verbs_ruin.c: for a disposable machine. In this order: the device does not come back.
 */

void a_heartbeat_may_be_asked_again(void **state);
void a_cut_network_answers_no_heartbeat(void **state);
void a_client_loses_its_device(void **state);

#endif
