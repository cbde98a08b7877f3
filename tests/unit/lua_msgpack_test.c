/* The library "cmsgpack": bytes of values, and values of bytes. */
#include "tests/support/lua_run.h"
#include "tests/support/test.h"

#define HEX                                                                                        \
    "local function hex(s) return (s:gsub('%C', function(c) return ('%02x'):format(c:byte()) end)" \
    ":gsub('%c', function(c) return ('%02x'):format(c:byte()) end)) end "

#define assert_packed(values, expected) \
    assert_lua(HEX "return hex(cmsgpack.pack(" values "))", expected)
/* All values of a list. */
#define assert_list(expression, expected)                                               \
    assert_lua("local t = {" expression "} for i = 1, #t do t[i] = tostring(t[i]) end " \
               "return table.concat(t, ' ')",                                           \
               expected)

/* ---- pack ---- */

TEST(integers_have_the_shortest_format)
{
    assert_packed("0, 127, -1, -32, -0", "007fffe000");
    assert_packed("128, 255, 256, 65535", "cc80ccffcd0100cdffff");
    assert_packed("65536, 4294967295", "ce00010000ceffffffff");
    assert_packed("4294967296, 2^53", "cf0000000100000000cf0020000000000000");
    assert_packed("-33, -128, -129, -32768", "d0dfd080d1ff7fd18000");
    assert_packed("-32769, -2147483648", "d2ffff7fffd280000000");
    assert_packed("-2147483649, -2^63", "d3ffffffff7fffffffd38000000000000000");
}

TEST(other_numbers_have_the_shortest_format_that_has_them)
{
    assert_packed("0.5, -1.5", "ca3f000000cabfc00000");
    assert_packed("0.1", "cb3fb999999999999a");
    assert_packed("2^63, 2^64", "ca5f000000ca5f800000");
    assert_packed("1/0, -1/0", "ca7f800000caff800000");
    assert_packed("1e300", "cb7e37e43c8800759c");
    assert_lua("return cmsgpack.pack(0/0):byte(1)", "203");
}

TEST(strings_have_the_shortest_format)
{
    assert_packed("'', 'abc'", "a0a3616263");
    assert_packed("('x'):rep(31):sub(1, 1)", "a178");
    assert_lua("return cmsgpack.pack(('x'):rep(31)):byte(1)", "191");
    assert_lua(HEX "return hex(cmsgpack.pack(('x'):rep(32)):sub(1, 2))", "d920");
    assert_lua(HEX "return hex(cmsgpack.pack(('x'):rep(256)):sub(1, 3))", "da0100");
    assert_lua(HEX "return hex(cmsgpack.pack(('x'):rep(65536)):sub(1, 5))", "db00010000");
}

TEST(other_values)
{
    assert_packed("nil, true, false", "c0c3c2");
    assert_packed("cmsgpack.pack, cjson.null", "c0c0");
    assert_packed("function() end", "c0");
}

TEST(tables_are_arrays_or_maps)
{
    assert_packed("{}", "90");
    assert_packed("{1, 2, 3}", "93010203");
    assert_packed("{[2] = 1}", "810201");
    assert_packed("{[1.5] = 1}", "81ca3fc0000001");
    assert_packed("{a = {}}", "81a16190");
    assert_packed("{[true] = false}", "81c3c2");
    assert_packed("{[{1}] = 2}", "81910102");
    assert_packed("{1, nil, 3}", "8201010303");
    assert_packed("{[2147483648] = 1}", "81ce8000000001");
    assert_packed("{[1/0] = 1}", "81ca7f80000001");
}

TEST(long_tables_have_longer_formats)
{
    static const struct {
        const char *begin;
        int count;
        const char *bytes;
    } cases[] = {{"\\159", 15, "9fc3c3c3c3"},
                 {"\\220\\0\\16", 16, "dc0010c3c3"},
                 {"\\220\\255\\255", 65535, "dcffffc3c3"},
                 {"\\221\\0\\1\\0\\0", 65536, "dd00010000"}};
    char text[1024];

    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text,
                 "%slocal s = '%s' .. ('\\195'):rep(%d) local t = cmsgpack.unpack(s) "
                 "return cmsgpack.pack(t) == s and #t == %d and hex(s:sub(1, 5))",
                 HEX, cases[i].begin, cases[i].count, cases[i].count);
        assert_lua(text, cases[i].bytes);
    }
    assert_lua(HEX "local t = {} for i = 1, 16 do t['k' .. i] = i end "
                   "return hex(cmsgpack.pack(t):sub(1, 3))",
               "de0010");
}

/* What a metatable says does not count, and is not called. */
TEST(metatables_do_not_matter)
{
    assert_packed("setmetatable({1}, {__index = function() error('x') end, "
                  "__len = function() return 9 end})",
                  "9101");
}

