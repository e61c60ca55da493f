/* The warpgroups of a block, and the registers that they hold (setmaxnreg). */
#include "warpgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "emulator/state/sanitizer.h"

enum { REGISTERS_MIN = 24, REGISTERS_MAX = 256, REGISTERS_STEP = 8 };

EMU_UNCHECKED static bool make_groups(struct block *b, struct emu_hopper *h)
{
    unsigned n = b->nthreads / EMU_WARPGROUP;
    h->groups = calloc(n, sizeof *h->groups);
    h->ngroups = h->groups ? n : 0;
    h->operands = malloc(sizeof *h->operands);
    for (unsigned i = 0; i < h->ngroups; i++) {
        h->groups[i].registers = b->grid->kernel->registers;
        h->groups[i].arrays = calloc(EMU_ARRAYS, sizeof *h->groups[i].arrays);
        if (!h->groups[i].arrays)
            return false;
    }
    return h->groups && h->operands;
}

EMU_UNCHECKED struct emu_warpgroup *emu__warpgroup(struct block *b)
{
    struct emu_hopper *h = emu__hopper(b);
    unsigned n = b->running->index / EMU_WARPGROUP;
    if (n >= b->nthreads / EMU_WARPGROUP)
        emu__block_break(CUDA_ERROR_LAUNCH_FAILED,
                         "a warpgroup of %u threads: %u threads of a block of %u",
                         b->nthreads % EMU_WARPGROUP, EMU_WARPGROUP, b->nthreads);
    EMU_UNCHECKED_BEGIN();
    bool ok = h->operands || make_groups(b, h);
    EMU_UNCHECKED_END();
    if (!ok)
        emu__block_break(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "no memory for warpgroups");
    return &h->groups[n];
}

void emu__warpgroups_free(struct emu_hopper *h)
{
    for (unsigned i = 0; i < h->ngroups; i++)
        free(h->groups[i].arrays);
    free(h->groups);
    free(h->operands);
    h->groups = NULL;
    h->operands = NULL;
    h->ngroups = 0;
    h->spare_registers = 0;
}

/* ---- Registers ---- */

/* All threads are there, and the registers for it are free: changes the group's registers. */
EMU_UNCHECKED static bool change(struct emu_hopper *h, struct emu_warpgroup *g)
{
    uint32_t more = g->grows ? g->asked - g->registers : 0;
    if (g->at_setmaxnreg < EMU_WARPGROUP || more > h->spare_registers)
        return false;
    h->spare_registers += g->registers - g->asked;
    g->registers = g->asked;
    g->at_setmaxnreg = 0;
    g->changes++;
    return true;
}

EMU_UNCHECKED static bool is_changed(const struct block *b, const struct cuda_thread *t)
{
    struct emu_hopper *h = (struct emu_hopper *)b->units;
    struct emu_warpgroup *g = (struct emu_warpgroup *)t->object;
    if (g->changes == t->value && change(h, g))
        emu__cluster_event(b->cluster);
    return g->changes != t->value;
}

EMU_UNCHECKED static void describe(const struct block *b, const struct cuda_thread *t, char *text,
                                   size_t nbytes)
{
    const struct emu_hopper *h = (const struct emu_hopper *)b->units;
    const struct emu_warpgroup *g = t->object;
    snprintf(text, nbytes,
             "setmaxnreg to %u registers instead of %u, to which %u of %u threads of the warpgroup "
             "have come, with %u registers free",
             g->asked, g->registers, g->at_setmaxnreg, EMU_WARPGROUP, h->spare_registers);
}

EMU_UNCHECKED static void check(const struct block *b, const struct emu_warpgroup *g,
                                uint32_t registers, bool grow)
{
    if (!b->grid->kernel->registers)
        emu__block_break(CUDA_ERROR_LAUNCH_FAILED,
                         "setmaxnreg in a kernel without a number of registers "
                         "(SYMM_KERNEL_REGISTERS)");
    if (registers < REGISTERS_MIN || registers > REGISTERS_MAX || registers % REGISTERS_STEP)
        emu__block_break(CUDA_ERROR_LAUNCH_FAILED,
                         "setmaxnreg to %u registers: a multiple of %d from %d to %d", registers,
                         REGISTERS_STEP, REGISTERS_MIN, REGISTERS_MAX);
    if (grow ? registers < g->registers : registers > g->registers)
        emu__block_break(CUDA_ERROR_LAUNCH_FAILED,
                         "setmaxnreg.%s to %u registers of a warpgroup that has %u",
                         grow ? "inc" : "dec", registers, g->registers);
    if (g->at_setmaxnreg && (g->asked != registers || g->grows != grow))
        emu__block_break(CUDA_ERROR_LAUNCH_FAILED,
                         "the threads of a warpgroup come to different setmaxnreg instructions");
}

EMU_UNCHECKED void emu__setmaxnreg(uint32_t registers, uint32_t grow)
{
    struct block *b = emu__this_block;
    struct emu_warpgroup *g = emu__warpgroup(b);
    check(b, g, registers, grow);
    g->asked = registers;
    g->grows = grow;
    g->at_setmaxnreg++;
    b->running->object = g;
    b->running->value = g->changes;
    emu__cluster_lock(b->cluster);
    emu__cluster_event(b->cluster);
    emu__cluster_unlock(b->cluster);
    emu__block_await(b, is_changed, describe);
}
