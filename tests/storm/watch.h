/* The driver's part of a round: it kills and stops ranks, and sees who does not come back. */
#ifndef STORM_WATCH_H
#define STORM_WATCH_H

#include "board.h"
#include "ranks.h"

/* Returns when all ranks have come to their end, or one of them cannot any more. */
void watch_round(const struct storm_plan *plan, struct storm_board *board, struct ranks *run);

#endif
