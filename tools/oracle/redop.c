/* The names of reductions. */
#include "redop.h"

#include <string.h>

const char redop_names[] = "sum, avg, min, max";

static const char *const names[NREDOPS] = {
    [SYMM_SUM] = "sum", [SYMM_AVG] = "avg", [SYMM_MIN] = "min", [SYMM_MAX] = "max"};

const char *redop_name(symm_redop op)
{
    return names[op];
}

bool redop_find(const char *name, symm_redop *out)
{
    int i = 0;

    while (i < NREDOPS && strcmp(names[i], name) != 0)
        i++;
    if (i == NREDOPS)
        return false;
    *out = (symm_redop)i;
    return true;
}
