/* The library `table` of scripts: what it does, and that its work is counted. */
#include <inttypes.h>

#include "tests/support/lua_run.h"
#include "tests/support/test.h"

/* What a script may still do when it is looked at again. */
#define STEP 1000000u

/* The script is ended, within its work. */
static void assert_over(const char *text)
{
    const struct okv_lua_limits limits = {.work = 20000000, .memory = 64 << 20};
    struct lua_result result = lua_run_within(text, &limits);

    if (result.end != OKV_LUA_OVER_WORK || result.work > limits.work + STEP)
        print_error("%s: %" PRIu64 " units, %s\n", text, result.work, result.text);
    assert_int_equal(result.end, OKV_LUA_OVER_WORK);
    assert_true(result.work <= limits.work + STEP);
}

/* Of t = {10, 20, 30} after a call. */
#define assert_after(call, expected) \
    assert_lua("local t = {10, 20, 30} " call " return table.concat(t, ' ')", expected)

/* The message of an error, without the place. */
#define assert_refused(call, expected)                                                     \
    assert_lua("local t = {10, 20, 30} local ok, e = pcall(function() return " call        \
               " end) return tostring(ok) .. ' ' .. tostring(e):gsub('^[^ ]*:%d+: ', '')", \
               "false " expected)

/* ---- what the functions do ---- */

TEST(insert_moves_what_is_behind)
{
    assert_after("table.insert(t, 40)", "10 20 30 40");
    assert_after("table.insert(t, 1, 5)", "5 10 20 30");
    assert_after("table.insert(t, 4, 40)", "10 20 30 40");
    assert_after("table.insert(t, 2.9, 15)", "10 15 20 30");
    assert_after("table.insert(t, 6, 60)", "10 20 30");
    assert_lua("local t = {1} table.insert(t, 6, 60) return t[6]", "60");
    assert_lua("local t = {1} table.insert(t, 0, 60) return t[0] .. tostring(t[1]) .. t[2]",
               "60nil1");
    assert_lua("local t = {1} table.insert(t, nil) return #t", "1");
}

TEST(remove_closes_the_gap)
{
    assert_after("table.remove(t)", "10 20");
    assert_after("table.remove(t, 1)", "20 30");
    assert_after("table.remove(t, 4)", "10 20 30");
    assert_after("table.remove(t, 0)", "10 20 30");
    assert_after("table.remove(t, -1e300)", "10 20 30");
    assert_after("table.remove(t, 1e300)", "10 20 30");
    assert_after("table.remove(t, 0/0)", "10 20 30");
    assert_lua("return table.remove({1, 2})", "2");
    assert_lua("return select('#', table.remove({}))", "0");
}

TEST(concat_joins)
{
    assert_lua("return table.concat({1, 'a', 2.5}, ', ')", "1, a, 2.5");
    assert_lua("return table.concat({1, 2, 3}, '-', 2)", "2-3");
    assert_lua("return table.concat({1, 2, 3}, '-', 2, 2)", "2");
    assert_lua("return '<' .. table.concat({1, 2, 3}, '-', 3, 2) .. '>'", "<>");
    assert_lua("return '<' .. table.concat({}, '-') .. '>'", "<>");
    assert_lua("return table.concat({[-2] = 'x', [-1] = 'y'}, '', -2, -1)", "xy");
    assert_lua("return '<' .. table.concat({1}, '', 1e300) .. '>'", "<>");
    assert_lua("return table.concat({[2147483647] = 'x'}, '', 2147483647, 2147483647)", "x");
    assert_lua("local t = {} for i = 1, 20000 do t[i] = i end "
               "local s = table.concat(t, ',') return #s .. s:sub(-11)",
               "10889319999,20000");
}

TEST(the_rest_of_the_library_does_what_it_did)
{
    assert_lua("return table.maxn({1, 2, [10.5] = 3, x = 4})", "10.5");
    assert_lua("return table.maxn({})", "0");
    assert_lua("return table.getn({1, 2})", "2");
    assert_lua("local n = 0 table.foreach({1, x = 2}, function(k, v) n = n + v end) return n", "3");
    assert_lua("return table.foreachi({5, 6, 7}, function(i, v) if v == 6 then return i end end)",
               "2");
}

TEST(malformed_calls_are_refused)
{
    assert_refused("table.insert(t)", "wrong number of arguments to 'insert'");
    assert_refused("table.insert(t, 1, 2, 3)", "wrong number of arguments to 'insert'");
    assert_refused("table.insert(nil, 1)", "bad argument #1 to 'insert' (table expected, got nil)");
    assert_refused("table.insert(t, 'x', 1)",
                   "bad argument #2 to 'insert' (number expected, got string)");
    assert_refused("table.insert(t, 1e300, 1)",
                   "bad argument #2 to 'insert' (position out of range)");
    assert_refused("table.insert(t, -1e300, 1)",
                   "bad argument #2 to 'insert' (position out of range)");
    assert_refused("table.insert(t, 0/0, 1)",
                   "bad argument #2 to 'insert' (position out of range)");
    assert_refused("table.concat({1, {}, 3})",
                   "invalid value (table) at index 2 in table for 'concat'");
    assert_refused("table.concat({}, '', 1, 3)",
                   "invalid value (nil) at index 1 in table for 'concat'");
    assert_refused("table.concat(t, '', 1, 1e300)",
                   "invalid value (nil) at index 4 in table for 'concat'");
    assert_refused("table.concat(t, '', -1e300)",
                   "invalid value (nil) at index -2147483648 in table for 'concat'");
    assert_refused("table.sort(t, 1)", "bad argument #2 to 'sort' (function expected, got number)");
    assert_refused("table.sort({1, 'x'})", "attempt to compare string with number");
    assert_refused("table.sort({{}, {}})", "attempt to compare two table values");
    assert_refused("table.setn(t, 1)", "'setn' is obsolete");
    assert_refused("table.foreach(t)",
                   "bad argument #2 to 'foreach' (function expected, got no value)");
}

