/*
 * The emulated machine: its settings, which come from SYMM_EMULATED_* and are read once, by the
 * first cuInit, and the random numbers that follow from its seed.
 */
#ifndef SYMM_EMULATOR_MACHINE_H
#define SYMM_EMULATOR_MACHINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <symm/detail/emulated.h>

#define EMU_DRIVER_VERSION 13000
#define EMU_MAX_DEVICES 128
#define EMU_SMS_MAX 1024 /* of a device */

enum emu_leaks {
    EMU_LEAKS_REPORT, /* one line with the counts */
    EMU_LEAKS_LIST,   /* a line for each leaked object, too */
    EMU_LEAKS_FAIL,   /* the same, and the process fails */
    EMU_LEAKS_OFF
};

struct emu_machine {
    int ndevices;
    int island;             /* devices that are peers of each other; 0: all are */
    uint64_t memory_nbytes; /* of each device */
    bool multicast;
    bool pageable; /* devices can access all of the host's memory */
    size_t granularity;
    int sms, max_block_threads;
    int blocks_per_sm; /* of kernels that may have more than one warp a block */
    _Atomic uint64_t seed;
    bool weak;  /* memory is weakly ordered */
    bool early; /* kernels begin before the previous one has ended, where their launch allows it */
    bool busy;  /* blocks that poll sleep as on a busy host */
    enum symm_emulated_order order;
    enum emu_leaks leaks;
    const char *trace_prefix; /* NULL: no trace */
};

extern struct emu_machine emu__machine;

/* Whether a device may access the memory of another one, or its own. */
static inline bool emu__reaches(int device, int other)
{
    return !emu__machine.island || device / emu__machine.island == other / emu__machine.island;
}

/* Reads the settings. False: one is wrong, and a line on stderr names it. */
bool emu__machine_read(void);

/* Changes the seed. Blocks that start afterwards use it, and launches are counted anew. */
void emu__set_seed(uint64_t seed);
/* Counts the calls of emu__set_seed. */
extern _Atomic uint64_t emu__seeds;

/* Returns a number that depends on the two arguments only. `index` tells the uses apart. */
uint64_t emu__random(uint64_t seed, uint64_t index);

/* Advances a random state, which is never 0, and returns it (xorshift). */
static inline uint64_t emu__draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

#endif
