/*
 * Warpgroups: 128 threads that multiply together. Each thread issues its multiplications in order;
 * one is issued when all threads of the group have come to it. Each warp then multiplies its rows
 * at its own time. Until a wait retires a multiplication, the driver keeps its accumulators. The
 * accumulators of the threads are poisoned meanwhile.
 */
#ifndef SYMM_EMULATOR_WARPGROUP_H
#define SYMM_EMULATOR_WARPGROUP_H

#include "hopper.h"
#include "operand.h"

enum {
    EMU_GROUP_WARPS = 4,
    EMU_AHEAD = 32,     /* multiplications of a thread that are not done, at most */
    EMU_COMMITTED = 16, /* groups that no wait has retired, at most */
    EMU_ARRAYS = 4      /* of accumulators of a thread in flight, at most */
};

/* The accumulators of all threads, while multiplications use them. */
struct emu_accumulators {
    float *of[EMU_WARPGROUP];     /* the arrays of the threads; NULL: not in flight */
    uint64_t used[EMU_WARPGROUP]; /* the number of the last multiplication, plus 1, by thread */
    uint32_t columns;             /* 0: free */
    unsigned nthreads;            /* for which they are in flight */
    float tile[EMU_WGMMA_ROWS][EMU_WGMMA_COLUMNS];
};

struct emu_multiplication {
    struct symm_emulated_wgmma how;
    unsigned arrived; /* threads */
    struct emu_accumulators *d;
};

struct emu_warpgroup_thread {
    uint64_t issued;                                  /* multiplications */
    uint64_t committed, retired, ends[EMU_COMMITTED]; /* groups; where they end */
    bool fenced;                                      /* since it got accumulators back */
};

struct emu_warpgroup {
    struct emu_multiplication queue[EMU_AHEAD]; /* number n is in place n % EMU_AHEAD */
    uint64_t done[EMU_GROUP_WARPS];             /* multiplications, of each warp's rows */
    struct emu_accumulators *arrays;            /* EMU_ARRAYS */
    struct emu_warpgroup_thread threads[EMU_WARPGROUP];
    /* setmaxnreg */
    uint32_t registers, asked;
    bool grows;
    unsigned at_setmaxnreg; /* threads */
    uint64_t changes;
};

/* The running thread's warpgroup. A fault if it has not 128 threads. */
struct emu_warpgroup *emu__warpgroup(struct block *b);
/* Frees the memory of a block's warpgroups. */
void emu__warpgroups_free(struct emu_hopper *h);

/*
 * In weakly ordered memory: does the next multiplication of a warp. False: all are done to which
 * all threads of their warpgroup have come.
 */
bool emu__wgmma_work(struct block *b);

/* As in symm_emulated_hopper_ops. */
void emu__setmaxnreg(uint32_t registers, uint32_t grow);
void emu__wgmma_fence(void);
void emu__wgmma_commit(void);
void emu__wgmma_wait(uint32_t pending);
void emu__wgmma(float *d, const struct symm_emulated_wgmma *how);

#endif
