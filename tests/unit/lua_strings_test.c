/* The library `string` of scripts: what it does, and that its work is counted. */
#include <inttypes.h>

#include "tests/support/lua_run.h"
#include "tests/support/test.h"

/* What a script may still do when it is looked at again. */
#define STEP 1000000u

/* The script ends within its work. */
static struct lua_result attack(const char *text)
{
    const struct okv_lua_limits limits = {.work = 20000000, .memory = 64 << 20};
    struct lua_result result = lua_run_within(text, &limits);

    if (result.work > limits.work + STEP)
        print_error("%s: %" PRIu64 " units, %s\n", text, result.work, result.text);
    assert_true(result.work <= limits.work + STEP);
    return result;
}

static void assert_over(const char *text)
{
    struct lua_result result = attack(text);

    if (result.end != OKV_LUA_OVER_WORK)
        print_error("%s: %s\n", text, result.text);
    assert_int_equal(result.end, OKV_LUA_OVER_WORK);
}

/* Results of a call, or its error, separated by spaces. */
#define CALL(call)                                                          \
    "local t = {pcall(function() return " call " end)} table.remove(t, 1) " \
    "for i = 1, 9 do t[i] = tostring(t[i]) end return (table.concat(t, ' '):gsub(' nil.*', ''))"

#define assert_call(call, expected) assert_lua(CALL(call), expected)

/* The message of an error, without the place. */
#define assert_refused(call, expected)                                               \
    assert_lua("local ok, e = pcall(function() return " call " end) "                \
               "return tostring(ok) .. ' ' .. tostring(e):gsub('^[^ ]*:%d+: ', '')", \
               "false " expected)

/* ---- what the functions do ---- */

TEST(find_finds_texts_and_patterns)
{
    assert_call("('hello'):find('l')", "3 3");
    assert_call("('hello'):find('xyz')", "nil");
    assert_call("('hello'):find('')", "1 0");
    assert_call("('hello'):find('', 10)", "6 5");
    assert_call("('a.b'):find('.', 1, true)", "2 2");
    assert_call("('a.b'):find('.', -1)", "3 3");
    assert_call("('hello'):find('(l+)(.)')", "3 5 ll o");
    assert_call("('hello'):find('^h()')", "1 1 2");
    assert_call("('a\\0b'):find('\\0b')", "2 3");
    assert_call("('aaab'):find('aab')", "2 4");
    assert_call("('abc'):find('b', 0/0)", "2 2");
    assert_call("('abc'):find('b', -1e300)", "2 2");
    assert_call("('abc'):find('b', 1e300)", "nil");
    assert_call("('abc'):find('c', '3')", "3 3");
}

TEST(match_returns_captures)
{
    assert_call("('key=value'):match('^(%w+)=(%w*)$')", "key value");
    assert_call("('  x '):match('^%s*(.-)%s*$')", "x");
    assert_call("('f(a(b)c)d'):match('%b()')", "(a(b)c)");
    assert_call("('THE (quick) fox'):match('%f[%a]%a+', 5)", "quick");
    assert_call("('\"it\" x'):match('([\"\\'])(.-)%1')", "\" it");
    assert_call("('a]b-c'):match('[]-]+')", "]");
    assert_call("('x^'):match('[x^]+')", "x^");
    assert_call("('a-z'):match('[a%-z]+')", "a-z");
    assert_call("('a1'):match('%a%d?%d?')", "a1");
    assert_call("#('a\\0b'):match('%z')", "1");
    assert_call("('abc'):match('()b()')", "2 3");
    assert_call("('ab'):match('a$')", "nil");
    assert_call("('a$'):match('a$$')", "a$");
}

TEST(gmatch_goes_on_behind_each_match)
{
    assert_lua("local t = {} for k, v in ('a=1, b=2'):gmatch('(%w+)=(%w+)') do "
               "t[#t + 1] = k .. v end return table.concat(t, ' ')",
               "a1 b2");
    assert_lua("local n = 0 for _ in ('abc'):gmatch('') do n = n + 1 end return n", "4");
    assert_lua("local n = 0 for _ in ('abc'):gmatch('^a') do n = n + 1 end return n", "0");
    assert_lua("return string.gfind('xay', 'a')()", "a");
}

