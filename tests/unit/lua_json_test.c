/* The library "cjson": texts of values, and values of texts. */
#include "tests/support/lua_run.h"
#include "tests/support/test.h"

#define assert_encoded(value, expected) assert_lua("return cjson.encode(" value ")", expected)
/* The text is one of C and of Lua ([==[ ]==]). */
#define assert_decoded(json, expected) \
    assert_lua("return tostring(cjson.decode([==[" json "]==]))", expected)

/* ---- encode ---- */

TEST(scalars_are_written)
{
    assert_encoded("true", "true");
    assert_encoded("false", "false");
    assert_encoded("nil", "null");
    assert_encoded("cjson.null", "null");
    assert_encoded("'abc'", "\"abc\"");
}

TEST(numbers_have_14_digits)
{
    assert_encoded("1", "1");
    assert_encoded("-0.0", "-0");
    assert_encoded("0.1", "0.1");
    assert_encoded("1/3", "0.33333333333333");
    assert_encoded("99999999999999", "99999999999999");
    assert_encoded("123456789012345678", "1.2345678901235e+17");
    assert_encoded("1e300", "1e+300");
    assert_encoded("5e-324", "4.9406564584125e-324");
}

TEST(numbers_that_json_lacks_are_refused)
{
#define NOT_FINITE "error: test:1: Cannot serialise number: must not be NaN or Inf"
    assert_encoded("0/0", NOT_FINITE);
    assert_encoded("1/0", NOT_FINITE);
    assert_encoded("{-1/0}", NOT_FINITE);
    assert_encoded("{[1/0] = 1}", NOT_FINITE);
}

TEST(strings_are_escaped)
{
    assert_encoded("'\"\\\\/'", "\"\\\"\\\\\\/\"");
    assert_encoded("'\\8\\9\\10\\12\\13'", "\"\\b\\t\\n\\f\\r\"");
    assert_encoded("'\\0\\1\\11\\31\\127'", "\"\\u0000\\u0001\\u000b\\u001f\\u007f\"");
    assert_encoded("'\\195\\164\\255 \\''", "\"\303\244\377 '\"");
    assert_lua("local s = ('x\\1'):rep(10000) return cjson.encode(s) == "
               "'\"' .. ('x\\\\u0001'):rep(10000) .. '\"'",
               "true");
}

TEST(tables_are_arrays_or_objects)
{
    assert_encoded("{}", "{}");
    assert_encoded("{1, 'a', {true}}", "[1,\"a\",[true]]");
    assert_encoded("{{}, {{}}}", "[{},[{}]]");
    assert_encoded("{a = {b = {1}}}", "{\"a\":{\"b\":[1]}}");
    assert_encoded("{[1] = 1, x = 2} and {x = 2}", "{\"x\":2}");
    assert_encoded("{[0] = 1}", "{\"0\":1}");
    assert_encoded("{[-1] = 1}", "{\"-1\":1}");
    assert_encoded("{[1.5] = 1}", "{\"1.5\":1}");
}

TEST(arrays_may_have_some_empty_slots)
{
#define SPARSE "error: test:1: Cannot serialise table: excessively sparse array"
    assert_encoded("{1, nil, 3}", "[1,null,3]");
    assert_encoded("{[10] = 1}", "[null,null,null,null,null,null,null,null,null,1]");
    assert_encoded("{[11] = 1}", SPARSE);
    assert_encoded("{1, 2, 3, 4, 5, [11] = 1}", "[1,2,3,4,5,null,null,null,null,null,1]");
    assert_encoded("{1, 2, 3, 4, 5, [13] = 1}", SPARSE);
    assert_encoded("{[2147483647] = 1}", SPARSE);
}

/* As in Redis, for one of them. */
TEST(huge_indices_are_keys)
{
    assert_encoded("{[2147483648] = 1}", "{\"2147483648\":1}");
    assert_encoded("{[1e300] = 1}", "{\"1e+300\":1}");
}

