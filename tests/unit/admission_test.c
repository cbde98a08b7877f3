/* Limits on clients, in all and from one address. */
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

static uint32_t take(struct okv_admission *admission, const char *address)
{
    uint32_t place = UINT32_MAX;

    assert_int_equal(okv_admission_take(admission, address, NULL, &place), 0);
    assert_in_range(place, 0, LIMIT - 1);
    return place;
}

static void expect_refusal(struct okv_admission *admission, const char *address, int reason)
{
    uint32_t place;

    assert_int_equal(okv_admission_take(admission, address, NULL, &place), reason);
}

static void all_addresses_share_the_limit(void **state)
{
    struct okv_admission admission = admission_of(LIMIT, 0);
    uint32_t places[LIMIT];
    char address[16];

    (void)state;
    for (int i = 0; i < LIMIT; i++) {
        snprintf(address, sizeof address, "10.0.0.%d", i % 4);
        places[i] = take(&admission, address);
    }
    expect_refusal(&admission, "10.0.0.1", OKV_REJECT_BUSY);
    expect_refusal(&admission, "10.0.0.200", OKV_REJECT_BUSY);
    okv_admission_give_back(&admission, places[5]);
    places[5] = take(&admission, "10.0.0.200");
    expect_refusal(&admission, "10.0.0.1", OKV_REJECT_BUSY);
    okv_admission_fini(&admission);
}

static void an_address_has_its_own_limit(void **state)
{
    struct okv_admission admission = admission_of(LIMIT, PER_ADDRESS);
    uint32_t place = 0;

    (void)state;
    for (int i = 0; i < PER_ADDRESS; i++) {
        place = take(&admission, "here");
        take(&admission, "there");
    }
    expect_refusal(&admission, "here", OKV_REJECT_ADDRESS);
    expect_refusal(&admission, "there", OKV_REJECT_ADDRESS);
    take(&admission, "elsewhere");
    okv_admission_give_back(&admission, place);
    expect_refusal(&admission, "there", OKV_REJECT_ADDRESS);
    take(&admission, "here");
    expect_refusal(&admission, "here", OKV_REJECT_ADDRESS);
    okv_admission_fini(&admission);
}

static void an_unknown_address_is_one(void **state)
{
    struct okv_admission admission = admission_of(LIMIT, 1);

    (void)state;
    take(&admission, "");
    expect_refusal(&admission, "", OKV_REJECT_ADDRESS);
    take(&admission, "a");
    okv_admission_fini(&admission);
}

/* Clients come from ever other addresses, and the places are used again. */
static void places_are_used_again(void **state)
{
    struct okv_admission admission = admission_of(LIMIT, 1);
    uint32_t places[LIMIT];
    char address[16];

    (void)state;
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(address, sizeof address, "%u", i);
        if (i >= LIMIT)
            okv_admission_give_back(&admission, places[i % LIMIT]);
        places[i % LIMIT] = take(&admission, address);
        expect_refusal(&admission, address, i + 1 >= LIMIT ? OKV_REJECT_BUSY : OKV_REJECT_ADDRESS);
    }
    okv_admission_fini(&admission);
}

/* Who comes back has no place less than before, and no more. */
static void one_that_is_replaced_does_not_count(void **state)
{
    struct okv_admission admission = admission_of(LIMIT, PER_ADDRESS);
    uint32_t places[LIMIT], place;
    char address[16];

    (void)state;
    for (int i = 0; i < LIMIT; i++) {
        snprintf(address, sizeof address, "%d", i / PER_ADDRESS);
        places[i] = take(&admission, address);
    }
    for (int round = 0; round < 5; round++) {
        assert_int_equal(okv_admission_take(&admission, "0", &places[0], &place), 0);
        assert_int_equal(place, places[0]);
        expect_refusal(&admission, "new", OKV_REJECT_BUSY);
        okv_admission_give_back(&admission, places[0]);
        expect_refusal(&admission, "new", OKV_REJECT_BUSY);
    }
    /* From another address: that one's limit counts. */
    assert_int_equal(okv_admission_take(&admission, "1", &places[0], &place), OKV_REJECT_ADDRESS);
    assert_int_equal(okv_admission_take(&admission, "new", &places[0], &place), 0);
    okv_admission_give_back(&admission, places[0]);
    expect_refusal(&admission, "0", OKV_REJECT_BUSY);
    okv_admission_fini(&admission);
    /* It is gone already, as one that ends by itself may be. */
    admission = admission_of(1, 1);
    places[0] = take(&admission, "a");
    okv_admission_give_back(&admission, places[0]);
    assert_int_equal(okv_admission_take(&admission, "a", &places[0], &place), 0);
    expect_refusal(&admission, "a", OKV_REJECT_BUSY);
    okv_admission_fini(&admission);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_addresses_share_the_limit),
        cmocka_unit_test(an_address_has_its_own_limit),
        cmocka_unit_test(an_unknown_address_is_one),
        cmocka_unit_test(places_are_used_again),
        cmocka_unit_test(one_that_is_replaced_does_not_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
