/* Tests of hostile_ofi_test.c that are in hostile_ofi_floods.c. Their state is a struct scene. */
#ifndef OKV_TESTS_HOSTILE_OFI_LIST_H
#define OKV_TESTS_HOSTILE_OFI_LIST_H

void floods_of_messages(void **state);
void floods_take_little_memory(void **state);
void a_flood_of_connections(void **state);
void silent_control_connections(void **state);
void attackers_that_are_killed(void **state);
void a_descriptor_in_a_set_of_the_program(void **state);
/* Its server does not live on. */
void a_server_that_is_killed_amid_reads(void **state);

/* The process of an attacker, which goes on until it is killed. */
_Noreturn void run_attacker(const char *how);

#endif