TEST(what_json_lacks_is_refused)
{
    assert_encoded("{[true] = 1}",
                   "error: test:1: Cannot serialise boolean: table key must be a number or string");
    assert_encoded("{[{}] = 1}",
                   "error: test:1: Cannot serialise table: table key must be a number or string");
    assert_encoded("error", "error: test:1: Cannot serialise function: type not supported");
    assert_encoded("", "error: test:1: bad argument #1 to 'encode' (expected 1 argument)");
    assert_encoded("1, 2", "error: test:1: bad argument #1 to 'encode' (expected 1 argument)");
}

TEST(metatables_do_not_matter)
{
    assert_encoded("setmetatable({1}, {__index = function() error('x') end, "
                   "__len = function() return 1e9 end, __tostring = error})",
                   "[1]");
    assert_encoded("cjson", "{}");
}

TEST(depth_has_an_end)
{
    assert_lua("local t = {} for i = 1, 999 do t = {t} end return #cjson.encode(t)", "2000");
    assert_lua("local t = {} for i = 1, 1000 do t = {t} end return cjson.encode(t)",
               "error: test:1: Cannot serialise, excessive nesting (1001)");
    assert_lua("local t = {} t.t = t return cjson.encode(t)",
               "error: test:1: Cannot serialise, excessive nesting (1001)");
}

/* ---- decode ---- */

TEST(scalars_are_read)
{
    assert_decoded("true", "true");
    assert_decoded(" false\t\r\n", "false");
    assert_decoded("\"abc\"", "abc");
    assert_decoded("-12.5e1", "-125");
    assert_lua("return cjson.decode('null') == cjson.null", "true");
    assert_lua("return cjson.decode('[1, null]')[2] == cjson.null", "true");
    assert_lua("return cjson.decode(12)", "12");
}

TEST(tables_are_read)
{
    assert_lua("return cjson.encode(cjson.decode('[1, [2, {\"a\" : [ ]}], {}]'))",
               "[1,[2,{\"a\":{}}],{}]");
    assert_lua("return cjson.decode('{\"a\": 1, \"a\": 2, \"\": 3}').a", "2");
    assert_lua("return table.concat(cjson.decode("
               "'[0.0, -5e3, -1, 0.3e-3, 1023.2, 0e10]'), ' ')",
               "0 -5000 -1 0.0003 1023.2 0");
    assert_lua("local d = cjson.decode('{\"keya\": \"a\", \"keyb\": \"b\"}') "
               "return d.keya .. d.keyb",
               "ab");
}

/* What Redis takes by default. */
TEST(numbers_that_json_lacks_are_read)
{
    assert_decoded("0x1F", "31");
    assert_decoded("-0x1p3", "-8");
    assert_decoded("+1", "1");
    assert_decoded("007", "7");
    assert_decoded("1.", "1");
    assert_decoded("-.5", "-0.5");
    assert_decoded("inf", "inf");
    assert_decoded("-Infinity", "-inf");
    assert_decoded("1e999", "inf");
    assert_lua("local n = cjson.decode('NaN') return n ~= n", "true");
}

TEST(escapes_are_read)
{
    assert_decoded("\"\\\"\\\\\\/\\b\\t\\n\\f\\r\"", "\"\\/\b\t\n\f\r");
    assert_decoded("\"a\\u0041b\\u00e4\\u20AC\"", "aAb\303\244\342\202\254");
    assert_decoded("\"\\ud83d\\ude00\"", "\360\237\230\200");
    assert_decoded("\"\\uffff\\u07ff\\u0800\\udbff\\udfff\"",
                   "\357\277\277\337\277\340\240\200\364\217\277\277");
    assert_lua("return #cjson.decode([==[\"a\\u0000b\"]==])", "3");
}

#define VALUE "error: test:1: Expected value but found "

TEST(wrong_escapes_are_refused)
{
    assert_decoded("\"ab\\x\"", VALUE "invalid escape code at character 4");
    assert_decoded("\"\\", VALUE "invalid escape code at character 2");
    assert_decoded("\"\\u12", VALUE "invalid unicode escape code at character 2");
    assert_decoded("\"\\u12g4\"", VALUE "invalid unicode escape code at character 2");
    assert_decoded("\"\\ud800\"", VALUE "invalid unicode escape code at character 2");
    assert_decoded("\"\\ud800\\u0041\"", VALUE "invalid unicode escape code at character 2");
    assert_decoded("\"\\ud800\\", VALUE "invalid unicode escape code at character 2");
    assert_decoded("\"\\udc00\\udc00\"", VALUE "invalid unicode escape code at character 2");
    assert_decoded("\"abc", VALUE "unexpected end of string at character 5");
    assert_decoded("\"a\\nbc", VALUE "unexpected end of string at character 7");
}

