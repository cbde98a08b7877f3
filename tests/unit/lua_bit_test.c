/* The library "bit", and what it says about wrong arguments. */
#include "tests/support/lua_run.h"
#include "tests/support/test.h"

TEST(numbers_become_32_bits)
{
    assert_lua("return bit.tobit(0xffffffff)", "-1");
    assert_lua("return bit.tobit(0xffffffff + 1)", "0");
    assert_lua("return bit.tobit(2^40 + 1234)", "1234");
    assert_lua("return bit.tobit(-2^31)", "-2147483648");
    assert_lua("return bit.tobit(2^31)", "-2147483648");
    assert_lua("return bit.tobit('0x1f')", "31");
}

TEST(fractions_are_rounded_to_even)
{
    assert_lua("return bit.tobit(1.5)", "2");
    assert_lua("return bit.tobit(2.5)", "2");
    assert_lua("return bit.tobit(-0.5)", "0");
    assert_lua("return bit.tobit(-1.5)", "-2");
}

TEST(numbers_that_are_none_are_zero)
{
    assert_lua("return bit.tobit(1/0)", "0");
    assert_lua("return bit.tobit(-1/0)", "0");
    assert_lua("return bit.tobit(0/0)", "0");
}

TEST(logic)
{
    assert_lua("return bit.bnot(0)", "-1");
    assert_lua("return bit.bnot(0x12345678)", "-305419897");
    assert_lua("return bit.band(0x12345678, 0xff)", "120");
    assert_lua("return bit.band(1)", "1");
    assert_lua("return bit.bor(1, 2, 4, 8)", "15");
    assert_lua("return bit.bxor(0xa5a5f0f0, 0xaa55ff00)", "267390960");
}

TEST(shifts_take_five_bits)
{
    assert_lua("return bit.lshift(1, 31)", "-2147483648");
    assert_lua("return bit.lshift(1, 32)", "1");
    assert_lua("return bit.lshift(0x87654321, 12)", "1412567040");
    assert_lua("return bit.rshift(-1, 28)", "15");
    assert_lua("return bit.arshift(-256, 8)", "-1");
    assert_lua("return bit.arshift(-256, -24)", "-1");
    assert_lua("return bit.rol(0x12345678, 12)", "1164411171");
    assert_lua("return bit.ror(0x12345678, 12)", "1736516421");
    assert_lua("return bit.rol(5, 0) + bit.ror(7, 32)", "12");
}

TEST(bytes_are_swapped)
{
    assert_lua("return bit.tohex(bit.bswap(0x12345678))", "78563412");
}

TEST(hexadecimal_digits)
{
    assert_lua("return bit.tohex(1)", "00000001");
    assert_lua("return bit.tohex(-1)", "ffffffff");
    assert_lua("return bit.tohex(0xabcd, 4)", "abcd");
    assert_lua("return bit.tohex(0xabcd, -4)", "ABCD");
    assert_lua("return bit.tohex(0xabcd, 2)", "cd");
    assert_lua("return bit.tohex(1, 0)", "");
    assert_lua("return bit.tohex(1, 100)", "00000001");
}

/* CVE-2024-31449: the negative of the least count is the same, and a length then. */
TEST(the_least_count_of_digits_is_eight)
{
    assert_lua("return bit.tohex(0xabcdef, -2147483648)", "00ABCDEF");
    assert_lua("return bit.tohex(0xabcdef, 2147483648)", "00ABCDEF");
    assert_lua("return bit.tohex(0xabcdef, -2147483647)", "00ABCDEF");
}

TEST(what_is_no_number_is_refused)
{
    assert_lua("return bit.tobit()",
               "error: test:1: bad argument #1 to 'tobit' (number expected, got no value)");
    assert_lua("return bit.band(1, {})",
               "error: test:1: bad argument #2 to 'band' (number expected, got table)");
    assert_lua("return bit.tohex(1, nil)",
               "error: test:1: bad argument #2 to 'tohex' (number expected, got nil)");
    assert_lua("return bit.lshift(1)",
               "error: test:1: bad argument #2 to 'lshift' (number expected, got no value)");
}

/* ---- limits ---- */

static void assert_over_work(const char *text)
{
    const struct okv_lua_limits limits = {.work = 20000000, .memory = 32 << 20};
    struct lua_result result = lua_run_within(text, &limits);

    if (result.end != OKV_LUA_OVER_WORK)
        print_error("%s: %s\n", text, result.text);
    assert_int_equal(result.end, OKV_LUA_OVER_WORK);
    assert_true(result.work <= limits.work + 1000000);
}

TEST(long_texts_are_no_numbers)
{
    assert_lua("return bit.tobit(('0'):rep(4095) .. 7)", "7");
    assert_lua("return bit.tobit(('0'):rep(4096) .. 7)",
               "error: test:1: bad argument #1 to 'tobit' (number expected, got string)");
}

TEST(many_arguments_are_counted)
{
    assert_over_work("local t = {} for i = 1, 7000 do t[i] = ('1'):rep(4000) end "
                     "while true do bit.band(unpack(t)) end");
    assert_over_work("local t = {} for i = 1, 7000 do t[i] = i end "
                     "bit.bor(unpack(t)) while true do bit.bxor(unpack(t)) end");
}
