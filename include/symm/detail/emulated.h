/*
 * The binary interface between kernels compiled for the emulated driver and that driver. It stands
 * in place of the GPU's machine code: cuModuleLoadData gets a symm_emulated_module where it would
 * get a fat binary.
 *
 * A block is one thread of the operating system; its CUDA threads are fibers that this thread
 * interleaves. A kernel gives way only inside the functions below. After each of them the compiled
 * side must look up symm_emulated_self again, since another fiber of the block has run
 * (device_emulated.cuh does that).
 */
#ifndef SYMM_DETAIL_EMULATED_H
#define SYMM_DETAIL_EMULATED_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SYMM_EMULATED_MAGIC "SYMMEMU" /* 8 bytes with the NUL */
#define SYMM_EMULATED_ABI 1u

struct symm_emulated_dim {
    uint32_t x, y, z;
};

/* What a CUDA thread can ask about itself. */
struct symm_emulated_thread {
    struct symm_emulated_dim thread, block, block_dim, grid_dim;
};

/* How a multimem reduction combines the replicas: how the driver calls back into typed code. */
enum symm_emulated_order { SYMM_EMULATED_BY_RANK, SYMM_EMULATED_REVERSED, SYMM_EMULATED_RANDOM };

/* Flags of symm_emulated_ops. */
enum {
    SYMM_EMULATED_WEAK =
        1 /* memory is weakly ordered: accesses go through read, write and update */
};

/* How an access is made: bits. Without any it is a plain one, by a unicast address. */
enum {
    SYMM_EMULATED_RELAXED = 1,   /* of a flag or counter: it never reads what is stale */
    SYMM_EMULATED_MULTICAST = 2, /* of one replica, by way of a multicast address */
    SYMM_EMULATED_ASYNC = 4      /* by the copy unit, on behalf of the thread */
};

/* What a fence does: bits. Several in one call take effect in the order they stand in here. */
enum {
    SYMM_EMULATED_BULK_WAIT = 1,   /* the thread's asynchronous copies are done */
    SYMM_EMULATED_ASYNC_FENCE = 2, /* asynchronous copies that follow see what the thread sees */
    SYMM_EMULATED_ALIAS_FENCE = 4, /* orders accesses by unicast and by multicast addresses */
    SYMM_EMULATED_RELEASE = 8,     /* what the thread wrote, or has seen, is there for everyone */
    SYMM_EMULATED_ACQUIRE = 16,    /* the thread reads nothing older than this */
    SYMM_EMULATED_WARP = 32        /* __syncwarp: the threads of the warp see what each other saw */
};

/* What the driver offers to running kernels. Filled in by cuModuleLoadData. Append only. */
struct symm_emulated_ops {
    uint32_t abi, flags;
    /* The CUDA thread that runs now. */
    const struct symm_emulated_thread *(*self)(void);
    /*
     * __syncthreads_or: returns, in all threads alike, whether any of them came with a non-zero
     * value. Threads that have ended count as arrived, here and in warp_exchange; threads that wait
     * for each other in different places are a fault.
     */
    int (*sync_threads)(int value);
    /* A poll found nothing: let other threads, blocks and ranks run. */
    void (*yield)(void);
    /*
     * Meets the other threads of the warp named in mask and gathers nbytes (at most 16) from each:
     * all[lane] is at all + lane * nbytes; lanes outside of mask, and lanes that have ended, are
     * left alone.
     */
    void (*warp_exchange)(uint32_t mask, const void *mine, size_t nbytes, void *all);
    /*
     * The bound replicas behind nbytes at a multicast address, in the order in which to visit them.
     * Returns their number. A wrong address, an unbound replica or a misaligned one ends the kernel
     * with a fault that names rule and rank, as the hardware's would.
     */
    int (*replicas)(const void *multicast, size_t nbytes, void *out[]);
    /*
     * The one address at which this process keeps these bytes (for ThreadSanitizer, which goes by
     * address). A fault where the device cannot access them.
     */
    void *(*home)(const void *ptr);
    /*
     * Ends the kernel with a device fault: a sticky CUDA_ERROR_ILLEGAL_ADDRESS (MISALIGNED_ADDRESS
     * if the rule begins with "misaligned"), and `rule` reported with kernel and rank. It does not
     * return.
     */
    void (*fault)(const char *rule, const void *ptr);
    /*
     * Weakly ordered memory (src/emulator/blocks/weak.c); called only with SYMM_EMULATED_WEAK. 1, 2, 4, 8
     * or 16 bytes, aligned. p is an address that the device may access, or, with
     * SYMM_EMULATED_MULTICAST, a replica that `replicas` has returned. A store with release order
     * is fence(RELEASE) and then a store as it is; a load with acquire order is a load as it is and
     * then fence(ACQUIRE).
     */
    void (*read)(const void *p, size_t nbytes, void *out, uint32_t how);
    void (*write)(void *p, size_t nbytes, const void *value, uint32_t how);
    /* A reduction, which returns nothing: apply(where the bytes are, operand), atomically. */
    void (*update)(void *p, size_t nbytes, const void *operand,
                   void (*apply)(void *at, const void *operand), uint32_t how);
    void (*fence)(uint32_t fences);
    /* Before an atomic operation on p itself: what this block has pending there becomes real. */
    void (*settle)(void *p, size_t nbytes);
    void *reserved_ops[3];
};

struct symm_emulated_kernel {
    const char *name;
    void (*run)(const void *args); /* called once by every CUDA thread */
    uint32_t args_nbytes, max_threads;
    uint32_t view_at; /* where its argument has the member `view`, plus 1; 0: nowhere */
    uint32_t reserved;
};

struct symm_emulated_module {
    char magic[8];
    uint32_t abi;
    uint32_t kernel_nbytes; /* of a struct symm_emulated_kernel; 0: up to max_threads */
    /* The kernels: pointers from first up to (not including) last. */
    const struct symm_emulated_kernel *const *first, *const *last;
    const struct symm_emulated_ops **ops; /* cuModuleLoadData stores the driver's functions here */
};

/*
 * What this process holds of the emulated driver right now: for tests, which get
 * `int symm_emulated_objects(struct symm_emulated_objects *)` through symm_context_driver_symbol()
 * or cuGetProcAddress by that name.
 *
 * More entries of that kind:
 *   const char *symm_emulated_last_rule(void)       the last broken rule that was reported
 *   bool symm_emulated_set_fault(const char *spec)  new faults, as in SYMM_EMULATED_FAULT (NULL:
 *                                                   none), counted anew; false: malformed
 *   uint64_t symm_emulated_calls(int rank)          how many driver calls the rank has made since
 *                                                   then
 *   const char *symm_emulated_last_fault(void)      the call that was last made to fail since then
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
