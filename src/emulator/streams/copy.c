/*
 * Copies and fills. Both sides are checked at the call and again when the copy runs. Pageable host
 * memory is copied into a staging buffer before the call returns. A call that copies into pageable
 * memory waits for the copy.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include "emulator/memory/address.h"
#include "emulator/state/call.h"
#include "emulator/state/machine.h"
#include "capture.h"
#include "queue.h"

#define CUT 16u               /* a copy is cut at multiples of this */
#define LATE_MAX_NS 40000u    /* delay of its first part */
#define PITCH_MAX 2147483647u /* CU_DEVICE_ATTRIBUTE_MAX_PITCH */

struct copy_work {
    struct emu_work work;
    const char *name; /* of the call, for reports */
    char *dst;
    const char *src; /* NULL: a fill */
    size_t nbytes;
    size_t rows, dst_pitch, src_pitch; /* rows of nbytes each */
    uint32_t pattern;                  /* of a fill */
    size_t width;                      /* 1 or 4 */
    char *staged;                      /* owned copy of the source; NULL: not staged */
};

static void fill(char *at, size_t nbytes, uint32_t pattern, size_t width)
{
    if (width == 1) {
        memset(at, (int)(pattern & 0xff), nbytes);
        return;
    }
    uint32_t *words = (uint32_t *)(void *)at; /* aligned, and so is every mapping */
    for (size_t i = 0; i < nbytes / sizeof *words; i++)
        words[i] = pattern;
}

/*
 * Copies an aligned word with one release store: other ranks poll for it, and it must follow all
 * that its stream has copied before.
 */
static void move(char *to, const char *from, size_t nbytes)
{
    if (nbytes == sizeof(uint64_t) && (uintptr_t)to % sizeof(uint64_t) == 0) {
        uint64_t word;
        memcpy(&word, from, sizeof word);
        __atomic_store_n((uint64_t *)(void *)to, word, __ATOMIC_RELEASE);
    } else if (nbytes == sizeof(uint32_t) && (uintptr_t)to % sizeof(uint32_t) == 0) {
        uint32_t word;
        memcpy(&word, from, sizeof word);
        __atomic_store_n((uint32_t *)(void *)to, word, __ATOMIC_RELEASE);
    } else {
        memmove(to, from, nbytes);
    }
}

/* Copies the bytes [done, end) of a row between their home addresses. */
static void transfer(const struct copy_work *w, const struct emu_device *device, size_t row,
                     size_t done, size_t end)
{
    char *const to = w->dst + row * w->dst_pitch;
    const char *const from = w->src + row * w->src_pitch;

    while (done < end) {
        struct emu_address dst, src = {0};
        emu__address(device, to + done, &dst);
        size_t n = end - done < dst.run ? end - done : dst.run;
        if (w->src && !w->staged) {
            emu__address(device, from + done, &src);
            n = n < src.run ? n : src.run;
        }
        if (!w->src)
            fill(dst.home, n, w->pattern, w->width);
        else
            move(dst.home, w->staged ? w->staged + done : src.home, n);
        done += n;
    }
}

/*
 * With weakly ordered memory the last bytes may come first, and the others late. The next work of
 * the stream waits for all of them.
 */
static void transfer_weakly(const struct copy_work *w, const struct emu_device *device, size_t row)
{
    static _Atomic uint64_t transfers;
    uint64_t draw = emu__random(emu__machine.seed, atomic_fetch_add(&transfers, 1));
    size_t cut = draw % 4 ? 0 : (draw >> 8) % w->nbytes / CUT * CUT;
    transfer(w, device, row, cut, w->nbytes);
    if (cut > 0) {
        nanosleep(&(struct timespec){.tv_nsec = (long)((draw >> 32) % LATE_MAX_NS)}, NULL);
        transfer(w, device, row, 0, cut);
    }
}

/* Checks that a range is all memory of the driver, or none of it. */
static bool is_whole(const struct emu_device *device, const char *ptr, size_t nbytes, char *why,
                     size_t why_nbytes)
{
    struct emu_address first, address;
    emu__address(device, ptr, &first);
    for (size_t done = first.run; done < nbytes; done += address.run) {
        emu__address(device, ptr + done, &address);
        if ((address.kind == EMU_ADDRESS_FOREIGN) != (first.kind == EMU_ADDRESS_FOREIGN)) {
            snprintf(why, why_nbytes, "%zu bytes at %p: the range runs over the end of a mapping",
                     nbytes, (const void *)ptr);
            return false;
        }
    }
    return true;
}

/* Whether the process has memory in all pages of a range. */
static bool is_mapped(const char *ptr, size_t nbytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char resident[256];
    const uintptr_t end = (uintptr_t)ptr + nbytes;
    for (uintptr_t at = (uintptr_t)ptr / page * page; at < end; at += sizeof resident * page) {
        size_t n = end - at < sizeof resident * page ? end - at : sizeof resident * page;
        if (mincore((void *)at, n, resident) != 0 && errno == ENOMEM)
            return false;
    }
    return true;
}

