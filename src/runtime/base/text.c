/* Appends to a text. */
#include "text.h"

#include <stdarg.h>
#include <stdio.h>

void symm__text_add(struct symm_text *text, const char *fmt, ...)
{
    size_t room = sizeof text->bytes - text->used;
    va_list args;

    va_start(args, fmt);
    int n = vsnprintf(text->bytes + text->used, room, fmt, args);
    va_end(args);
    if (n > 0)
        text->used += (size_t)n < room ? (size_t)n : room - 1;
}

void symm__text_add_ranks(struct symm_text *text, struct symm_rank_set ranks, const int *names)
{
    const char *before = "rank ";

    for (int r = 0; r < SYMM_MAX_RANKS; r++)
        if (symm__rank_set_has(ranks, r)) {
            symm__text_add(text, "%s%d", before, names ? names[r] : r);
            before = ", ";
        }
}
