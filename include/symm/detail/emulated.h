/*
 * The binary interface between the emulated driver and kernels compiled for it. cuModuleLoadData
 * gets a symm_emulated_module in place of a fat binary.
 *
 * A block is one thread of the operating system; its CUDA threads are fibers, which it runs
 * alternately. A kernel gives way only inside the functions below. After each of them it must call
 * `self` again, since another fiber of the block may have run (emulated_threads.cuh does that).
 */
#ifndef SYMM_DETAIL_EMULATED_H
#define SYMM_DETAIL_EMULATED_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SYMM_EMULATED_MAGIC "SYMMEMU" /* 8 bytes with the NUL */
#define SYMM_EMULATED_ABI 3u

struct symm_emulated_dim {
    uint32_t x, y, z;
};

struct symm_emulated_hopper_ops;

/* The indices and dimensions of a CUDA thread. */
struct symm_emulated_thread {
    struct symm_emulated_dim thread, block, block_dim, grid_dim;
};

/* The order in which a multimem reduction combines the replicas. */
enum symm_emulated_order { SYMM_EMULATED_BY_RANK, SYMM_EMULATED_REVERSED, SYMM_EMULATED_RANDOM };

/* Flags of symm_emulated_ops. */
enum {
    SYMM_EMULATED_WEAK =
        1, /* memory is weakly ordered: accesses go through read, write and update */
    SYMM_EMULATED_EARLY = 2 /* kernels may begin before the previous one has ended: see pdl */
};

/* Steps of programmatic dependent launch. */
enum { SYMM_EMULATED_PDL_WAIT, SYMM_EMULATED_PDL_RELEASE };

/* Kinds of access, bits. None: a plain access by a unicast address. */
enum {
    SYMM_EMULATED_RELAXED = 1,   /* of a flag or counter: never reads an old value */
    SYMM_EMULATED_MULTICAST = 2, /* of one replica, by a multicast address */
    SYMM_EMULATED_ASYNC = 4      /* by the copy unit, on behalf of the thread */
};

/* Effects of a fence, bits. Several in one call take effect in this order. */
enum {
    SYMM_EMULATED_BULK_WAIT = 1,   /* the thread's asynchronous copies are done */
    SYMM_EMULATED_ASYNC_FENCE = 2, /* later asynchronous copies see the memory as the thread does */
    SYMM_EMULATED_ALIAS_FENCE = 4, /* orders accesses by unicast and by multicast addresses */
    SYMM_EMULATED_RELEASE = 8,     /* all that the thread wrote or saw is visible to everyone */
    SYMM_EMULATED_ACQUIRE = 16,    /* later loads of the thread return no older values */
    SYMM_EMULATED_WARP = 32 /* __syncwarp: each thread of the warp sees all that the others saw */
};