TEST(gsub_replaces)
{
    assert_call("('hello world'):gsub('o', '0')", "hell0 w0rld 2");
    assert_call("('hello world'):gsub('o', '0', 1)", "hell0 world 1");
    assert_call("('hello'):gsub('o', '0', -1)", "hello 0");
    assert_call("('abc'):gsub('%w', '%0%0')", "aabbcc 3");
    assert_call("('abc'):gsub('(a)(b)', '%2%1')", "bac 1");
    assert_call("('abc'):gsub('', '-')", "-a-b-c- 4");
    assert_call("('abc'):gsub('^', '-')", "-abc 1");
    assert_call("('$x $y'):gsub('%$(%w+)', {x = 1})", "1 $y 2");
    assert_call("('abc'):gsub('%w', function(c) return c == 'b' and 'B' end)", "aBc 3");
    assert_call("('abc'):gsub('b', '%%')", "a%c 1");
    assert_call("('abc'):gsub('b', 7)", "a7c 1");
    assert_call("#(('abc'):gsub('b', '%'))", "3");
    assert_lua("local s = ('abcdefgh'):rep(1000) return #s:gsub('h', ('x'):rep(9))", "16000");
    assert_lua("local s = 'x' return s:gsub('x', function() return ('ab'):gsub('b', 'c') end)",
               "ac");
}

TEST(rep_repeats)
{
    assert_call("('ab'):rep(3)", "ababab");
    assert_call("#('ab'):rep(0)", "0");
    assert_call("#('ab'):rep(-1e300)", "0");
    assert_call("#('ab'):rep(0/0)", "0");
    assert_call("#(''):rep(1e300)", "0");
    assert_lua("local s = ('abcdefg'):rep(100000) return #s .. s:sub(-9) .. s:sub(350000, 350008)",
               "700000fgabcdefggabcdefga");
}

TEST(the_rest_of_the_library_does_what_it_did)
{
    assert_call("('abc'):byte(1, -1)", "97 98 99");
    assert_call("select('#', ('abc'):byte(10))", "0");
    assert_call("string.char(72, 105)", "Hi");
    assert_call("('Hello'):upper() .. ('Hello'):lower() .. ('Hello'):reverse()", "HELLOhelloolleH");
    assert_call("('hello'):sub(2, -2)", "ell");
    assert_call("('hello'):sub(-1e300, 1e300)", "hello");
    assert_call("('hello'):len()", "5");
    assert_lua("local s = ('Ab'):rep(50000) return #s .. s:lower():sub(65535, 65538) .. "
               "s:reverse():sub(65535, 65538)",
               "100000ababbAbA");
    assert_call("string.dump", "nil");
}

TEST(format_formats)
{
    assert_call("string.format('%d %5.2f|%-5s|%05d', 3, 2.5, 'ab', 42)", "3  2.50|ab   |00042");
    assert_call("string.format('%x %X %o %u %c %e %g %i', 255, 255, 8, 7, 65, 1, 0.5, 9)",
                "ff FF 10 7 A 1.000000e+00 0.5 9");
    assert_call("string.format('%q', 'a\"b\\\\c')", "\"a\\\"b\\\\c\"");
    assert_call("string.format('%s %%', 'x')", "x %");
    assert_call("string.format('%.3s', 'abcdef')", "abc");
    assert_call("#string.format('%s', ('x'):rep(1000))", "1000");
    assert_call("#string.format('%99.99f', -1e308)", "410");
    assert_call("string.format('%d', -2^63)", "-9223372036854775808");
    assert_call("string.format('%x', 2^63)", "8000000000000000");
    assert_refused("string.format('%d', 'x')",
                   "bad argument #2 to 'format' (number expected, got string)");
    assert_refused("string.format('%d')", "bad argument #2 to 'format' (no value)");
    assert_refused("string.format('%y', 1)", "invalid option '%y' to 'format'");
    assert_refused("string.format('%', 1)", "invalid option '%' to 'format'");
    assert_refused("string.format('%123d', 1)", "invalid format (width or precision too long)");
    assert_refused("string.format('%.123d', 1)", "invalid format (width or precision too long)");
    assert_refused("string.format('%------d', 1)", "invalid format (repeated flags)");
    assert_call("string.format('%d %x %c', 0/0, 1e300, 1e300)", "-9223372036854775808 0 ");
}