TEST(wrong_texts_are_refused)
{
    assert_decoded("", VALUE "T_END at character 1");
    assert_decoded("x", VALUE "invalid token at character 1");
    assert_decoded("[1,]", VALUE "T_ARR_END at character 4");
    assert_decoded("tru", VALUE "invalid token at character 1");
    assert_decoded("+x", VALUE "invalid number at character 1");
    assert_decoded(":", VALUE "T_COLON at character 1");
    assert_decoded("[1 2]",
                   "error: test:1: Expected comma or array end but found T_NUMBER at character 4");
    assert_decoded("{\"a\":1:",
                   "error: test:1: Expected comma or object end but found T_COLON at character 7");
    assert_decoded("{1:2}",
                   "error: test:1: Expected object key string but found T_NUMBER at character 2");
    assert_decoded("{\"a\",2}", "error: test:1: Expected colon but found T_COMMA at character 5");
    assert_decoded("1 true", "error: test:1: Expected the end but found T_BOOLEAN at character 3");
}

TEST(texts_end_with_a_zero_byte)
{
    assert_lua("return cjson.decode('12\\0junk')", "12");
    assert_lua("return cjson.decode('\"a\\0\"')", VALUE "unexpected end of string at character 3");
    assert_lua("return cjson.decode('\\0[')",
               "error: test:1: JSON parser does not support UTF-16 or UTF-32");
}

TEST(depth_of_a_text_has_an_end)
{
    assert_lua("return type(cjson.decode(('['):rep(1000) .. (']'):rep(1000)))", "table");
    assert_lua("return cjson.decode(('['):rep(1001))",
               "error: test:1: Found too many nested data structures (1001) at character 1001");
    assert_lua("return cjson.decode(('{\"a\":'):rep(100000))",
               "error: test:1: Found too many nested data structures (1001) at character 5001");
}

TEST(long_numbers_are_refused)
{
    assert_lua("return cjson.decode(('0'):rep(4095) .. 7)", "7");
    assert_lua("return cjson.decode(('0'):rep(4096) .. 7)", VALUE "invalid number at character 1");
    assert_lua("return cjson.decode('nan(' .. ('0'):rep(5000) .. ')')",
               VALUE "invalid number at character 1");
}

/* ---- settings ---- */

TEST(settings_are_returned_as_if_they_held)
{
    assert_lua("return cjson.encode_max_depth()", "1000");
    assert_lua("return cjson.encode_max_depth(5)", "5");
    assert_lua("return cjson.decode_max_depth(7)", "7");
    assert_lua("return cjson.encode_number_precision(3)", "3");
    assert_lua("return cjson.encode_keep_buffer(false)", "false");
    assert_lua("return cjson.encode_keep_buffer()", "true");
    assert_lua("return cjson.encode_invalid_numbers()", "false");
    assert_lua("return cjson.encode_invalid_numbers('null')", "null");
    assert_lua("return cjson.encode_invalid_numbers('on')", "true");
    assert_lua("return cjson.decode_invalid_numbers('off')", "false");
    assert_lua("local a, b, c = cjson.encode_sparse_array(true, nil, 3) "
               "return cjson.encode({a, b, c})",
               "[true,2,3]");
}

TEST(settings_hold_for_nobody)
{
    assert_lua("cjson.encode_max_depth(1) cjson.encode_number_precision(1) "
               "cjson.new().encode_max_depth(1) return cjson.encode({{0.25}})",
               "[[0.25]]");
    assert_lua("cjson.encode_sparse_array(true) return cjson.encode({[100] = 1})", SPARSE);
}