/* From the tests of Redis. */
TEST(circles_end)
{
    assert_lua(
        HEX "local a = {x = nil, y = 5} a.x = {x = a} return hex(cmsgpack.pack(a))",
        "82a17905a17881a17882a17905a17881a17882a17905a17881a17882a17905a17881a17882a17905a17881"
        "a17882a17905a17881a17882a17905a17881a17882a17905a17881a178c0");
    assert_lua(HEX "local a = {} a[1] = a return hex(cmsgpack.pack(a))",
               "91919191919191919191919191919191c0");
    assert_lua(HEX "local a = 1 for i = 1, 16 do a = {[a] = 1} end return #cmsgpack.pack(a)", "32");
}

TEST(nothing_cannot_be_packed)
{
    assert_lua("return cmsgpack.pack()",
               "error: test:1: bad argument #0 to 'pack' (MessagePack pack needs input.)");
}

/* ---- unpack ---- */

TEST(numbers_are_unpacked)
{
    assert_list("cmsgpack.unpack('\\0\\127\\224\\255')", "0 127 -32 -1");
    assert_list("cmsgpack.unpack('\\204\\255\\205\\1\\2\\206\\255\\255\\255\\255')",
                "255 258 4294967295");
    assert_list("cmsgpack.unpack('\\208\\128\\209\\128\\0\\210\\128\\0\\0\\0')",
                "-128 -32768 -2147483648");
    assert_list("cmsgpack.unpack('\\211\\255\\255\\255\\255\\255\\255\\255\\254')", "-2");
    assert_list("cmsgpack.unpack('\\202\\63\\0\\0\\0\\203\\63\\224\\0\\0\\0\\0\\0\\0')", "0.5 0.5");
}

/* As in Redis, which has no larger integers. */
TEST(large_integers_are_negative)
{
    assert_list("cmsgpack.unpack('\\207' .. ('\\255'):rep(8))", "-1");
}

TEST(other_values_are_unpacked)
{
    assert_list("cmsgpack.unpack('\\195\\194\\163abc\\217\\1x\\218\\0\\1y\\219\\0\\0\\0\\1z')",
                "true false abc x y z");
    assert_lua("return select('#', cmsgpack.unpack('\\192\\192'))", "2");
    assert_lua("return select('#', cmsgpack.unpack(''))", "0");
}

TEST(tables_are_unpacked)
{
    assert_lua("return cjson.encode(cmsgpack.unpack('\\147\\1\\144\\128'))", "[1,{},{}]");
    assert_lua("return cjson.encode(cmsgpack.unpack('\\129\\161a\\129\\161b\\147\\1\\2\\3'))",
               "{\"a\":{\"b\":[1,2,3]}}");
    assert_lua("return cjson.encode(cmsgpack.unpack('\\220\\0\\1\\221\\0\\0\\0\\1\\5'))", "[[5]]");
    assert_lua("return cjson.encode(cmsgpack.unpack('\\222\\0\\1\\1\\223\\0\\0\\0\\1\\2\\3'))",
               "[[null,3]]");
    assert_lua("for k, v in pairs(cmsgpack.unpack('\\129\\129\\1\\2\\145\\3')) do "
               "return k[1] + v[1] end",
               "5");
    assert_lua("return cmsgpack.unpack('\\147\\1\\192\\3')[3]", "3");
}

TEST(what_cannot_be_a_key_is_refused)
{
    assert_lua("return cmsgpack.unpack('\\129\\192\\1')", "error: table index is nil");
    assert_lua("return cmsgpack.unpack('\\129\\203\\127\\248\\0\\0\\0\\0\\0\\0\\1')",
               "error: table index is NaN");
}

TEST(offsets_and_limits)
{
    assert_list("cmsgpack.unpack_one('\\1\\2\\3')", "1 1");
    assert_list("cmsgpack.unpack_one('\\1\\2\\3', 1)", "2 2");
    assert_list("cmsgpack.unpack_one('\\1\\2\\3', 2)", "-1 3");
    assert_list("cmsgpack.unpack_one('\\1\\2\\3', 3)", "-1");
    assert_list("cmsgpack.unpack_limit('\\1\\2\\3', 2)", "2 1 2");
    assert_list("cmsgpack.unpack_limit('\\1\\2\\3', 2, 1)", "-1 2 3");
    assert_list("cmsgpack.unpack_limit('\\1\\2\\3', 0, 1)", "1");
    assert_list("cmsgpack.unpack_limit('\\1\\2\\3', 0)", "1 2 3");
    assert_list("cmsgpack.unpack_limit('\\1\\2\\3', 1e300, 1.9)", "-1 2 3");
}

/* CVE-2018-11218, and an offset that is none. */
TEST(no_offset_is_out_of_the_input)
{
    static const char *const offsets[] = {"-1", "-2^31", "-2^63", "-1e300", "-1/0",  "0/0",
                                          "4",  "2^31",  "2^32",  "2^63",   "1e300", "1/0"};
    char text[256];

    for (unsigned i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        snprintf(text, sizeof text, "return cmsgpack.unpack_one('abc', %s)", offsets[i]);
        assert_true(strstr(lua_run(text), i < 6 ? "error: test:1: Invalid request to unpack with"
                                                : "error: test:1: Start offset "));
    }
    assert_true(strstr(lua_run("return cmsgpack.unpack_limit('abc', -1)"), "Invalid request"));
}

