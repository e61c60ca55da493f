/*
 * Running grids: which blocks of a device run now (grid.c) and how one of them runs (block.h).
 */
#ifndef SYMM_GRID_H
#define SYMM_GRID_H

#include "emulator/streams/execution.h"

/* What two blocks of a multiprocessor share; with more than half of it a block has one alone. */
#define EMU_SHARED_NBYTES (227u << 10)
#define EMU_SMALL_PER_SM 2 /* blocks of a warp at most */

/* One run of a kernel. It lives on the stack of the stream's worker that runs it. */
struct emu_grid {
    const struct symm_emulated_kernel *kernel;
    const void *args;
    struct symm_emulated_dim grid_dim, block_dim;
    size_t shared_nbytes;
    bool cooperative;
    int priority;
    /* The rest belongs to grid.c. */
    struct emu_execution *execution;
    struct emu_device *device;
    struct emu_grid *next;
    uint64_t seed;
    unsigned nthreads, slots; /* of one block */
    enum emu_slot_kind kind;
    uint64_t nblocks, started, ended;
    pthread_cond_t all_ended;
};

/* How many blocks of this shape one multiprocessor holds: 0 if none. */
int emu__blocks_per_sm(unsigned nthreads, size_t shared_nbytes);

/* Runs the grid to its end, or until the device fails. Called by the workers of streams. */
void emu__grid_run(struct emu_execution *execution, struct emu_grid *grid);

/* Ends the block threads of an execution that closes. With its lock. */
void emu__grid_close(struct emu_execution *execution);

/* Runs one block on this thread. */
void emu__block_run(struct emu_grid *grid, uint64_t index);
/* Frees what this thread keeps for running blocks. */
void emu__block_thread_end(void);
/* From now on a fault of kernel code ends its grid instead of the process. */
void emu__block_catch_faults(void);

/* What kernels get through symm_emulated_module.ops; the second is for weakly ordered memory. */
extern const struct symm_emulated_ops emu__block_ops[2];

/*
 * Starts a detached thread that takes no signals but those of its own faults. They are never
 * joined: at the end of the process they may be spinning in a kernel.
 */
bool emu__thread_start(void *(*run)(void *), void *arg);

#endif
