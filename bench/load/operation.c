#include "bench/load/operation.h"

const char *operation_name(enum operation operation)
{
    static const char *const names[] = {
#define OPERATION_NAME(NAME, name, text) [OPERATION_##NAME] = #name,
        OPERATION_LIST(OPERATION_NAME)
#undef OPERATION_NAME
    };

    return names[operation];
}
