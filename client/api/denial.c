#include "client/api/denial.h"

#include "client/api/argument_error.h"
#include "client/connection/wait.h"
#include "client/engine/operation.h"
#include "shared/format/opcode.h"

static __attribute__((cold)) void explain(okv *handle, unsigned opcode)
{
    const struct link *link = &handle->link;
    const char *user = link->identity.user, *database = link->uri.database;

    okv_diag_set(&handle->argument_error, OKV_EDENIED, "%s%s lacks the right %s in database %s",
                 user[0] ? "user " : "this user", user,
                 okv_right_name(okv_opcode_facts(opcode)->right),
                 database[0] ? database : OKV_DATABASE_DEFAULT);
    argument_error_keep(handle);
}

int denial_wait(okv *handle, struct operation *operation, struct okv_result *result)
{
    unsigned opcode = operation_opcode(operation);
    int status = wait_operation(handle, operation, result);

    if (status == OKV_EDENIED && link_is_up(handle))
        explain(handle, opcode);
    return status;
}