TEST(malformed_calls_are_refused)
{
    assert_refused("('a'):find('%')", "malformed pattern (ends with '%')");
    assert_refused("('a'):find('[a')", "malformed pattern (missing ']')");
    assert_refused("('a'):find('[]')", "malformed pattern (missing ']')");
    assert_refused("('a'):find('[%')", "malformed pattern (missing ']')");
    assert_refused("('a'):find('%f')", "missing '[' after '%f' in pattern");
    assert_refused("('a'):find('%b')", "unbalanced pattern");
    assert_refused("('a'):find('%ba')", "unbalanced pattern");
    assert_refused("('a'):match('a)')", "invalid pattern capture");
    assert_refused("('a'):find('(a')", "unfinished capture");
    assert_refused("('a'):find('(a%1)')", "invalid capture index");
    assert_refused("('a'):find('%1')", "invalid capture index");
    assert_refused("('a'):find(('()'):rep(33))", "too many captures");
    assert_refused("('a'):gsub('a', '%2')", "invalid capture index");
    assert_refused("('a'):gsub('a', function() return {} end)",
                   "invalid replacement value (a table)");
    assert_refused("('a'):gsub('a')", "bad argument #2 to 'gsub' (string/function/table expected)");
    assert_refused("string.find()", "bad argument #1 to 'find' (string expected, got no value)");
    assert_refused("string.rep('x')", "bad argument #2 to 'rep' (number expected, got no value)");
    assert_refused("string.rep('x', 1e300)", "resulting string too large");
    assert_refused("string.rep('xxxx', 2^62)", "resulting string too large");
    assert_refused("string.char(256)", "bad argument #1 to 'char' (invalid value)");
    assert_refused("string.char(0/0)", "bad argument #1 to 'char' (invalid value)");
    assert_refused("string.byte(('x'):rep(10000), 1, -1)", "string slice too long");
}

/* ---- attacks ---- */

TEST(deep_patterns_are_refused)
{
    assert_refused("('a'):rep(1e5):find(('a?'):rep(1e5))", "pattern too complex");
    assert_refused("('a'):find(('a*'):rep(1e5))", "pattern too complex");
    assert_refused("('a'):find(('a-'):rep(1e5) .. 'b')", "pattern too complex");
    assert_lua("return #('a'):rep(300):match(('a?'):rep(300))", "300");
    assert_lua("return #('a'):rep(1e5):match(('a'):rep(1e5))", "100000");
}

TEST(backtracking_is_counted)
{
    assert_over("return ('a'):rep(100):find(('a*'):rep(100) .. 'b')");
    assert_over("return ('a'):rep(100):match(('a-'):rep(100) .. 'b')");
    assert_over("return ('a'):rep(30):match(('a?'):rep(30) .. ('a'):rep(30) .. 'b')");
    assert_over("return ('a'):rep(1000):gsub(('(a*)'):rep(30) .. 'b', '')");
    assert_over("for _ in ('a'):rep(1000):gmatch(('.*'):rep(20) .. 'b') do end");
    assert_over("return ('a'):rep(1e5):find('.-b')");
    assert_over("return ('('):rep(1e5):find('%b()')");
    assert_over("return ('a'):rep(1e5):find('(a*)%1b')");
    assert_over("return ('a'):rep(1e5):find('a*%f[b]')");
}

TEST(long_sets_are_counted)
{
    assert_over("local s = '[' .. ('b'):rep(1e5) .. ']' return ('a'):rep(1e5):find(s)");
    assert_over("local s = '[^' .. ('b-c'):rep(1e5) .. ']+' return ('a'):rep(1e5):find(s)");
    assert_over("local s = '%f[' .. ('b'):rep(1e5) .. ']' return ('a'):rep(1e5):find(s)");
    assert_over("local s = 'a[' .. ('b'):rep(1e6) while true do pcall(string.find, 'a', s) end");
}

TEST(searches_without_a_pattern_are_counted)
{
    assert_over("local s, t = ('a'):rep(1e6), ('a'):rep(1e5) .. 'b' return s:find(t, 1, true)");
    assert_over("local s, t = ('a'):rep(1e6), ('a'):rep(1e5) .. 'b' return s:find(t)");
    assert_over("local s, t = ('ab'):rep(5e5), 'b' .. ('ab'):rep(1e5) .. 'c' return s:find(t)");
    assert_over("local s = ('a'):rep(1e6) while true do s:find('b', 1, true) end");
    assert_over("local s = ('a'):rep(1e6) while true do ('b'):find(s) end");
}

