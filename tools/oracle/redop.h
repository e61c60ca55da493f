/* The names of reductions. */
#ifndef SYMM_TOOLS_REDOP_H
#define SYMM_TOOLS_REDOP_H

#include <stdbool.h>
#include <symm/types.h>

enum { NREDOPS = 4 }; /* the values of symm_redop, from 0 */

const char *redop_name(symm_redop op);
/* False: there is no such name. */
bool redop_find(const char *name, symm_redop *out);
extern const char redop_names[];

#endif
