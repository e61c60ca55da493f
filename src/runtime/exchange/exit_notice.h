/*
 * Tells the others when this process exits with contexts that it has not destroyed: they would take
 * it for dead.
 */
#ifndef SYMM_EXIT_NOTICE_H
#define SYMM_EXIT_NOTICE_H

#include "state.h"

void symm__exit_notice_add(struct symm_exchange *x);
void symm__exit_notice_remove(struct symm_exchange *x); /* one that was never added, too */

#endif
