/* Which of several variants is the fastest from which size on. */
#include "crossover.h"

#include <math.h>
#include <string.h>

/* Less of the time than this is no reason for another row. */
static const double clearly = 0.98;

static int fastest(const double *times, int n)
{
    int best = 0;

    for (int i = 1; i < n; i++)
        best = times[i] < times[best] ? i : best;
    return best;
}

/* Between the last size and this one, where `next` becomes as fast as the winner until now. */
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
