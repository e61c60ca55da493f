/* The part of the driver in a round: kills and stops ranks, and finds those that do not return. */
#ifndef STORM_WATCH_H
#define STORM_WATCH_H

#include "board.h"
#include "ranks.h"

/* Returns when all ranks have come to their end, or one of them cannot any more. */
void watch_round(const struct storm_plan *plan, struct storm_board *board, struct ranks *run);

#endif
