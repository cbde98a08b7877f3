/* What hostile_ofi_test.c uses of hostile_ofi_floods.c. The state of tests is a struct scene. */
#ifndef OKV_TESTS_HOSTILE_OFI_LIST_H
#define OKV_TESTS_HOSTILE_OFI_LIST_H

/* Its server does not live on. */
void a_server_that_is_killed_amid_reads(void **state);

/* The process of an attacker, which goes on until it is killed. */
_Noreturn void run_attacker(const char *how);

#endif