TEST(tables_of_the_machine_stay_as_they_are)
{
    assert_refused("table.insert(string, 1)", "Attempt to modify a readonly table");
    assert_refused("table.insert(string, 1, 1)", "Attempt to modify a readonly table");
    assert_refused("table.remove(string)", "Attempt to modify a readonly table");
    assert_refused("table.sort(table)", "Attempt to modify a readonly table");
    assert_refused("table.insert(getmetatable(''), 1)", "Attempt to modify a readonly table");
}

/* ---- sort ---- */

TEST(sort_sorts)
{
    assert_lua("local t = {3, 1, 2} table.sort(t) return table.concat(t, ' ')", "1 2 3");
    assert_lua("local t = {3, 1, 2} table.sort(t, function(a, b) return a > b end) "
               "return table.concat(t, ' ')",
               "3 2 1");
    assert_lua("local t = {'b', 'a\\0c', 'a', 'a\\0b', '', 'B', '\\255'} table.sort(t) "
               "for i = 1, #t do t[i] = #t[i] .. t[i]:gsub('%z', '0') end "
               "return table.concat(t, ' '):gsub('\\255', 'z')",
               "0 1B 1a 3a0b 3a0c 1b 1z");
    assert_lua("local m = {__lt = function(a, b) return a[1] < b[1] end} local t = {} "
               "for i = 1, 9 do t[i] = setmetatable({i * 4 % 9}, m) end table.sort(t) "
               "local s = '' for i = 1, 9 do s = s .. t[i][1] end return s",
               "012345678");
    assert_lua("local t = {} for i = 1, 10000 do t[i] = i * 7919 % 10007 end table.sort(t) "
               "for i = 2, #t do assert(t[i - 1] < t[i]) end return #t",
               "10000");
    assert_lua("local t = {} for i = 1, 1000 do t[i] = i % 3 .. ('x'):rep(100) end table.sort(t) "
               "for i = 2, #t do assert(t[i - 1] <= t[i]) end return t[1]:sub(1, 2) .. #t",
               "0x1000");
}

/* Functions that contradict themselves see elements of the table only, and come to an end. */
TEST(sort_stays_within_the_table)
{
    static const char *const functions[] = {
        "function(a, b) see(a, b) return true end",
        "function(a, b) see(a, b) return false end",
        "function(a, b) see(a, b) return a <= b end",
        "function(a, b) see(a, b) return a >= b end",
        "function(a, b) see(a, b) n = n + 1 return n % 2 == 0 end",
        "function(a, b) see(a, b) n = n * 69069 % 65537 return n % 3 == 0 end",
    };
    char text[1024];

    for (unsigned i = 0; i < sizeof functions / sizeof *functions; i++) {
        snprintf(text, sizeof text,
                 "local n = 1 local function see(a, b) assert(a and b, 'nothing') end "
                 "for size = 1, 60 do for kind = 1, 3 do local t = {} "
                 "for i = 1, size do t[i] = kind == 1 and 1 or kind == 2 and i or i * 7 %% 5 end "
                 "local ok, e = pcall(table.sort, t, %s) "
                 "assert(ok or e:find('invalid order function for sorting', 1, true), e) "
                 "assert(#t == size and not t[0] and not t[size + 1]) "
                 "for i = 1, size do assert(t[i]) end "
                 "end end return 'done'",
                 functions[i]);
        assert_lua(text, "done");
    }
    assert_refused("table.sort({1, 1, 1, 1, 1}, function() return true end)",
                   "invalid order function for sorting");
}

TEST(sort_bears_a_table_that_changes)
{
    assert_lua(
        "local t = {} for i = 1, 100 do t[i] = i * 37 % 101 end "
        "pcall(table.sort, t, function(a, b) for i = 1, 100 do t[i] = nil end return true end) "
        "return #t <= 100",
        "true");
    assert_lua("local t = {3, 2, 1, 5, 4} pcall(table.sort, t, function(a, b) error('x') end) "
               "return #t",
               "5");
    assert_lua("local t = {} for i = 1, 50 do t[i] = 50 - i end "
               "table.sort(t, function(a, b) local u = {2, 3, 1} table.sort(u) return a < b end) "
               "return t[1] .. ' ' .. t[50]",
               "0 49");
}