TEST(wrong_settings_are_refused)
{
    assert_lua("return cjson.encode_max_depth(0)",
               "error: test:1: bad argument #1 to 'encode_max_depth' (expected integer between 1 "
               "and 2147483647)");
    assert_true(strstr(lua_run("cjson.encode_max_depth(0/0)"), "expected integer between"));
    assert_true(strstr(lua_run("cjson.encode_max_depth(1e300)"), "expected integer between"));
    assert_true(strstr(lua_run("cjson.encode_max_depth({})"), "number expected, got table"));
    assert_true(strstr(lua_run("cjson.encode_keep_buffer('x')"), "invalid option 'x'"));
    assert_true(strstr(lua_run("cjson.encode_keep_buffer(1, 2)"), "found too many arguments"));
}

TEST(it_says_what_it_is)
{
    assert_lua("return cjson._NAME .. ' ' .. cjson._VERSION", "cjson 2.1.0");
    assert_lua("return cjson.new().encode({1})", "[1]");
}

/* ---- limits ---- */

TEST(shared_tables_are_counted)
{
    lua_assert_limited("local t = {} for i = 1, 900 do t = {t, t} end cjson.encode(t)");
    lua_assert_limited(
        "local t = {} for i = 1, 12 do t = {t, t} end while true do cjson.encode(t) end");
    lua_assert_limited("local s = ('x'):rep(100000) local t = {} for i = 1, 1000 do t[i] = s end "
                       "cjson.encode(t)");
}

/* CVE-2022-24834: a string whose escaped length overflows. */
TEST(long_strings_are_counted)
{
    lua_assert_limited("local s = ('\\1'):rep(1000000) cjson.encode({s, s, s, s})");
    lua_assert_limited("local s = ('x'):rep(500000) while true do cjson.encode(s) end");
    lua_assert_limited("local s = ('\\1'):rep(50000) while true do cjson.encode(s) end");
    lua_assert_limited(
        "local s = cjson.encode(('x'):rep(500000)) while true do cjson.decode(s) end");
    lua_assert_limited(
        "local s = cjson.encode(('\\1'):rep(50000)) while true do cjson.decode(s) end");
    lua_assert_limited(
        "local s = '\"' .. ('x'):rep(1000000) while true do pcall(cjson.decode, s) end");
}

TEST(long_tables_are_counted)
{
    lua_assert_limited(
        "local t = {} for i = 1, 5000 do t[i] = true end while true do cjson.encode(t) end");
    lua_assert_limited(
        "local t = {} for i = 1, 5000 do t[i] = true end for i = 1, 4999 do t[i] = nil end "
        "while true do pcall(cjson.encode, t) end");
    lua_assert_limited(
        "local s = '[' .. ('{},'):rep(5000) .. '1]' while true do cjson.decode(s) end");
    lua_assert_limited("cjson.decode('[' .. ('{},'):rep(500000))");
}

TEST(spaces_and_numbers_are_counted)
{
    lua_assert_limited("local s = (' '):rep(1000000) while true do pcall(cjson.decode, s) end");
    lua_assert_limited("local s = ('1'):rep(1000000) while true do pcall(cjson.decode, s) end");
    lua_assert_limited("local s = '[' .. ('1'):rep(4000) .. ']' while true do cjson.decode(s) end");
    lua_assert_limited("local t = {} for i = 1, 1000 do t[i] = i + 0.1 end "
                       "while true do cjson.encode(t) end");
}

TEST(small_calls_are_counted)
{
    lua_assert_limited("while true do cjson.encode(1) end");
    lua_assert_limited("while true do cjson.decode('1') end");
    lua_assert_limited("while true do cjson.new() end");
}

TEST(what_is_done_is_counted)
{
    lua_assert_counted("local t = {1, 1, 1} for i = 1, 1000 do cjson.encode(t) end", 1200000);
    lua_assert_counted("local t = {{}, {}, {}} for i = 1, 1000 do cjson.encode(t) end", 600000);
    lua_assert_counted("local s = ('x'):rep(500000) for i = 1, 10 do cjson.encode(s) end",
                       10000000);
    lua_assert_counted("local s = '[1,2,3]' for i = 1, 1000 do cjson.decode(s) end", 600000);
    lua_assert_counted("local s = cjson.encode(('x'):rep(500000)) local kept = cjson.decode(s) "
                       "for i = 1, 40 do cjson.decode(s) end",
                       20000000);
    lua_assert_counted("local s = (' '):rep(500000) .. 1 for i = 1, 10 do cjson.decode(s) end",
                       5000000);
}
