/* The library "struct": formats, and what bytes become. */
#include "tests/support/lua_run.h"
#include "tests/support/test.h"

#define HEX                                                                                        \
    "local function hex(s) return (s:gsub('%C', function(c) return ('%02x'):format(c:byte()) end)" \
    ":gsub('%c', function(c) return ('%02x'):format(c:byte()) end)) end "

#define assert_hex(expression, expected) assert_lua(HEX "return hex(" expression ")", expected)
/* All values of a list. */
#define assert_list(expression, expected)                                                    \
    assert_lua("local t = {" expression "} for i, v in ipairs(t) do t[i] = tostring(v) end " \
               "return table.concat(t, ' ')",                                                \
               expected)

/* ---- pack ---- */

TEST(integers_are_packed)
{
    assert_hex("struct.pack('bBhH', -1, 255, -2, 513)", "fffffeff0102");
    assert_hex("struct.pack('>hHiI', -2, 513, -3, 67305985)", "fffe0201fffffffd04030201");
    assert_hex("struct.pack('<lLT', -1, 1, 2)", "ffffffffffffffff01000000000000000200000000000000");
    assert_hex("struct.pack('>i3i5', 66051, -1)", "010203ffffffffff");
}

/* The original has no more than 8 bytes of a number. */
TEST(long_integers_end_in_zeros)
{
    assert_hex("struct.pack('<i10', -1)", "ffffffffffffffff0000");
    assert_hex("struct.pack('>i10', -1)", "0000ffffffffffffffff");
    assert_hex("struct.pack('<i0b', 7, 1)", "01");
}

TEST(numbers_out_of_range_have_some_bits)
{
    assert_hex("struct.pack('>ll', 1/0, 0/0)", "00000000000000008000000000000000");
    assert_hex("struct.pack('>ll', 1e300, -1e300)", "00000000000000008000000000000000");
    assert_hex("struct.pack('>LL', 2^63, 2^64)", "80000000000000000000000000000000");
    assert_hex("struct.pack('>bb', 300, -300)", "2cd4");
}

TEST(floats_are_packed)
{
    assert_hex("struct.pack('>fd', 1.5, -2)", "3fc00000c000000000000000");
    assert_hex("struct.pack('<fd', 1.5, -2)", "0000c03f00000000000000c0");
    assert_hex("struct.pack('>f', 1e300)", "7f800000");
    assert_hex("struct.pack('>d', '0x10')", "4030000000000000");
}

TEST(strings_are_packed)
{
    assert_hex("struct.pack('sc2c0x', 'a', 'bcd', 'ef')", "61006263656600");
    assert_hex("struct.pack('c', 'bcd')", "62");
    assert_lua("return struct.pack('c4', 'abc')",
               "error: test:1: bad argument #2 to 'pack' (string too short)");
}

TEST(values_are_aligned_when_asked)
{
    assert_hex("struct.pack('<bi', 1, 2)", "0102000000");
    assert_hex("struct.pack('<!bi', 1, 2)", "0100000002000000");
    assert_hex("struct.pack('<!2bi', 1, 2)", "010002000000");
    assert_hex("struct.pack('<!4bd', 1, 0)", "010000000000000000000000");
    assert_hex("struct.pack('<!1073741824bH', 1, 2)", "01000200");
    assert_hex("struct.pack('<!bc4', 1, 'abcd')", "0161626364");
}

TEST(missing_arguments_are_none)
{
    assert_lua("return struct.pack('b')",
               "error: test:1: bad argument #2 to 'pack' (number expected, got nil)");
    assert_lua("return struct.pack('sss', 'x')",
               "error: test:1: bad argument #3 to 'pack' (string expected, got nil)");
    assert_lua("return struct.pack(('c0'):rep(1000), ('x'):rep(1000))",
               "error: test:1: bad argument #3 to 'pack' (string expected, got nil)");
}

/* ---- unpack ---- */

TEST(integers_are_unpacked)
{
    assert_list("struct.unpack('bBhH', '\\255\\255\\254\\255\\1\\2')", "-1 255 -2 513 7");
    assert_list("struct.unpack('>hI3i3', '\\255\\254\\1\\2\\3\\255\\255\\255')", "-2 66051 -1 9");
    assert_list("struct.unpack('<i10', '\\255\\255\\255\\255\\255\\255\\255\\255\\0\\0')", "-1 11");
    assert_list("struct.unpack('>I9', '\\9\\0\\0\\0\\0\\0\\0\\1\\0')", "256 10");
    assert_list("struct.unpack('i0I0', '')", "0 0 1");
}

TEST(floats_are_unpacked)
{
    assert_list("struct.unpack('>fd', struct.pack('>fd', 1.5, -2))", "1.5 -2 13");
    assert_list("struct.unpack('<d', struct.pack('<d', 1/0))", "inf 9");
}

TEST(strings_are_unpacked)
{
    assert_list("struct.unpack('sxc2', 'ab\\0.cd')", "ab cd 7");
    assert_list("struct.unpack('Bc0B', '\\3abc\\7')", "abc 7 6");
    assert_list("struct.unpack('sc0', '2\\0abc')", "ab 5");
    assert_lua("return struct.unpack('s', ('x'):rep(9999) .. '\\0y') == ('x'):rep(9999)", "true");
    assert_lua("return struct.unpack('s', 'abc')", "error: test:1: unfinished string in data");
    assert_lua("return struct.unpack('c0', 'abc')",
               "error: test:1: format 'c0' needs a previous size");
}

#define TOO_SHORT "error: test:1: bad argument #2 to 'unpack' (data string too short)"