/* ---- attacks ---- */

/* A length of 671,088,640 with 31 elements. */
#define SPARSE "local t = {[1] = 1, [2] = 1, [4] = 1} for i = 0, 27 do t[5 * 2 ^ i] = 1 end "

TEST(moves_are_counted)
{
    assert_lua(SPARSE "return #t", "671088640");
    assert_over("local t = {} for i = 1, 1e5 do t[i] = i end "
                "while true do table.insert(t, 1, 0) table.remove(t, 1) end");
    assert_over("table.insert({}, -2147483647, 1)");
    assert_over("table.insert({1, 2, 3}, -1e9, 1)");
    assert_over(SPARSE "table.insert(t, 1, 0)");
    assert_over(SPARSE "table.remove(t, 1)");
    assert_over("local t = {} for i = 1, 1e5 do t[i] = i end "
                "while true do pcall(table.insert, t, 1, 0) pcall(table.remove, t, 1) end");
}

TEST(concat_is_counted)
{
    assert_over("local t = {} for i = 1, 1e5 do t[i] = '' end while true do table.concat(t) end");
    assert_over("local t, s = {}, ('x'):rep(1e5) for i = 1, 1e4 do t[i] = '' end "
                "return table.concat(t, s)");
    assert_over("local t, s = {}, ('x'):rep(1e5) for i = 1, 1e4 do t[i] = s end "
                "return table.concat(t)");
    assert_over("local t, s = {}, ('x'):rep(1e6) t[1] = s while true do table.concat(t) end");
    assert_over("local t = {} for i = 1, 1e5 do t[i] = 1 end while true do table.concat(t) end");
    assert_over("local t = {} for i = 1, 1e5 do t[i] = '' end t[1e5] = {} "
                "while true do pcall(table.concat, t, '', 1, 1e5) end");
}

TEST(comparisons_are_counted)
{
    assert_over("local t = {} for i = 1, 1e5 do t[i] = i end while true do table.sort(t) end");
    assert_over("local t = {} for i = 1, 1e5 do t[i] = 1 end while true do table.sort(t) end");
    assert_over("local t, s = {}, ('x'):rep(1e5) for i = 1, 50 do t[i] = s .. i end "
                "while true do table.sort(t) end");
    assert_over("local t = {} for i = 1, 1e5 do t[i] = i end "
                "while true do pcall(table.sort, t, rawequal) end");
    assert_over("local t = {} for i = 1, 1e5 do t[i] = i end "
                "while true do pcall(table.sort, t, function(a, b) return a < b end) end");
    assert_over(SPARSE "table.sort(t, function() return false end)");
}

/* Orders that make the parts of Quicksort as unequal as can be: of n elements, n / 2 levels. */
TEST(the_worst_order_takes_no_stack)
{
    assert_over("local n, t, v, made, pivot = 20000, {}, {}, 0, 1 "
                "for i = 1, n do t[i] = i v[i] = n + 1 end "
                "table.sort(t, function(a, b) "
                "if v[a] > n and v[b] > n then made = made + 1 v[a == pivot and a or b] = made end "
                "if v[a] > n then pivot = a elseif v[b] > n then pivot = b end "
                "return v[a] < v[b] end)");
}

TEST(walks_are_counted)
{
    assert_over("local t = {} for i = 1, 1e5 do t[i] = i end while true do table.maxn(t) end");
    assert_over("local t = {} for i = 1, 1e5 do t[i] = i end "
                "while true do table.foreachi(t, math.randomseed) end");
    assert_over("local t = {} for i = 1, 1e5 do t[i] = i end "
                "while true do table.foreach(t, math.randomseed) end");
    assert_over(SPARSE "table.foreachi(t, math.randomseed)");
}

TEST(each_element_is_counted)
{
#define NUMBERS "local t = {} for i = 1, 1000 do t[i] = i end"
#define TEXTS "local t = {} for i = 1, 1000 do t[i] = '' end"
    static const struct lua_counted counted[] = {
        {NUMBERS, "table.insert(t, 1, 1)", 20 * 1000},
        {NUMBERS, "table.remove(t, 1)", 20 * 999},
        {NUMBERS, "table.maxn(t)", 30 * 1000},
        {NUMBERS, "for k in pairs(t) do end", 15 * 1000},
        {NUMBERS " setmetatable(t, {__concat = next})",
         "for i = 1, 1000 do local x = t .. t .. 1000 end", 65 * 1000},
        {NUMBERS, "table.foreach(t, math.randomseed)", 50 * 1000},
        {NUMBERS, "table.foreachi(t, math.randomseed)", 50 * 1000},
        {NUMBERS, "table.concat(t)", 330 * 1000},
        {TEXTS, "table.concat(t)", 30 * 1000},
        {NUMBERS, "table.sort(t)", 280 * 1000},
        {NUMBERS, "table.sort(t, rawequal)", 600 * 1000},
        {"local s = ('x'):rep(1e5) local t = {s .. 2, s .. 1}", "table.sort(t)", 100000},
    };

    lua_assert_all_counted(counted, sizeof counted / sizeof *counted);
}
