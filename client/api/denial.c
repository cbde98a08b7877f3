#include "client/api/denial.h"

#include "client/api/argument_error.h"
#include "client/connection/wait.h"
#include "client/engine/operation.h"
#include "shared/format/opcode.h"
#include "shared/format/wire.h"

/* Every user with a right in the database may read: without it, the answer came before the GOODBYE
 * that ends the access. */
void denial_explain(okv *handle)
{
    unsigned right = handle->denied_right;
    const struct link *link = &handle->link;
    const char *user = link->identity.user;
    const char *database = link->uri.database[0] ? link->uri.database : OKV_DATABASE_DEFAULT;
    struct okv_diag *why = &handle->argument_error;

    if (!link_is_up(handle))
        return;
    if (right == OKV_RIGHT_READ)
        okv_diag_set(why, 0, "the server has ended the access of user %s to database %s", user,
                     database);
    else
        okv_diag_set(why, 0, "user %s lacks the right %s in database %s", user,
                     okv_right_name(right), database);
    argument_error_keep(handle);
}

int denial_wait(okv *handle, struct operation *operation, struct okv_result *result)
{
    int status = wait_operation(handle, operation, result);

    if (status == OKV_EDENIED)
        denial_explain(handle);
    return status;
}