/* Checks that foreign memory exists. The address of freed memory looks like foreign memory. */
static bool is_there(const struct emu_device *device, const char *ptr, size_t nbytes, char *why,
                     size_t why_nbytes)
{
    struct emu_address first;
    emu__address(device, ptr, &first);
    if (first.kind != EMU_ADDRESS_FOREIGN || is_mapped(ptr, nbytes))
        return true;
    snprintf(why, why_nbytes, "%zu bytes at %p: freed, or never memory of this process", nbytes,
             (const void *)ptr);
    return false;
}

static bool side_allowed(const struct emu_device *device, const char *ptr, size_t nbytes,
                         int access, char *why, size_t why_nbytes)
{
    return emu__accessible(device, ptr, nbytes, access, why, why_nbytes) &&
           is_whole(device, ptr, nbytes, why, why_nbytes) &&
           is_there(device, ptr, nbytes, why, why_nbytes);
}

static bool allowed(const struct copy_work *w, const struct emu_device *device, char *why,
                    size_t why_nbytes)
{
    for (size_t row = 0; row < w->rows; row++)
        if (!side_allowed(device, w->dst + row * w->dst_pitch, w->nbytes, EMU_WRITE, why,
                          why_nbytes) ||
            (w->src && !w->staged &&
             !side_allowed(device, w->src + row * w->src_pitch, w->nbytes, EMU_READ, why,
                           why_nbytes)))
            return false;
    return true;
}

/* Whether a byte is both read and written: it may be written first. */
static bool overlaps(const struct copy_work *w)
{
    size_t to = 0, from = 0; /* rows */
    while (w->src && to < w->rows && from < w->rows) {
        const char *dst = w->dst + to * w->dst_pitch, *src = w->src + from * w->src_pitch;
        if (dst + w->nbytes <= src)
            to++;
        else if (src + w->nbytes <= dst)
            from++;
        else
            return true;
    }
    return false;
}

static void copy_run(struct emu_work *work, struct CUstream_st *stream)
{
    const struct copy_work *w = (struct copy_work *)work;
    struct emu_device *device = stream->execution->device;
    char why[256];
    if (allowed(w, device, why, sizeof why)) {
        for (size_t row = 0; row < w->rows; row++)
            if (emu__machine.weak)
                transfer_weakly(w, device, row);
            else
                transfer(w, device, row, 0, w->nbytes);
    } else {
        emu__rule_at(device->ordinal, w->name, CUDA_ERROR_ILLEGAL_ADDRESS, "%s", why);
        emu__device_fail(device, CUDA_ERROR_ILLEGAL_ADDRESS);
    }
}

static void copy_destroy(struct emu_work *work)
{
    struct copy_work *w = (struct copy_work *)work;
    free(w->staged);
    free(w);
}

static struct copy_work *copy_create(const char *name, CUdeviceptr dst, size_t nbytes)
{
    struct copy_work *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->work = (struct emu_work){.references = 1, .run = copy_run, .destroy = copy_destroy};
    w->name = name;
    w->dst = (char *)(uintptr_t)dst;
    w->nbytes = nbytes;
    w->rows = 1;
    return w;
}

/* Takes over the work. `stage`: copies its source before returning. */
static CUresult check_and_enqueue(struct CUstream_st *stream, struct copy_work *w, bool stage)
{
    CUresult result = CUDA_SUCCESS;
    char why[256];
    if (!allowed(w, stream->execution->device, why, sizeof why))
        result = emu__rule(CUDA_ERROR_INVALID_VALUE, "%s", why);
    else if (overlaps(w))
        result = emu__rule(CUDA_ERROR_INVALID_VALUE,
                           "the source at %p and the target at %p overlap, %zu rows of %zu bytes",
                           (const void *)w->src, (void *)w->dst, w->rows, w->nbytes);
    else if (stage && !(w->staged = malloc(w->nbytes)))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result != CUDA_SUCCESS) {
        copy_destroy(&w->work);
        return result;
    }
    if (stage)
        memcpy(w->staged, w->src, w->nbytes);
    return emu__stream_enqueue(stream, &w->work);
}

static bool is_pageable(const struct emu_device *device, CUdeviceptr ptr)
{
    struct emu_address address;
    emu__address(device, (const void *)(uintptr_t)ptr, &address);
    return address.kind == EMU_ADDRESS_FOREIGN;
}

static CUresult copy(struct CUstream_st *stream, CUdeviceptr dst, CUdeviceptr src, size_t nbytes)
{
    struct emu_device *device = stream->execution->device;
    struct copy_work *w = copy_create("cuMemcpyAsync", dst, nbytes);
    if (!w)
        return CUDA_ERROR_OUT_OF_MEMORY;
    w->src = (const char *)(uintptr_t)src;
    bool capturing = emu__capturing(stream);
    bool wait = is_pageable(device, dst) && !capturing;
    /* A captured copy reads its source at each replay. */
    bool stage = is_pageable(device, src) && !wait && !capturing;
    CUresult result = check_and_enqueue(stream, w, stage);
    if (result != CUDA_SUCCESS || !wait)
        return result;
    emu__stream_wait(stream);
    return emu__sticky(stream->execution);
}

