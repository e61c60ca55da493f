/*
 * Which algorithm AUTO takes. Pure, as plan.h: from what all ranks have agreed on and from the call
 * alone.
 */
#ifndef SYMM_CHOICE_H
#define SYMM_CHOICE_H

#include "plan.h"

/*
 * The call's algorithm, if it names one; else that of the table's row, if it runs here; else the
 * one that is the fastest by the model. Never AUTO.
 */
symm_algo symm__choose(const struct symm_limits *limits, const struct symm_collective_call *call);

#endif
