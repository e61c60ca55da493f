#include "unfenced.h"

#include <stdlib.h>
#include <string.h>
#include "emulator/state/machine.h"
#include "emulator/state/sanitizer.h"

enum { KEPT = sizeof((struct emu_unfenced *)0)->rows / sizeof(const char *) };

void emu__unfenced_clear(struct emu_hopper *h)
{
    for (unsigned i = 0; i < h->unfenced_capacity; i++)
        h->unfenced[i].n = 0;
}

void emu__unfenced_free(struct emu_hopper *h)
{
    free(h->unfenced);
    h->unfenced = NULL;
    h->unfenced_capacity = 0;
}

EMU_UNCHECKED void emu__unfenced_end(struct block *b)
{
    const struct emu_hopper *h = emu__hopper(b);
    if (b->running->index < h->unfenced_capacity)
        h->unfenced[b->running->index].n = 0;
}

static bool has_unfenced(const struct emu_unfenced *u, const char *from, size_t nbytes)
{
    const unsigned n = u->n < KEPT ? u->n : KEPT;
    for (unsigned i = 0; i < n; i++)
        if (u->rows[i] >= from && u->rows[i] < from + nbytes)
            return true;
    return false;
}

EMU_UNCHECKED void emu__unfenced_check(struct block *b, const void *shared, size_t nbytes)
{
    const struct emu_hopper *h = emu__hopper(b);
    for (unsigned i = 0; i < h->unfenced_capacity; i++)
        if (has_unfenced(&h->unfenced[i], shared, nbytes))
            emu__block_break(CUDA_ERROR_LAUNCH_FAILED,
                             "a box at %p, of which thread %u has stored rows without "
                             "fence.proxy.async",
                             shared, i);
}

/* Room for all threads of the block. False: no memory. */
static bool make_room(struct emu_hopper *h, unsigned nthreads)
{
    if (h->unfenced_capacity >= nthreads)
        return true;
    struct emu_unfenced *more = calloc(nthreads, sizeof *more);
    if (!more)
        return false;
    if (h->unfenced)
        memcpy(more, h->unfenced, h->unfenced_capacity * sizeof *more);
    free(h->unfenced);
    h->unfenced = more;
    h->unfenced_capacity = nthreads;
    return true;
}

EMU_UNCHECKED void emu__stmatrix(const void *row)
{
    struct block *b = emu__this_block;
    struct emu_hopper *h = emu__hopper(b);
    if (emu__window_address(b, row, 16) == 0)
        emu__block_break(CUDA_ERROR_ILLEGAL_ADDRESS,
                         "a row of stmatrix at %p, of which not all is dynamic shared memory", row);
    EMU_UNCHECKED_BEGIN();
    const bool room = make_room(h, b->nthreads);
    EMU_UNCHECKED_END();
    if (!room)
        emu__block_break(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "no memory for rows of stmatrix");
    struct emu_unfenced *u = &h->unfenced[b->running->index];
    u->rows[u->n++ % KEPT] = row;
}
