/* Which sentence okv(1) fails with: the code's, or why the connection ended. */
#include <unistd.h>

#include "tests/support/test.h"

#include "client/cli/output.h"

#define WHY "the server is shutting down"

/* ---- the library, of which only the sentences matter ---- */

const char *okv_why(const okv *handle)
{
    (void)handle;
    return WHY;
}

const char *okv_strerror(int code)
{
    return code == OKV_ENOTFOUND ? "the key is not there" : "the text of the code";
}

/* ---- */

/* What cli_fail() prints for the code, into `text`; returns its status. */
static int fail_with(int code, char *text, size_t size)
{
    struct cli cli = {.handle = (okv *)&cli};
    FILE *file = tmpfile();
    int kept = dup(STDERR_FILENO);

    assert_non_null(file);
    assert_true(kept >= 0);
    dup2(fileno(file), STDERR_FILENO);
    int status = cli_fail(&cli, "del", "key", 3, code);
    dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(file);
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
    return status;
}

TEST(an_answer_of_the_server_has_its_own_message)
{
    static const int full[] = {OKV_EFULL, OKV_EBUCKETFULL};
    char text[512];

    assert_int_equal(fail_with(OKV_ENOTFOUND, text, sizeof text), CLI_MISS);
    assert_string_equal(text, "okv: del 'key': the key is not there\n");
    for (size_t i = 0; i < sizeof full / sizeof *full; i++) {
        assert_int_equal(fail_with(full[i], text, sizeof text), CLI_FAILED);
        assert_null(strstr(text, WHY));
        assert_non_null(strstr(text, ": the text of the code: "));
    }
}

TEST(a_failed_connection_is_told_by_its_reason)
{
    static const int codes[] = {OKV_ETIMEDOUT, OKV_EDISCONNECTED, OKV_ESHUTDOWN,   OKV_EUNKNOWN,
                                OKV_EPROTO,    OKV_EVERSION,      OKV_EUNSUPPORTED};
    char text[512];

    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        assert_int_equal(fail_with(codes[i], text, sizeof text), CLI_FAILED);
        assert_non_null(strstr(text, WHY));
    }
    fail_with(OKV_EUNKNOWN, text, sizeof text);
    assert_non_null(strstr(text, "the text of the code (" WHY ")"));
}

/* It says which argument was wrong: a fault of okv(1), which a report of it should name. */
TEST(a_refused_call_is_told_by_its_reason)
{
    char text[512];

    assert_int_equal(fail_with(OKV_EINVAL, text, sizeof text), CLI_FAILED);
    assert_string_equal(text, "okv: del 'key': " WHY "\n");
}
