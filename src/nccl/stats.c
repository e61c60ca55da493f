/* Counts, which are printed on stderr at exit if SYMM_NCCL_STATS is 1. */
#include "stats.h"

#include <stdio.h>
#include <unistd.h>
#include "settings.h"

static struct {
    atomic_ullong calls, nbytes;
} counts[NCCL_OPERATIONS][2];

void nccl__count(const struct nccl_call *call, bool taken)
{
    atomic_fetch_add_explicit(&counts[call->operation][taken].calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&counts[call->operation][taken].nbytes, nccl__call_nbytes(call),
                              memory_order_relaxed);
}

__attribute__((destructor)) static void print_counts(void)
{
    if (!nccl__settings()->stats)
        return;
    for (int i = 0; i < NCCL_OPERATIONS; i++)
        dprintf(STDERR_FILENO,
                "symm: nccl: %s: %llu calls taken, %llu bytes; %llu forwarded, %llu bytes\n",
                nccl__operation_name(i), counts[i][1].calls, counts[i][1].nbytes,
                counts[i][0].calls, counts[i][0].nbytes);
}
