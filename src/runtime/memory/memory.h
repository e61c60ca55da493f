/*
 * This rank's side of symmetric memory: one address window per rank, segments of device memory
 * mapped at the same offset in each of them, and the table of what is allocated in them.
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
    int rank, nranks;
    uint64_t window_nbytes;    /* agreed; a multiple of granularity */
    uint64_t granularity;      /* agreed: the largest minimum of any rank, multicast's included */
    uint64_t alignment;        /* of the windows: the recommended granularity */
    uint64_t segment_nbytes;   /* agreed: least size of a segment */
    const char *multicast_off; /* agreed: NULL, or why not; lives as long as this */
    int timeout_ms;
};

/* Reserves the windows (address space only). Local. */
symm_status symm__memory_open(const struct symm_memory_config *config, struct symm_memory **out);
/*
 * Releases everything that is left, in the order the driver wants. Local; keeps going; returns the
 * first failure.
 */
symm_status symm__memory_close(struct symm_memory *m);

enum symm_block_kind { SYMM_BLOCK_USER, SYMM_BLOCK_PAD, SYMM_BLOCK_INTERNAL };

/*
 * Allocates on all ranks of the comm; owner is the group, for lookups and for freeing what it
 * leaves. Collective.
 */
symm_status symm__memory_alloc(struct symm_memory *m, struct symm_host_comm *comm,
                               const void *owner, enum symm_block_kind kind, size_t nbytes,
                               const char *what, void **out);

/*
 * The same for a comm that is being made: the arbiter has already decided (SYMM_HEAP_ALLOC as the
 * comm's first vote); answer is its answer, nbytes what was asked for.
 */
symm_status symm__memory_adopt(struct symm_memory *m, struct symm_host_comm *comm,
                               const void *owner, enum symm_block_kind kind, size_t nbytes,
                               const uint64_t answer[4], void **out);

/*
 * Local; any thread. ERROR_ARGUMENT unless ptr is the start of a live user block or pad of this
 * owner, which has been given to this keeper, or, with keeper NULL, to nobody.
 */
symm_status symm__memory_free(struct symm_memory *m, const void *owner, void *ptr,
                              const void *keeper);
/*
 * From now on only keeper may free the user block that begins at ptr, until the owner frees
 * everything. Local; any thread. Errors: as freeing it without a keeper
 */
symm_status symm__memory_give(struct symm_memory *m, const void *owner, void *ptr,
                              const void *keeper);
/* Frees everything of an owner, given or not, on this rank. Local. */
void symm__memory_free_owner(struct symm_memory *m, const void *owner);
/* Collective: gives segments without blocks back to the device. */
symm_status symm__memory_trim(struct symm_memory *m, struct symm_host_comm *comm);

/*
 * Whether a kernel of this rank may use [ptr, ptr + nbytes): memory that is not symm's and that the
 * device can access, or the inside of one live block. Otherwise false, with a text as of
 * symm__memory_find. May ask the driver.
 */
bool symm__memory_usable(struct symm_memory *m, const void *ptr, size_t nbytes);

/*
 * The same for a kernel of this rank that may also reach other ranks' copies. The text is of this
 * rank's copy.
 */
bool symm__memory_reachable(struct symm_memory *m, const void *ptr, size_t nbytes);

/* A buffer of a call, looked up. */
struct symm_buffer {
    void *address;
    size_t nbytes;
    uint64_t offset; /* in the window, if `own` */
    bool own;        /* inside one live block of this rank */
    bool symmetric;  /* and all of `members` have the block */
};
/* Looks [ptr, ptr + nbytes) up. Never asks the driver, and leaves no text. */
struct symm_buffer symm__memory_resolve(struct symm_memory *m, const void *ptr, size_t nbytes,
                                        struct symm_rank_set members);

/*
 * The offset of ptr in the window. True if [ptr, ptr + nbytes) is inside one live block that all of
 * `members` have; else false, with a text that says what ptr is (freed, foreign, too short).
 */
bool symm__memory_find(struct symm_memory *m, const void *ptr, size_t nbytes,
                       struct symm_rank_set members, uint64_t *off);

/* Base of rank's window, in this address space. */
char *symm__memory_window(const struct symm_memory *m, int rank);
void symm__memory_usage(struct symm_memory *m, symm_usage *out);

/*
 * The multicast object of a set of ranks: made with the first group over them, shared by the later
 * ones. Collective over the comm. Sets *out to NULL and *off to the agreed reason when there is
 * none; only failures that end the comm are returned. off stays valid as long as the memory.
 */
symm_status symm__multicast_obtain(struct symm_memory *m, struct symm_host_comm *comm,
                                   struct symm_multicast **out, const char **off);
/* Local; the last one releases it. */
void symm__multicast_put_back(struct symm_memory *m, struct symm_multicast *mc);
/* The base of the multicast window; NULL mc gives NULL. */
char *symm__multicast_window(const struct symm_multicast *mc);
/* Whether the bytes at off are bound on all ranks of the object. */
bool symm__multicast_covers(const struct symm_multicast *mc, uint64_t off, size_t nbytes);

#endif
