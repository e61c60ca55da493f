/* Builds texts piece by piece and truncates them at SYMM_TEXT_MAX. */
#ifndef SYMM_TEXT_H
#define SYMM_TEXT_H

#include "rank_set.h"
#include "status.h"

struct symm_text {
    char bytes[SYMM_TEXT_MAX];
    size_t used;
};

__attribute__((format(printf, 2, 3))) void symm__text_add(struct symm_text *text, const char *fmt,
                                                          ...);
/* "rank 2" or "rank 2, 5, 6". names: other numbers for the ranks; NULL: their own. */
void symm__text_add_ranks(struct symm_text *text, struct symm_rank_set ranks, const int *names);

#endif
