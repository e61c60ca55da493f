/*
 * A run of a kernel, and the SMs of a device, which run its blocks. The streams' threads run grids
 * here; nothing in this room knows of streams.
 */
#ifndef SYMM_EMULATOR_GRID_H
#define SYMM_EMULATOR_GRID_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <symm/detail/emulated.h>
#include "places.h"

struct emu_cluster;
struct emu_device;

/* The shared memory of an SM, the system's part of it in each block, and the most of a block. */
#define EMU_SHARED_OF_SM (228u << 10)
#define EMU_SHARED_OF_SYSTEM (1u << 10)
#define EMU_SHARED_NBYTES (EMU_SHARED_OF_SM - EMU_SHARED_OF_SYSTEM)
#define EMU_REGISTERS (64u << 10) /* of an SM */

/* Of dynamic shared memory. Swizzled tensors repeat their pattern after as many bytes. */
#define EMU_SHARED_ALIGNMENT 1024u

/* Places of kernels that may have more than one warp a block, and of kernels that never do. */
enum emu_place_kind { EMU_LARGE, EMU_SMALL, EMU_PLACE_KINDS };
#define EMU_PLACES_OF_SM 2u /* of a kind, at most */

/* The SMs of one device. Referenced by its owner and by each thread that runs blocks. */
struct emu_sms;

/* NULL: no memory. */
struct emu_sms *emu__sms_create(struct emu_device *device);
/* Ends the block threads. No grid runs and none comes any more. */
void emu__sms_close(struct emu_sms *sms);
void emu__sms_release(struct emu_sms *sms);

/* One run of a kernel, on the stack of the thread that runs it. */
struct emu_grid {
    const struct symm_emulated_kernel *kernel;
    void *(*static_shared)(void); /* of its image; NULL: the image has none */
    const void *args;
    struct symm_emulated_dim grid_dim, block_dim;
    struct symm_emulated_dim cluster_dim; /* {1, 1, 1}: no clusters */
    size_t shared_nbytes;
    bool cooperative;
    int priority;
    struct emu_grid *before; /* the grid that it may overlap, kept until both end; NULL: none */
    /* Filled in by emu__grid_begin. */
    struct emu_sms *sms;
    struct emu_device *device;
    struct emu_grid *next;
    uint64_t seed;
    unsigned nthreads, size; /* of one block: threads, and places */
    enum emu_place_kind kind;
    unsigned cluster_blocks;
    /* Blocks that get their places together: a cluster, or all of a cooperative grid. */
    uint64_t bundle;
    uint16_t sms_of_bundle[EMU_SMS_MAX * EMU_PLACES_OF_SM]; /* of the one that starts last */
    uint64_t nblocks, started, ended;
    uint64_t released;           /* blocks that allow the next grid to begin, or have ended */
    atomic_bool over;            /* all blocks have ended; set with the lock, last of all */
    struct emu_cluster *cluster; /* the one that starts last; NULL: no clusters */
    pthread_cond_t all_ended;
};

/* A block of a grid. The blocks of a cluster follow each other. */
struct emu_place {
    uint64_t index;
    struct emu_cluster *cluster; /* NULL: no clusters */
    uint16_t sm;
};

/* Runs the grid to its end, or until the device fails. */
void emu__grid_run(struct emu_sms *sms, struct emu_grid *grid);

/* The same in steps: begin; then await until it returns true; then end. */
void emu__grid_begin(struct emu_sms *sms, struct emu_grid *grid);
/* Waits a short time. Returns whether the grid and the one before have ended. */
bool emu__grid_await(struct emu_grid *grid);
void emu__grid_end(struct emu_grid *grid);
/* Whether the next grid may begin: all blocks allow it, and the grid before this one has ended. */
bool emu__grid_released(const struct emu_grid *grid);
/* A block of the grid allows the next one to begin, or has ended. Once for each block. */
void emu__grid_release(struct emu_grid *grid);
/* Whether all blocks have ended. NULL: yes. */
bool emu__grid_over(const struct emu_grid *grid);

/*
 * How many blocks of the kernel one SM holds; 0 if none. A thread has as many registers as the
 * bounds of its kernel allow: a GPU may hold more blocks, if the kernel was compiled to fewer.
 */
int emu__blocks_per_sm(const struct symm_emulated_kernel *kernel, unsigned nthreads,
                       size_t shared_nbytes);

/* Runs one block on this thread (block.c). */
void emu__block_run(struct emu_grid *grid, const struct emu_place *place);
/* Frees what this thread keeps for running blocks (block.c). */
void emu__block_thread_end(void);

/* From now on a fault of kernel code ends its grid instead of the process (block_fault.c). */
void emu__block_catch_faults(void);

/* The value of symm_emulated_module.ops, by emu_machine.early and .weak (block_ops.c). */
extern const struct symm_emulated_ops emu__block_ops[2][2];

#endif
