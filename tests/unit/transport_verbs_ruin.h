/*
 * Tests of transport_verbs_test.c for a machine that can be thrown away, in the order of their
 * running: the device does not come back. Their state is a struct meeting.
 */
#ifndef OKV_TESTS_TRANSPORT_VERBS_RUIN_H
#define OKV_TESTS_TRANSPORT_VERBS_RUIN_H

void a_probe_may_be_asked_again(void **state);
void a_cut_network_answers_no_probe(void **state);
void a_client_loses_its_device(void **state);

#endif
