/* The table of operations. */
#include "operation.h"

#include <string.h>

const char operation_names[] = "all-reduce";

static const struct operation *const operations[] = {&operation_all_reduce};

const struct operation *operation_at(size_t index)
{
    return index < sizeof operations / sizeof operations[0] ? operations[index] : NULL;
}

const struct operation *operation_find(const char *name)
{
    size_t i = 0;

    while (operation_at(i) && strcmp(operation_at(i)->name, name) != 0)
        i++;
    return operation_at(i);
}
