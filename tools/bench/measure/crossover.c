/* From which size on a variant is the fastest. */
#include "crossover.h"

#include <math.h>
#include <string.h>

/* Another row needs less than this part of the time. */
static const double clearly = 0.98;

static int fastest(const double *times, int n)
{
    int best = 0;

    for (int i = 1; i < n; i++)
        best = times[i] < times[best] ? i : best;
    return best;
}

/* The size after the last one at which `next` becomes as fast as the fastest so far. */
static uint64_t crossing(const struct crossover *w, uint64_t nbytes, const double *times, int next)
{
    const double behind = fmax(w->times[next] - w->times[w->variant], 0),
                 ahead = times[w->variant] - times[next];

    return w->nbytes + (uint64_t)((double)(nbytes - w->nbytes) * (behind / (behind + ahead)));
}

bool crossover_take(struct crossover *w, uint64_t nbytes, const double *times, int n,
                    uint64_t *from)
{
    const int best = fastest(times, n);
    const bool first = w->nbytes == 0, changed = first || times[best] < clearly * times[w->variant];

    if (changed) {
        *from = first ? 0 : crossing(w, nbytes, times, best);
        w->variant = best;
    }
    w->nbytes = nbytes;
    memcpy(w->times, times, (size_t)n * sizeof *times);
    return changed;
}