/* A byte is paid for before it is there. */
TEST(results_are_paid_for_first)
{
    assert_over("return ('x'):rep(1e9)");
    assert_over("return ('x'):rep(1e15)");
    assert_over("while true do pcall(string.rep, 'x', 1e15) end");
    assert_over("local s = ('x'):rep(1e6) return s:gsub('x', s)");
    assert_over("local s = ('x'):rep(1e4) return s:gsub('', function() return s end)");
    assert_over("local s = ('x'):rep(1e4) return s:gsub('', {[''] = s})");
    assert_over("return ('x'):rep(1e4):gsub('.*', ('%0'):rep(1e5))");
    assert_over("return ('x'):rep(1e4):gsub('(.*)', ('%1'):rep(1e5))");
    assert_over("local s, t = ('x'):rep(1e5), {} for i = 1, 1000 do t[i] = s end "
                "return string.format(('%s'):rep(1000), unpack(t))");
}

TEST(long_results_that_exist_are_counted)
{
    assert_over("local s = ('x'):rep(1e6) while true do s:lower() end");
    assert_over("local s = ('X'):rep(1e6) while true do s:upper() end");
    assert_over("local s = ('x'):rep(1e6) while true do s:reverse() end");
    assert_over("local s = ('x'):rep(1e6) while true do s:sub(1) end");
    assert_over("local s = ('x'):rep(1e6) while true do s:rep(1) end");
    assert_over("local s = ('x'):rep(1e6) while true do s:match('.*') end");
    assert_over("local s = ('x'):rep(1e6) while true do s:gsub('^y', '') end");
    assert_over("local s = ('x'):rep(1e6) while true do string.format('%s', s) end");
    assert_over("local s = ('x'):rep(1e6) while true do string.format(s) end");
    assert_over("local s = ('\"'):rep(1e6) while true do string.format('%q', s) end");
}

TEST(each_byte_is_counted)
{
#define SHORT "local s = ('a'):rep(1000)"
#define LONG "local s = ('a'):rep(1e5)"
    static const struct lua_counted counted[] = {
        {SHORT, "s:find('b$')", 17000},
        {SHORT, "s:find('.-b')", 500 * 19000},
        {SHORT, "s:find('a*b')", 500 * 19000},
        {SHORT " local p = '[' .. ('b'):rep(1000) .. ']'", "s:find(p)", 3000 * 1000},
        {SHORT, "s:find('(a*)%1b')", 59000000},
        {"local s = ('('):rep(1000)", "s:find('%b()')", 500 * 1000},
        {SHORT " local p = ('a'):rep(300) .. 'b'", "s:find(p)", 700 * 310},
        {LONG, "s:find('b')", 100000},
        {LONG, "string.find('b', s)", 100000},
        {LONG, "s:match('a*')", 3 * 100000},
        {LONG, "s:gsub('^', '')", 2 * 100000},
        {LONG, "s:lower()", 3 * 100000},
        {LONG, "s:upper()", 4 * 100000},
        {LONG, "s:reverse()", 3 * 100000},
        {LONG, "s:sub(1)", 100000},
        {LONG, "s:rep(1)", 2 * 100000},
        {LONG, "string.format('%s', s)", 2 * 100000},
        {LONG, "string.format(s)", 2 * 100000},
        {"local s = ('%%'):rep(1e5)", "string.format(s)", 11 * 100000},
        {"local s = ('\"'):rep(1e5)", "string.format('%q', s)", 6 * 100000},
        {"local s = ('x'):rep(7000) s:byte(1, -1)", "s:byte(1, -1)", 2 * 7000},
        {"local s = ('x'):rep(7000) string.char(s:byte(1, -1))", "string.char(s:byte(1, -1))",
         (2 + 10) * 7000},
        {"", "string.format('%f', 1e308)", 10000},
        {"", "string.format('%g', 1e308)", 2000},
        {SHORT, "s:gsub('a', 'b')", 66000},
        {"local s = ('1'):rep(1000)", "s:gsub('1', math.randomseed)", 125000},
    };

    lua_assert_all_counted(counted, sizeof counted / sizeof *counted);
}

/* A number may be a long text. */
TEST(texts_of_numbers_are_counted)
{
    assert_over("local s = (' '):rep(1e6) .. '1' while true do pcall(string.rep, 'x', s) "
                "pcall(string.sub, 'x', s) pcall(string.find, 'x', 'x', s) "
                "pcall(string.format, '%d', s) pcall(string.char, s) end");
}

TEST(errors_do_not_hide_work)
{
    assert_over("local s, p = ('a'):rep(1e4), 'a*' .. ('a?'):rep(50) .. '%' "
                "while true do pcall(string.find, s, p) end");
    assert_over("while true do pcall(string.gsub, 'a', 'a', function() error('x') end) end");
}