TEST(an_offset_is_followed)
{
    assert_list("struct.unpack('B', 'ab', 2)", "98 3");
    assert_list("struct.unpack('', 'ab', 3)", "3");
    assert_lua("return struct.unpack('B', 'ab', 3)", TOO_SHORT);
    assert_lua("return struct.unpack('B', 'ab', 0)",
               "error: test:1: bad argument #3 to 'unpack' (offset must be 1 or greater)");
}

/* CVE-2020-14147 and its like: sums that overflow pass a check. */
TEST(no_offset_and_no_size_read_beyond_the_data)
{
    static const char *const offsets[] = {
        "-1",    "-2^31",  "2^31", "2^32", "2^53", "-2^53",      "2^63",        "-2^63",
        "1e300", "-1e300", "1/0",  "-1/0", "0/0",  "2147483647", "-2147483648", "4294967294"};
    static const char *const formats[] = {"B", "i", "c0", "c2147483647", "s", "!8l", "d", "Bc0"};
    char text[256];

    for (unsigned i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        for (unsigned j = 0; j < sizeof formats / sizeof *formats; j++) {
            snprintf(text, sizeof text, "return struct.unpack('%s', 'abc', %s)", formats[j],
                     offsets[i]);
            assert_lua(text, TOO_SHORT);
        }
    }
}

TEST(no_size_in_the_data_reads_beyond_it)
{
    assert_lua("return struct.unpack('bc0', '\\255abc')", TOO_SHORT);
    assert_lua("return struct.unpack('>ic0', '\\127\\255\\255\\255abc')", TOO_SHORT);
    assert_lua("return struct.unpack('<lc0', ('\\255'):rep(8) .. 'abc')", TOO_SHORT);
    assert_lua("return struct.unpack('<dc0', struct.pack('<d', 1e300))", TOO_SHORT);
    assert_lua("return struct.unpack('<dc0', struct.pack('<d', 0/0))", TOO_SHORT);
    assert_lua("return struct.unpack('c2147483647', 'abc')", TOO_SHORT);
    assert_lua("return struct.unpack('Bc0', '\\4abc')", TOO_SHORT);
    assert_list("struct.unpack('Bc0', '\\3abc')", "abc 5");
}

/* ---- formats ---- */

TEST(sizes)
{
    assert_lua("return struct.size('bhilfdx')", "28");
    assert_lua("return struct.size('!bhilfdx')", "33");
    assert_lua("return struct.size('i3c5T')", "16");
    assert_lua("return struct.size('c2147483647c2147483647')", "4294967294");
    assert_lua("return struct.size('s')",
               "error: test:1: bad argument #1 to 'size' (option 's' has no fixed size)");
    assert_lua("return struct.size('c0')",
               "error: test:1: bad argument #1 to 'size' (option 'c0' has no fixed size)");
}

TEST(wrong_formats_are_refused)
{
    assert_lua("return struct.pack('i33', 1)",
               "error: test:1: integral size 33 is larger than limit of 32");
    assert_lua("return struct.size('i2147483647')",
               "error: test:1: integral size 2147483647 is larger than limit of 32");
    assert_lua("return struct.size('c2147483648')", "error: test:1: integral size overflow");
    assert_lua("return struct.size('c99999999999999999999999')",
               "error: test:1: integral size overflow");
    assert_lua("return struct.unpack('!3', '')", "error: test:1: alignment 3 is not a power of 2");
    assert_lua("return struct.unpack('!0', '')", "error: test:1: alignment 0 is not a power of 2");
    assert_lua("return struct.pack('z', 1)",
               "error: test:1: bad argument #1 to 'pack' (invalid format option 'z')");
    assert_lua("return struct.size('%')",
               "error: test:1: bad argument #1 to 'size' (invalid format option '%')");
    assert_lua("return struct.size('b\\0%')", "1");
}

TEST(too_many_results_are_refused)
{
    assert_lua("return struct.unpack(('b'):rep(9000), ('x'):rep(9000))",
               "error: test:1: stack overflow (too many results)");
}

/* ---- limits ---- */

TEST(long_formats_are_counted)
{
    lua_assert_limited("local f = (' '):rep(1000000) return struct.size(f)");
    lua_assert_limited("local f = 'i' .. ('0'):rep(1000000) .. 4 while true do struct.size(f) end");
    lua_assert_limited("local f = ('!8'):rep(500000) return struct.pack(f)");
    lua_assert_limited("local f = ('x'):rep(1000000) return struct.pack(f)");
}

TEST(long_strings_are_counted)
{
    lua_assert_limited(
        "local s = ('x'):rep(2000000) while true do pcall(struct.unpack, 's', s) end");
    lua_assert_limited(
        "local s = ('x'):rep(500000) while true do pcall(struct.pack, 'c0c9', s) end");
    lua_assert_limited("local s = ('x'):rep(1000000) local t = {s, s, s, s, s, s} "
                       "return struct.pack(('c0'):rep(6), unpack(t))");
    lua_assert_limited("local s = ('x'):rep(500000) while true do struct.unpack('c500000', s) end");
}

TEST(small_calls_are_counted)
{
    lua_assert_limited("while true do struct.pack('bbbbbbbb', 1, 2, 3, 4, 5, 6, 7, 8) end");
    lua_assert_limited("local f = ('x'):rep(3500) .. 'y' while true do pcall(struct.size, f) end");
}

TEST(what_is_done_is_counted)
{
    lua_assert_counted("for i = 1, 1000 do struct.size('bbbbbbbb') end", 400000);
    lua_assert_counted("local f = 'i' .. ('0'):rep(500000) struct.size(f)", 5000000);
    lua_assert_counted("local s = ('x'):rep(500000) for i = 1, 10 do struct.pack('c0', s) end",
                       10000000);
    lua_assert_counted(
        "local s = ('x'):rep(500000) for i = 1, 10 do struct.unpack('c500000', s) end", 5000000);
}