TEST(missing_bytes_are_noticed)
{
    static const char *const formats[] = {"\\204",          "\\205\\1",
                                          "\\206\\1\\1\\1", "\\207\\1",
                                          "\\208",          "\\209\\1",
                                          "\\210\\1",       "\\211\\1",
                                          "\\202\\1",       "\\203\\1",
                                          "\\161",          "\\191abc",
                                          "\\217",          "\\217\\2a",
                                          "\\218\\0",       "\\218\\255\\255a",
                                          "\\219\\0\\0\\0", "\\219\\255\\255\\255\\255a",
                                          "\\145",          "\\146\\1",
                                          "\\129",          "\\129\\1",
                                          "\\220\\1",       "\\221\\255\\255\\255\\255\\1",
                                          "\\222\\1",       "\\223\\255\\255\\255\\255\\1\\1"};
    char text[256];

    for (unsigned i = 0; i < sizeof formats / sizeof *formats; i++) {
        snprintf(text, sizeof text, "return cmsgpack.unpack('%s')", formats[i]);
        assert_lua(text, "error: test:1: Missing bytes in input.");
    }
}

TEST(unknown_formats_are_noticed)
{
    assert_lua("return cmsgpack.unpack('\\193')", "error: test:1: Bad data format in input.");
    assert_lua("return cmsgpack.unpack('\\196\\1a')", "error: test:1: Bad data format in input.");
    assert_lua("return cmsgpack.unpack('\\216')", "error: test:1: Bad data format in input.");
    assert_lua("return cmsgpack.unpack()",
               "error: test:1: bad argument #1 to 'unpack' (string expected, got no value)");
}

TEST(it_says_what_it_is)
{
    assert_lua("return cmsgpack._NAME", "cmsgpack");
    assert_lua("return cmsgpack._VERSION", "lua-cmsgpack 0.4.0");
}

/* ---- limits ---- */

/* The input of CVE-2018-11218, which nests without an end. */
TEST(deep_input_is_refused)
{
#define TOO_MANY                                                                        \
    "error: test:1: stack overflow (too many return values at once; use unpack_one or " \
    "unpack_limit "                                                                     \
    "instead.)"
    assert_lua("return cmsgpack.unpack(('\\145'):rep(100000))", TOO_MANY);
    assert_lua("return cmsgpack.unpack(('\\129'):rep(100000))", TOO_MANY);
    assert_lua("return cmsgpack.unpack(('\\129\\1'):rep(100000))", TOO_MANY);
    assert_lua("return cmsgpack.unpack(('\\1'):rep(100000))", TOO_MANY);
    assert_lua("return type(cmsgpack.unpack(('\\145'):rep(3000) .. '\\1'))", "table");
}

TEST(shared_tables_are_counted)
{
    lua_assert_limited(
        "local t = {1} for i = 1, 15 do t = {t, t, t, t, t, t, t, t} end cmsgpack.pack(t)");
    lua_assert_limited(
        "local t = {} for i = 1, 8 do t[i] = t end while true do cmsgpack.pack(t) end");
    lua_assert_limited("local s = ('x'):rep(100000) local t = {} for i = 1, 1000 do t[i] = s end "
                       "cmsgpack.pack(t)");
}

TEST(work_is_counted)
{
    lua_assert_limited(
        "local t = {} for i = 1, 5000 do t[i] = 1 end while true do cmsgpack.pack(t) end");
    lua_assert_limited("local s = ('x'):rep(900000) while true do cmsgpack.pack(s) end");
    lua_assert_limited("local s = ('\\144'):rep(5000) while true do cmsgpack.unpack(s) end");
    lua_assert_limited("local s = '\\221\\255\\255\\255\\255' .. ('\\192'):rep(1000000) "
                       "cmsgpack.unpack(s)");
    lua_assert_limited("local s = cmsgpack.pack(('x'):rep(900000)) local kept = cmsgpack.unpack(s) "
                       "while true do cmsgpack.unpack(s) end");
    lua_assert_limited("while true do cmsgpack.pack(1) end");
}

TEST(what_is_done_is_counted)
{
    lua_assert_counted("local t = {true, true, true} for i = 1, 1000 do cmsgpack.pack(t) end",
                       500000);
    lua_assert_counted("local s = ('x'):rep(500000) for i = 1, 10 do cmsgpack.pack(s) end",
                       10000000);
    lua_assert_counted("local s = '\\147\\1\\2\\3' for i = 1, 1000 do cmsgpack.unpack(s) end",
                       400000);
    lua_assert_counted("local s = cmsgpack.pack(('x'):rep(500000)) local kept = cmsgpack.unpack(s) "
                       "for i = 1, 10 do cmsgpack.unpack(s) end",
                       5000000);
}
