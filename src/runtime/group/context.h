/* The context and the group: plain structs, filled in by context.c and group.c. */
#ifndef SYMM_CONTEXT_H
#define SYMM_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>
#include <symm/collectives.h>
#include "runtime/base/fork_mark.h"
#include "runtime/base/late_text.h"
#include "runtime/base/presence.h"
#include "runtime/exchange/exchange.h"
#include "runtime/driver/driver.h"
#include "runtime/memory/heap.h"
#include "runtime/memory/memory.h"
#include "areas.h"
#include "settled.h"
#include "stall.h"

/*
 * Values that all ranks agreed on when the context was created. Plans depend on these values only.
 */
struct symm_agreed {
    int nranks;
    int nsms;          /* the fewest of all ranks */
    int max_threads;   /* of a block; the fewest of all ranks */
    int compute_major; /* the lowest of all ranks */
    int check;         /* SYMM_CHECK */
    uint32_t epoch_start;
    uint64_t staging_nbytes;
    uint64_t window_nbytes;
    uint64_t matmul_engine_nbytes;
    char multicast_off[256]; /* empty: all ranks have multicast */
};

struct symm_kernels;      /* the library's loaded kernels: kernel.h */
struct symm_tuning;       /* measurements for AUTO: tuning.h */
struct symm_last_planned; /* the plan of the last collective: collectives/planned.h */
struct symm_side_stream;  /* streams for copies: side_stream.h */
struct symm_known_stream; /* streams made by symm_stream_create(): known_stream.h */

/* The name of a kernel of the user, for texts about its launches. They may outlive the kernel. */
struct symm_kernel_name {
    struct symm_kernel_name *next;
    char text[];
};

struct symm_plain_block { /* of symm_device_alloc() or symm_host_alloc() */
    struct symm_plain_block *next;
    void *ptr;
    bool on_host;
};

/*
 * A pad of symm_signal_pad_alloc(). A group may use it if it has as many ranks and all of them have
 * the pad.
 */
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
    bool hold; /* symm_config.hold */
    struct symm_fork_mark process;
    CUdevice device;
    CUcontext primary;
    CUcontext before; /* the current context of the creating thread */
    struct symm_heap *heap;
    struct symm_exchange *exchange;
    struct symm_memory *memory;
    struct symm_presence presence; /* of the domain, for multicast */
    struct symm_agreed agreed;
    struct symm_kernels *kernels;
    struct symm_tuning *tuning;           /* NULL: AUTO uses its model */
    struct symm_abort_lines *abort_lines; /* abort words, records of waits, poison words */
    struct symm_group *world;    /* all ranks; of a job with several domains: without memory */
    struct symm_group *domain;   /* the ranks of this domain; the world if there is no other */
    pthread_mutex_t groups_lock; /* guards the list, which the I/O thread reads */
    struct symm_group *groups;
    pthread_mutex_t owned_lock; /* guards the lists of objects that the user created */
    struct symm_kernel *user_kernels;
    struct symm_kernel_name *kernel_names; /* each once */
    struct symm_plain_block *plain_blocks;
    struct symm_user_pad *user_pads;
    CUstream own_stream; /* zeroes pads; internal */
    struct symm_settled settled;
};

/*
 * Time for peers to become quiet, before multicast is released without a vote: an end reaches the
 * ranks at different times, and a peer that still reads through the switch would fault on unbound
 * memory. Other reads are safe, since the reader's own mapping keeps the memory alive.
 */
enum { SYMM_QUIET_MS = 3000 };

/* A call that was enqueued on a group. */
struct symm_enqueued {
    struct symm_late_text call; /* "symm_all_reduce(...)" */
    uint64_t number;            /* calls that all ranks make, up to and with this one */
    bool all_ranks;             /* it is one of them */
};

struct symm_group {
    struct symm_context *ctx;
    struct symm_group *next;
    struct symm_host_comm *comm;
    int rank, nranks;
    struct symm_domains *domains;       /* NULL: all ranks are in one domain */
    _Atomic(struct symm_group *) inner; /* see symm__domains_inner(); NULL: there is none */
    struct symm_rank_set members;       /* of this domain */
    symm_view view;                     /* as symm_group_view() returns it */
    struct symm_multicast *mc;
    const char *multicast_off;     /* NULL: on */
    struct symm_areas first, full; /* full: none until a call wants them (areas.h) */
    bool areas_refused;            /* the full areas could not be made, on all ranks */
    struct symm_abort_line *line;  /* the group's abort word, record and poison word */
    struct symm_stall stall;       /* used by the I/O thread only */
    atomic_bool ended;             /* the comm has ended */
    atomic_bool released;          /* this rank has aborted or destroys the group: nothing holds */
    /* The last call outside of captures: */
    CUstream last_stream;
    struct symm_known_stream *known; /* its stream; NULL: symm did not make the stream, and */
    CUevent last;                    /* this is recorded behind the call */
    bool has_last;
    bool has_unrecorded; /* work was enqueued after which no event was recorded */
    CUstream captured;   /* the stream of the last call within a capture */
    bool has_captured;
    bool settled; /* the kernel in front of the call's next launch: see symm__call_settles() */
    struct symm_side_stream *side_streams;  /* NULL: none used so far */
    struct symm_last_planned *last_planned; /* NULL: no collective so far */
    pthread_mutex_t lock;                   /* guards the members below */
    struct symm_attachment *attachments;
    /* For texts when a rank stalls: */
    uint64_t ncalls;                /* calls that all ranks make */
    struct symm_enqueued enqueued;  /* the last */
    char collective[SYMM_CALL_MAX]; /* the host's last: "symm_alloc(...)" */
    bool in_collective;             /* it has not returned */
    bool collective_last;           /* it began behind `enqueued` */
    /* calls of this group were captured, and graphs may replay them at any time */
    bool has_graphs;
};

/* This rank's numbers in the group and in the world, for symm__fail_on(). */
#define SYMM_ON(group) (group)->rank, (group)->ctx->join.world_rank

/* The areas of the next call: the full ones, without them the first ones. */
static inline const struct symm_areas *symm__group_areas(const struct symm_group *group)
{
    return group->full.staging ? &group->full : &group->first;
}

/*
 * Channels of a group's own pad: one of the stream barrier, then two for each block of a
 * collective.
 */
enum { SYMM_CHANNEL_BARRIER = 0, SYMM_CHANNEL_BLOCKS = 1, SYMM_BLOCKS_MAX = 128 };

#endif
