/*
 * The context and the group as the runtime sees them: plain structs, filled in by context.c and
 * group.c.
 */
#ifndef SYMM_CONTEXT_H
#define SYMM_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <symm/collectives.h>
#include "runtime/exchange/exchange.h"
#include "runtime/driver/driver.h"
#include "runtime/memory/heap.h"
#include "runtime/memory/memory.h"
#include "stall.h"

/*
 * What all ranks of the world have agreed on when the context was created; plans are computed from
 * this only.
 */
struct symm_agreed {
    int nranks;
    int nsms;          /* the fewest of any rank */
    int max_threads;   /* of a block; the fewest of any rank */
    int compute_major; /* the lowest of any rank */
    int check;         /* SYMM_CHECK */
    uint32_t epoch_start;
    uint64_t staging_nbytes;
    uint64_t window_nbytes;
    uint64_t matmul_engine_nbytes;
    char multicast_off[256]; /* empty: the machine can */
};

struct symm_kernels;     /* the library's own, loaded: kernel.h */
struct symm_tuning;      /* what AUTO goes by: tuning.h */
struct symm_side_stream; /* a stream for copies: side.h */
struct symm_cublas;

struct symm_device_block { /* of symm_device_alloc() */
    struct symm_device_block *next;
    CUdeviceptr ptr;
};

/* Of symm_signal_pad_alloc(); any group with as many ranks, all of which have it, may use it. */
struct symm_user_pad {
    struct symm_user_pad *next;
    const struct symm_group *owner;
    const symm_signal_pad *pad;
    int nchannels, nranks;
};

struct symm_context {
    const struct symm_driver *drv;
    struct symm_log log;
    struct symm_join join;
    int timeout_ms, slow_ms;
    pid_t pid;
    CUdevice device;
    CUcontext primary;
    CUcontext before; /* what was current in the creating thread */
    struct symm_heap *heap;
    struct symm_exchange *exchange;
    struct symm_memory *memory;
    struct symm_agreed agreed;
    struct symm_kernels *kernels;
    struct symm_tuning *tuning;           /* NULL: AUTO goes by its model */
    struct symm_abort_lines *abort_lines; /* abort words, records of waits, poison words */
    struct symm_group *world;
    struct symm_cublas *cublas;  /* what products have of cuBLASLt; NULL: not looked for yet */
    pthread_mutex_t groups_lock; /* guards the list, which the I/O thread walks */
    struct symm_group *groups;
    pthread_mutex_t owned_lock; /* guards what users made and have not given back */
    struct symm_kernel *user_kernels;
    struct symm_device_block *device_blocks;
    struct symm_user_pad *user_pads;
    CUstream own_stream; /* for zeroing pads; never given out */
};

struct symm_group {
    struct symm_context *ctx;
    struct symm_group *next;
    struct symm_host_comm *comm;
    int rank, nranks;
    struct symm_rank_set members;
    symm_view view; /* handed out as it is */
    struct symm_multicast *mc;
    const char *multicast_off; /* NULL: on */
    symm_signal_pad *pad;      /* the library's own channels */
    char *staging;             /* window address of this rank's staging area */
    size_t staging_nbytes;
    symm_packet *packets;         /* window address of this rank's packet area */
    uint32_t block_packets;       /* what each of SYMM_BLOCKS_MAX blocks has of it */
    struct symm_abort_line *line; /* this group's abort word, record, poison */
    struct symm_stall stall;      /* touched by the I/O thread only */
    atomic_bool ended;            /* the comm has its sticky status */
    CUevent last;                 /* after the last call outside of captures */
    CUstream last_stream;
    bool has_last;
    bool has_unrecorded; /* work was enqueued that no event tells the end of */
    CUstream captured;   /* the last stream of a call within a capture */
    bool has_captured;
    struct symm_side_stream *side_streams; /* NULL: never needed */
    pthread_mutex_t lock;                  /* guards what follows */
    struct symm_attachment *attachments;
    /* For the other ranks, when one stalls: */
    uint64_t ncalls;                /* that all ranks make */
    char enqueued[SYMM_CALL_MAX];   /* "call 12: symm_all_reduce(...)", the last one */
    char collective[SYMM_CALL_MAX]; /* "symm_alloc(...)", the host's last one */
    bool in_collective;             /* and it has not returned */
    bool collective_last;           /* it began behind `enqueued` */
    bool has_graphs;                /* with calls of this group, which may be replayed any time */
};

/* Channels of a group's own pad: the stream barrier's, then two for each block of a collective. */
enum { SYMM_CHANNEL_BARRIER = 0, SYMM_CHANNEL_BLOCKS = 1, SYMM_BLOCKS_MAX = 128 };

#endif
