/* Room for the events of traced products, and their copy on the host. */
#include "trace.h"

#include <stdlib.h>
#include <symm/names.h>
#include "runtime/base/numbers.h"
#include "runtime/group/group.h"

enum { ROOM_NBYTES = sizeof(symm_trace) + SYMM_TRACE_CAPACITY * sizeof(symm_matmul_event) };

/* Device memory: a symm_trace and its events. */
struct symm_trace_room {
    struct symm_trace_room *next;
    struct rooms *from;
    CUdeviceptr at;
    uint32_t *sends; /* pinned: where the count of events begins in each run */
};

/* The rooms of a context. */
struct rooms {
    struct symm_attachment attachment; /* of the world */
    struct symm_context *ctx;
    struct symm_trace_room *spare; /* of destroyed products: freeing would wait for the device */
};

/* Guards the contexts' rooms. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* -------------------------------------------------------------------------------- on the device */

static void free_room(const struct symm_driver *drv, struct symm_trace_room *room)
{
    if (room->at)
        drv->cuMemFree(room->at);
    if (room->sends)
        drv->cuMemFreeHost(room->sends);
    free(room);
}

static void free_rooms(struct symm_attachment *attachment)
{
    struct rooms *rooms = (struct rooms *)attachment;

    while (rooms->spare) {
        struct symm_trace_room *next = rooms->spare->next;
        free_room(rooms->ctx->drv, rooms->spare);
        rooms->spare = next;
    }
    free(rooms);
}

/* With the lock. NULL: out of host memory. */
static struct rooms *rooms_of(struct symm_context *ctx)
{
    struct rooms *rooms = (struct rooms *)symm__group_attachment(ctx->domain, free_rooms);

    if (rooms)
        return rooms;
    rooms = calloc(1, sizeof *rooms);
    if (!rooms)
        return NULL;
    rooms->attachment.release = free_rooms;
    rooms->ctx = ctx;
    symm__group_attach(ctx->domain, &rooms->attachment);
    return rooms;
}

/* Returns a spare room, or one without its memory. NULL: out of host memory. */
static struct symm_trace_room *take_room(struct symm_context *ctx)
{
    struct symm_trace_room *room = NULL;
    struct rooms *rooms;

    pthread_mutex_lock(&lock);
    rooms = rooms_of(ctx);
    if (rooms && rooms->spare) {
        room = rooms->spare;
        rooms->spare = room->next;
    } else if (rooms && (room = calloc(1, sizeof *room))) {
        room->from = rooms;
    }
    pthread_mutex_unlock(&lock);
    return room;
}

static void put_back(struct symm_trace_room *room)
{
    pthread_mutex_lock(&lock);
    room->next = room->from->spare;
    room->from->spare = room;
    pthread_mutex_unlock(&lock);
}

symm_status symm__trace_open(struct symm_context *ctx, symm_view *view,
                             struct symm_product_trace *out)
{
    struct symm_trace_room *room;
    symm_status st;

    TRY(symm__kernels_load(ctx, ctx->kernels, SYMM_IMAGES_TRACES));
    room = take_room(ctx);
    if (!room)
        return symm__fail(SYMM_ERROR_MEMORY, "out of host memory");
    out->room = room;
    if (!room->at)
        TRY_CU(ctx->drv, cuMemAlloc, &room->at, ROOM_NBYTES);
    if (!room->sends)
        TRY_CU(ctx->drv, cuMemHostAlloc, (void **)&room->sends, sizeof *room->sends, 0);
    SYMM_TRACE_OF(*view) = room->at;
    TRY(symm__trace_clear(out, ctx->own_stream, 0));
    TRY_CU(ctx->drv, cuStreamSynchronize, ctx->own_stream);
out:
    return st;
}

void symm__trace_close(struct symm_product_trace *trace)
{
    if (trace->room)
        put_back(trace->room);
    free(trace->events);
    *trace = (struct symm_product_trace){.room = NULL};
}

/*
 * A copy, which needs no SM: other groups' products may occupy them all, and wait for this run. All
 * else of an event is written when it ends.
 */
symm_status symm__trace_clear(const struct symm_product_trace *trace, CUstream stream,
                              uint32_t sends)
{
    const struct symm_trace_room *room = trace->room;
    symm_status st = SYMM_OK;

    *room->sends = sends; /* the same in all runs */
    TRY_CU(room->from->ctx->drv, cuMemcpyAsync, room->at + offsetof(symm_trace, count),
           (CUdeviceptr)(uintptr_t)room->sends, sizeof *room->sends, stream);
out:
    return st;
}

/* ---------------------------------------------------------------------------------- on the host */

static symm_status fetch(const struct symm_trace_room *room, uint64_t at, void *out, size_t nbytes)
{
    const struct symm_context *ctx = room->from->ctx;
    symm_status st = SYMM_OK;

    TRY_CU(ctx->drv, cuMemcpyAsync, (CUdeviceptr)(uintptr_t)out, room->at + at, nbytes,
           ctx->own_stream);
    TRY_CU(ctx->drv, cuStreamSynchronize, ctx->own_stream);
out:
    return st;
}

/* By begin; of two that begin together, the longer one first. */
static int compare(const void *x, const void *y)
{
    const symm_matmul_event *a = x, *b = y;

    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return a->end == b->end ? 0 : a->end > b->end ? -1 : 1;
}

symm_status symm__trace_read(struct symm_product_trace *trace, const symm_matmul_event **events,
                             size_t *nevents, size_t *ndropped)
{
    symm_matmul_event *read = NULL;
    symm_trace head;
    size_t n;
    symm_status st;

    TRY(fetch(trace->room, 0, &head, sizeof head));
    n = symm__min(head.count, SYMM_TRACE_CAPACITY);
    if (n > 0) {
        read = malloc(n * sizeof *read);
        if (!read)
            return symm__fail(SYMM_ERROR_MEMORY, "out of host memory");
        TRY(fetch(trace->room, sizeof head, read, n * sizeof *read));
    }
    free(trace->events);
    trace->events = read;
    *events = read;
    *nevents = n;
    *ndropped = head.count - n;
    if (read)
        qsort(read, n, sizeof *read, compare);
    read = NULL;
out:
    free(read);
    return st;
}