CUresult emu_cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t nbytes, CUstream stream)
{
    EMU_BEGIN_HEALTHY("dst=%#llx src=%#llx nbytes=%zu stream=%p", dst, src, nbytes, (void *)stream);
    struct CUstream_st *s;
    CUresult result = emu__stream_get(stream, true, &s);
    if (result == CUDA_SUCCESS && nbytes > 0)
        result = copy(s, dst, src, nbytes);
    return EMU_END(result);
}

/* Whether rows have room for `width` bytes, of which the first one is at x. */
static bool pitch_suits(size_t pitch, size_t x, size_t width)
{
    return pitch <= PITCH_MAX && width <= pitch && x <= pitch - width;
}

/* Copies rows between devices' memory, which is all that symm needs. */
static CUresult copy_rows(struct CUstream_st *stream, const CUDA_MEMCPY2D *c)
{
    const CUdeviceptr dst = c->dstDevice + c->dstY * c->dstPitch + c->dstXInBytes,
                      src = c->srcDevice + c->srcY * c->srcPitch + c->srcXInBytes;
    struct emu_device *device = stream->execution->device;

    if (c->srcMemoryType != CU_MEMORYTYPE_DEVICE || c->dstMemoryType != CU_MEMORYTYPE_DEVICE ||
        is_pageable(device, dst) || is_pageable(device, src))
        return emu__rule(CUDA_ERROR_INVALID_VALUE,
                         "rows are copied from device memory to device memory only");
    if (!pitch_suits(c->srcPitch, c->srcXInBytes, c->WidthInBytes) ||
        !pitch_suits(c->dstPitch, c->dstXInBytes, c->WidthInBytes))
        return emu__rule(CUDA_ERROR_INVALID_VALUE,
                         "rows of %zu bytes, from x = %zu to x = %zu, with pitches %zu and %zu",
                         c->WidthInBytes, c->srcXInBytes, c->dstXInBytes, c->srcPitch, c->dstPitch);
    struct copy_work *w = copy_create("cuMemcpy2DAsync", dst, c->WidthInBytes);
    if (!w)
        return CUDA_ERROR_OUT_OF_MEMORY;
    w->src = (const char *)(uintptr_t)src;
    w->rows = c->Height;
    w->dst_pitch = c->dstPitch;
    w->src_pitch = c->srcPitch;
    return check_and_enqueue(stream, w, false);
}

CUresult emu_cuMemcpy2DAsync(const CUDA_MEMCPY2D *c, CUstream stream)
{
    EMU_BEGIN_HEALTHY("copy=%p stream=%p", (const void *)c, (void *)stream);
    struct CUstream_st *s;
    CUresult result = emu__stream_get(stream, true, &s);
    if (result == CUDA_SUCCESS && !c)
        result = emu__rule(CUDA_ERROR_INVALID_VALUE, "copy is NULL");
    if (result == CUDA_SUCCESS && c->WidthInBytes > 0 && c->Height > 0)
        result = copy_rows(s, c);
    return EMU_END(result);
}

static CUresult set(const char *name, CUdeviceptr dst, uint32_t pattern, size_t width, size_t n,
                    CUstream stream)
{
    struct CUstream_st *s;
    CUresult result = emu__stream_get(stream, true, &s);
    if (result != CUDA_SUCCESS || n == 0)
        return result;
    if (dst % width != 0)
        return emu__rule(CUDA_ERROR_INVALID_VALUE, "the address is not a multiple of %zu", width);
    if (n > SIZE_MAX / width || is_pageable(s->execution->device, dst))
        return emu__rule(CUDA_ERROR_INVALID_VALUE, "not device memory: %#llx", dst);
    struct copy_work *w = copy_create(name, dst, n * width);
    if (!w)
        return CUDA_ERROR_OUT_OF_MEMORY;
    w->pattern = pattern;
    w->width = width;
    return check_and_enqueue(s, w, false);
}

CUresult emu_cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t n, CUstream stream)
{
    EMU_BEGIN_HEALTHY("dst=%#llx value=%u n=%zu stream=%p", dst, value, n, (void *)stream);
    return EMU_END(set("cuMemsetD8Async", dst, value, 1, n, stream));
}

CUresult emu_cuMemsetD32Async(CUdeviceptr dst, unsigned int value, size_t n, CUstream stream)
{
    EMU_BEGIN_HEALTHY("dst=%#llx value=%u n=%zu stream=%p", dst, value, n, (void *)stream);
    return EMU_END(set("cuMemsetD32Async", dst, value, 4, n, stream));
}
