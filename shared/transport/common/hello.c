#include "shared/transport/common/hello.h"

#include <string.h>

#include "shared/base/error.h"

int okv_hello_init(struct okv_connect_hello *hello, const struct okv_connect_params *params,
                   struct okv_diag *diag)
{
    if (params->hello_length > OKV_HELLO_MAX)
        return okv_diag_set(diag, OKV_EINVAL, "a hello has at most %d bytes", OKV_HELLO_MAX);
    *hello = (struct okv_connect_hello){
        .length = params->hello_length, .next = params->next_hello, .user = params->user};
    if (params->hello_length > 0)
        memcpy(hello->bytes, params->hello, params->hello_length);
    return 0;
}

bool okv_hello_renew(struct okv_connect_hello *hello, const struct okv_answer *answer,
                     const struct okv_binding *binding)
{
    return answer->rejected && hello->next &&
           hello->next(hello->user, answer->bytes, answer->length, binding, hello->bytes);
}

void okv_hello_restart(struct okv_connect_hello *hello)
{
    if (hello->next)
        hello->next(hello->user, NULL, 0, NULL, hello->bytes);
}