/* The driver's functions for running kernels, set by cuModuleLoadData. Append only. */
struct symm_emulated_ops {
    uint32_t abi, flags;
    /* Returns the running CUDA thread. */
    const struct symm_emulated_thread *(*self)(void);
    /*
     * __syncthreads_or: returns in all threads whether any of them passed a non-zero value. Threads
     * that have ended count as arrived, here and in warp_exchange. Threads that wait for each other
     * in different places are a fault.
     */
    int (*sync_threads)(int value);
    /* A poll found nothing: lets other threads, blocks and ranks run. */
    void (*yield)(void);
    /*
     * Waits for the other threads of the warp in mask and gathers nbytes (at most 16) from each, at
     * all + lane * nbytes. Skips lanes outside of mask and lanes that have ended.
     */
    void (*warp_exchange)(uint32_t mask, const void *mine, size_t nbytes, void *all);
    /*
     * Finds the bound replicas behind nbytes at a multicast address, in the order of their visit,
     * and returns their number. A wrong or misaligned address or an unbound replica ends the kernel
     * with a fault that names rule and rank.
     */
    int (*replicas)(const void *multicast, size_t nbytes, void *out[]);
    /*
     * Returns the home address of these bytes, one for each byte in a process (ThreadSanitizer
     * identifies memory by its address). A fault if the device cannot access them.
     */
    void *(*home)(const void *ptr);
    /*
     * Ends the kernel with a device fault: a sticky CUDA_ERROR_ILLEGAL_ADDRESS (MISALIGNED_ADDRESS
     * if the rule begins with "misaligned"). Reports `rule` with kernel and rank. Does not return.
     */
    void (*fault)(const char *rule, const void *ptr);
    /*
     * Weakly ordered memory, only with SYMM_EMULATED_WEAK. Accesses 1, 2, 4, 8 or 16 aligned bytes.
     * p is an address that the device may access, or, with SYMM_EMULATED_MULTICAST, a replica that
     * `replicas` returned. A release store is fence(RELEASE) and then the host's store; an acquire
     * load is the host's load and then fence(ACQUIRE).
     */
    void (*read)(const void *p, size_t nbytes, void *out, uint32_t how);
    void (*write)(void *p, size_t nbytes, const void *value, uint32_t how);
    /* A reduction without a result: calls apply(home address, operand), which is atomic. */
    void (*update)(void *p, size_t nbytes, const void *operand,
                   void (*apply)(void *at, const void *operand), uint32_t how);
    void (*fence)(uint32_t fences);
    /* Before an atomic operation on p itself: drains this block's pending stores there. */
    void (*settle)(void *p, size_t nbytes);
    /*
     * The block's dynamic shared memory. A fault if its launch asked for none, or if it is not
     * aligned to `alignment` bytes.
     */
    void *(*dynamic_shared)(size_t alignment);
    /* %globaltimer: nanoseconds of a clock that all devices of the machine share. */
    uint64_t (*clock_ns)(void);
    /*
     * With SYMM_EMULATED_EARLY: waits for the end of the previous kernel of the stream, or allows
     * the next one to begin. Without it a kernel begins when the previous one has ended.
     */
    void (*pdl)(uint32_t step);
};

struct symm_emulated_kernel {
    const char *name;
    void (*run)(const void *args); /* called once by every CUDA thread */
    uint32_t args_nbytes, max_threads;
    uint32_t view_at;    /* the offset of its argument's member `view`, plus 1; 0: it has none */
    uint16_t registers;  /* of a thread, as SYMM_KERNEL_REGISTERS says; 0: it does not */
    uint16_t min_blocks; /* of max_threads on an SM, as SYMM_KERNEL_BOUNDS says; 0: 1 */
};

struct symm_emulated_module {
    char magic[8];
    uint32_t abi;
    uint32_t kernel_nbytes; /* of a struct symm_emulated_kernel; 0: up to max_threads */
    /* The kernels: pointers from first up to (not including) last. */
    const struct symm_emulated_kernel *const *first, *const *last;
    const struct symm_emulated_ops **ops; /* cuModuleLoadData stores the driver's functions here */
    const struct symm_emulated_hopper_ops **hopper; /* and here; see emulated_hopper.h */
    /* Returns a place among the __shared__ variables of the calling thread; NULL: not known. */
    void *(*static_shared)(void);
};

/*
 * The objects of the emulated driver that this process holds. Tests get them by
 * `int symm_emulated_objects(struct symm_emulated_objects *)`, an entry that
 * symm_context_driver_symbol() and cuGetProcAddress return by that name.
 *
 * More such entries:
 *   const char *symm_emulated_last_rule(void)       the last reported rule
 *   bool symm_emulated_set_fault(const char *spec)  new faults, as in SYMM_EMULATED_FAULT (NULL:
 *                                                   none), counted anew; false: malformed
 *   uint64_t symm_emulated_calls(int rank)          the rank's driver calls since then
 *   const char *symm_emulated_last_fault(void)      the last call since then that got a fault
 *   void symm_emulated_set_seed(uint64_t seed)      another SYMM_EMULATED_SEED from now on
 */
struct symm_emulated_objects {
    int64_t handles;      /* memory and multicast handles, one for every reference */
    int64_t mappings;     /* cuMemMap without cuMemUnmap */
    int64_t reservations; /* cuMemAddressReserve without cuMemAddressFree */
    int64_t binds;        /* multicast binds of this process */
    int64_t fds;          /* descriptors the driver holds itself */
    int64_t allocations;  /* cuMemAlloc */
    int64_t host_allocations;
    int64_t streams, events, graphs, graph_execs, modules;
    int64_t contexts; /* primary contexts retained */
    int64_t reserved[4];
};

#ifdef __cplusplus
}
#endif

#endif
