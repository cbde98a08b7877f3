/* Limits on clients: in all, and per address. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/net/admission.h"
#include "shared/format/wire.h"

enum { LIMIT = 10, PER_ADDRESS = 3 };

static struct okv_admission admission_of(uint32_t limit, uint32_t per_address)
{
    struct okv_admission admission;

    assert_int_equal(okv_admission_init(&admission, limit, per_address), 0);
    return admission;
}

static uint32_t admit(struct okv_admission *admission, const char *address)
{
    uint32_t index = UINT32_MAX;

    assert_int_equal(okv_admission_admit(admission, address, NULL, &index), 0);
    assert_in_range(index, 0, LIMIT - 1);
    return index;
}

static void expect_refusal(struct okv_admission *admission, const char *address, int reason)
{
    uint32_t index;

    assert_int_equal(okv_admission_admit(admission, address, NULL, &index), reason);
}

static void all_addresses_share_the_limit(void **state)
{
    struct okv_admission admission = admission_of(LIMIT, 0);
    uint32_t indices[LIMIT];
    char address[16];

    (void)state;
    for (int i = 0; i < LIMIT; i++) {
        snprintf(address, sizeof address, "10.0.0.%d", i % 4);
        indices[i] = admit(&admission, address);
    }
    expect_refusal(&admission, "10.0.0.1", OKV_REJECT_BUSY);
    expect_refusal(&admission, "10.0.0.200", OKV_REJECT_BUSY);
    okv_admission_release(&admission, indices[5]);
    indices[5] = admit(&admission, "10.0.0.200");
    expect_refusal(&admission, "10.0.0.1", OKV_REJECT_BUSY);
    okv_admission_fini(&admission);
}

static void an_address_has_its_own_limit(void **state)
{
    struct okv_admission admission = admission_of(LIMIT, PER_ADDRESS);
    uint32_t index = 0;

    (void)state;
    for (int i = 0; i < PER_ADDRESS; i++) {
        index = admit(&admission, "here");
        admit(&admission, "there");
    }
    expect_refusal(&admission, "here", OKV_REJECT_ADDRESS);
    expect_refusal(&admission, "there", OKV_REJECT_ADDRESS);
    admit(&admission, "elsewhere");
    okv_admission_release(&admission, index);
    expect_refusal(&admission, "there", OKV_REJECT_ADDRESS);
    admit(&admission, "here");
    expect_refusal(&admission, "here", OKV_REJECT_ADDRESS);
    okv_admission_fini(&admission);
}

static void clients_of_unknown_address_share_one_limit(void **state)
{
    struct okv_admission admission = admission_of(LIMIT, 1);

    (void)state;
    admit(&admission, "");
    expect_refusal(&admission, "", OKV_REJECT_ADDRESS);
    admit(&admission, "a");
    okv_admission_fini(&admission);
}

static void indices_are_reused(void **state)
{
    struct okv_admission admission = admission_of(LIMIT, 1);
    uint32_t indices[LIMIT];
    char address[16];

    (void)state;
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(address, sizeof address, "%u", i);
        if (i >= LIMIT)
            okv_admission_release(&admission, indices[i % LIMIT]);
        indices[i % LIMIT] = admit(&admission, address);
        expect_refusal(&admission, address, i + 1 >= LIMIT ? OKV_REJECT_BUSY : OKV_REJECT_ADDRESS);
    }
    okv_admission_fini(&admission);
}

/* A client that comes back fits even at the limit, but only once. */
static void a_replaced_client_does_not_count(void **state)
{
    struct okv_admission admission = admission_of(LIMIT, PER_ADDRESS);
    uint32_t indices[LIMIT], index;
    char address[16];

    (void)state;
    for (int i = 0; i < LIMIT; i++) {
        snprintf(address, sizeof address, "%d", i / PER_ADDRESS);
        indices[i] = admit(&admission, address);
    }
    for (int round = 0; round < 5; round++) {
        assert_int_equal(okv_admission_admit(&admission, "0", &indices[0], &index), 0);
        assert_int_equal(index, indices[0]);
        expect_refusal(&admission, "new", OKV_REJECT_BUSY);
        okv_admission_release(&admission, indices[0]);
        expect_refusal(&admission, "new", OKV_REJECT_BUSY);
    }
    /* From another address, whose limit counts. */
    assert_int_equal(okv_admission_admit(&admission, "1", &indices[0], &index), OKV_REJECT_ADDRESS);
    assert_int_equal(okv_admission_admit(&admission, "new", &indices[0], &index), 0);
    okv_admission_release(&admission, indices[0]);
    expect_refusal(&admission, "0", OKV_REJECT_BUSY);
    okv_admission_fini(&admission);
    /* The replaced client has already left. */
    admission = admission_of(1, 1);
    indices[0] = admit(&admission, "a");
    okv_admission_release(&admission, indices[0]);
    assert_int_equal(okv_admission_admit(&admission, "a", &indices[0], &index), 0);
    expect_refusal(&admission, "a", OKV_REJECT_BUSY);
    okv_admission_fini(&admission);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_addresses_share_the_limit),
        cmocka_unit_test(an_address_has_its_own_limit),
        cmocka_unit_test(clients_of_unknown_address_share_one_limit),
        cmocka_unit_test(indices_are_reused),
        cmocka_unit_test(a_replaced_client_does_not_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
