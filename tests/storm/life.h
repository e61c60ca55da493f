/* One rank's life in a round: it joins, acts, suffers its faults and leaves. */
#ifndef STORM_LIFE_H
#define STORM_LIFE_H

#include "board.h"

/* Lives the number-th life of the plan. Does not return if the rank is lost in it. */
void life_run(const struct storm_plan *plan, int number, struct storm_post *post);

#endif
