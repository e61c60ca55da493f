/*
 * This rank's side of symmetric memory: an address window for each rank, segments of device memory
 * mapped at the same offset in each window, and the table of allocations.
 */
#ifndef SYMM_MEMORY_H
#define SYMM_MEMORY_H

#include <pthread.h>
#include <symm/symm.h>
#include "runtime/exchange/exchange.h"
#include "runtime/driver/driver.h"

struct symm_memory;
struct symm_multicast;

struct symm_memory_config {
    const struct symm_driver *drv;
    const struct symm_log *log;
    struct symm_exchange *exchange;
    CUdevice device;
    int rank, nranks;          /* in the domain */
    const int *names;          /* the world ranks, for texts; NULL: the same */
    uint64_t window_nbytes;    /* agreed; a multiple of granularity */
    uint64_t granularity;      /* agreed: the largest minimum of all ranks, also for multicast */
    uint64_t alignment;        /* of the windows: recommended granularity */
    uint64_t segment_nbytes;   /* agreed: minimum size of a segment */
    const char *multicast_off; /* agreed: NULL, or the reason; lives as long as this */
    int timeout_ms;
};

/* Reserves the windows (address space only). Local. */
symm_status symm__memory_open(const struct symm_memory_config *config, struct symm_memory **out);
/*
 * Releases everything in the order that the driver requires. Local. Continues after failures;
 * returns the first.
 */
symm_status symm__memory_close(struct symm_memory *m);

/*
 * From now on accepts foreign memory up to the end of its last page, which the device can access.
 * Local; before other threads use m.
 */
void symm__memory_accept_pages(struct symm_memory *m);

enum symm_block_kind {
    SYMM_BLOCK_USER,
    SYMM_BLOCK_REGISTERED, /* memory of other code */
    SYMM_BLOCK_PAD,
    SYMM_BLOCK_INTERNAL
};

/*
 * Allocates on all ranks of the comm. Collective. owner: the group, for look-ups and
 * symm__memory_free_owner().
 */
symm_status symm__memory_alloc(struct symm_memory *m, struct symm_host_comm *comm,
                               const void *owner, enum symm_block_kind kind, size_t nbytes,
                               const char *what, void **out);

/*
 * The same for a comm that is being created. The comm's first vote was the SYMM_HEAP_ALLOC of
 * nbytes; answer: the arbiter's answer.
 */
symm_status symm__memory_adopt(struct symm_memory *m, struct symm_host_comm *comm,
                               const void *owner, enum symm_block_kind kind, size_t nbytes,
                               const uint64_t answer[4], void **out);

/*
 * Maps memory of other code in the windows. Collective. what: the call; nbytes is the same on all
 * ranks.
 */
symm_status symm__memory_register(struct symm_memory *m, struct symm_host_comm *comm,
                                  const void *owner, void *theirs, size_t nbytes, const char *what,
                                  void **out);

/*
 * Frees a block. Local; any thread. Errors: ERROR_ARGUMENT unless ptr is the start of a live user
 * block or pad of this owner and this keeper (NULL: without a keeper).
 */
symm_status symm__memory_free(struct symm_memory *m, const void *owner, void *ptr,
                              const void *keeper);
/* Frees an internal block of this owner that begins at ptr. Local; any thread. */
void symm__memory_free_internal(struct symm_memory *m, const void *owner, const void *ptr);
/*
 * Gives the user block that begins at ptr to keeper: from now on only keeper may free it, until the
 * owner frees everything. Local; any thread. Errors: those of freeing it without a keeper.
 */
symm_status symm__memory_give(struct symm_memory *m, const void *owner, void *ptr,
                              const void *keeper);
/* Frees all blocks of an owner on this rank, with and without a keeper. Local. */
void symm__memory_free_owner(struct symm_memory *m, const void *owner);
/* Returns segments without blocks to the device. Collective. */
symm_status symm__memory_trim(struct symm_memory *m, struct symm_host_comm *comm);

/*
 * Whether a kernel of this rank may use [ptr, ptr + nbytes): inside one live block, or other memory
 * that the device can access. If not, records a text as symm__memory_find(). May ask the driver.
 */
bool symm__memory_usable(struct symm_memory *m, const void *ptr, size_t nbytes);

/*
 * The same for kernels that may also use other ranks' copies. The text gives the address of this
 * rank's copy.
 */
bool symm__memory_reachable(struct symm_memory *m, const void *ptr, size_t nbytes);

/* The result of looking up a buffer of a call. */
struct symm_buffer {
    void *address;
    size_t nbytes;
    uint64_t offset; /* in the window, if `own` */
    uint64_t left;   /* bytes from the address to the end of the block, if `own` */
    bool own;        /* inside one live block of this rank */
    bool symmetric;  /* all of `members` also have the block */
    bool registered; /* memory that has another address, too */
};
/* Looks up [ptr, ptr + nbytes). Never asks the driver and records no text. */
struct symm_buffer symm__memory_resolve(struct symm_memory *m, const void *ptr, size_t nbytes,
                                        struct symm_rank_set members);

/*
 * Returns true if [ptr, ptr + nbytes) lies inside one live block that all of `members` have. *off:
 * the offset of ptr in the window. If false, records the reason as text: freed, foreign or too
 * short.
 */
bool symm__memory_find(struct symm_memory *m, const void *ptr, size_t nbytes,
                       struct symm_rank_set members, uint64_t *off);

/* Base of rank's window in this address space. */
char *symm__memory_window(const struct symm_memory *m, int rank);
void symm__memory_usage(struct symm_memory *m, symm_usage *out);

/*
 * Gets the multicast object of the comm's ranks. The first group of these ranks creates it; later
 * groups share it. Collective over the comm. Without multicast, sets *out to NULL and *off to the
 * agreed reason. Returns only failures that end the comm. off stays valid as long as the memory.
 * The votes are named after `call`, up to its parenthesis or colon.
 */
symm_status symm__multicast_obtain(struct symm_memory *m, struct symm_host_comm *comm,
                                   const char *call, struct symm_multicast **out, const char **off);
/* Drops a reference; the last one releases the object. Local. */
void symm__multicast_put_back(struct symm_memory *m, struct symm_multicast *mc);
/* Base of the multicast window; NULL if mc is NULL. */
char *symm__multicast_window(const struct symm_multicast *mc);
/* Whether the bytes at off are bound on all ranks of the object. */
bool symm__multicast_covers(const struct symm_multicast *mc, uint64_t off, size_t nbytes);

#endif
