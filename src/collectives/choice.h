/*
 * Which algorithm a call takes. Pure: from the values that all ranks agree on and from the call
 * alone, never from the place of the data, since every rank must come to the same choice.
 */
#ifndef SYMM_CHOICE_H
#define SYMM_CHOICE_H

#include "algorithms.h"

/*
 * The call's algorithm, if it names one. Else that of the tuning table's row, if it runs here. Else
 * the fastest one by the model. For a call that has no reason against it.
 */
const struct symm_algorithm *symm__choose(const struct symm_limits *limits,
                                          const struct symm_collective_call *call);

/*
 * The model's time of the call, in ns. AUTO may take an algorithm of which the model knows no time:
 * one of a tuning table, or the switch. Then the time of the fastest one that the model knows. For
 * a call that has no reason against it.
 */
uint64_t symm__choice_ns(const struct symm_limits *limits, const struct symm_collective_call *call);

/*
 * Chooses FLAT or HIERARCHICAL by a row of the tuning table, else by the model's times. The group
 * has several domains of `width` ranks each.
 */
symm_algo symm__choose_form(const struct symm_tuning *tuning,
                            const struct symm_collective_call *call, uint32_t ndomains,
                            uint32_t width);

#endif
