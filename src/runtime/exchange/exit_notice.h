/*
 * Tells the other ranks if this process exits without destroying its contexts. Otherwise they would
 * report that it died.
 */
#ifndef SYMM_EXIT_NOTICE_H
#define SYMM_EXIT_NOTICE_H

#include "state.h"

void symm__exit_notice_add(struct symm_exchange *x);
void symm__exit_notice_remove(struct symm_exchange *x); /* also if it was never added */

#endif
