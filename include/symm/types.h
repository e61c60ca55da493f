/*
 * symm/types.h - the types that all headers of symm share: status codes, element types, the view of
 * a group for kernels.
 *
 * For C11, C++11 and later, nvcc and the emulated build. Contains no functions.
 */
#ifndef SYMM_TYPES_H
#define SYMM_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SYMM_VERSION_MAJOR 0
#define SYMM_VERSION_MINOR 1
#define SYMM_VERSION_PATCH 0
#define SYMM_VERSION 100 /* major * 10000 + minor * 100 + patch */

#ifndef SYMM_API
#define SYMM_API __attribute__((visibility("default")))
#endif

/* All status codes with their meaning. Values never change. */
#define SYMM_STATUS_MAP(X)                                                                         \
    X(OK, 0, "success")                                                                            \
    X(ERROR_ARGUMENT, -1, "invalid argument; nothing happened")                                    \
    X(ERROR_SYSTEM, -2, "an operating system call failed")                                         \
    X(ERROR_DRIVER, -3, "a driver call failed")                                                    \
    X(ERROR_MEMORY, -4, "out of memory")                                                           \
    X(ERROR_UNSUPPORTED, -5, "cannot run here")                                                    \
    X(ERROR_MISMATCH, -6, "ranks called different things")                                         \
    X(ERROR_PEER, -7, "another rank died, left or aborted")                                        \
    X(ERROR_TIMEOUT, -8, "another rank is alive but late")                                         \
    X(ERROR_STATE, -9, "not now: capturing, forked or out of turn")                                \
    X(ERROR_VERSION, -10, "versions of symm differ")

typedef enum symm_status {
#define SYMM_STATUS_ENUM_(name, value, text) SYMM_##name = value,
    SYMM_STATUS_MAP(SYMM_STATUS_ENUM_)
#undef SYMM_STATUS_ENUM_
} symm_status;

/* All element types: value, bytes, name, short name. symm/names.h has functions for them. */
#define SYMM_DTYPE_MAP(X)                                                                          \
    X(FLOAT32, 1, 4, "float32", "fp32")                                                            \
    X(FLOAT16, 2, 2, "float16", "fp16")                                                            \
    X(BFLOAT16, 3, 2, "bfloat16", "bf16")                                                          \
    X(FLOAT64, 4, 8, "float64", "fp64")                                                            \
    X(INT32, 5, 4, "int32", "i32")                                                                 \
    X(INT64, 6, 8, "int64", "i64")                                                                 \
    X(UINT8, 7, 1, "uint8", "u8")                                                                  \
    X(FLOAT8_E4M3, 8, 1, "float8_e4m3", "e4m3")                                                    \
    X(FLOAT8_E5M2, 9, 1, "float8_e5m2", "e5m2")

typedef enum symm_dtype {
#define SYMM_DTYPE_ENUM_(id, value, nbytes, name, short_name) SYMM_##id = value,
    SYMM_DTYPE_MAP(SYMM_DTYPE_ENUM_)
#undef SYMM_DTYPE_ENUM_
} symm_dtype;

/* All reductions: value, name. */
#define SYMM_REDOP_MAP(X) X(SUM, 0, "sum") X(AVG, 1, "avg") X(MIN, 2, "min") X(MAX, 3, "max")

typedef enum symm_redop {
#define SYMM_REDOP_ENUM_(id, value, name) SYMM_##id = value,
    SYMM_REDOP_MAP(SYMM_REDOP_ENUM_)
#undef SYMM_REDOP_ENUM_
} symm_redop;

/* Storage types, so that C can describe the data of kernels. */
typedef struct symm_bf16 {
    uint16_t bits;
} symm_bf16;
typedef struct symm_f16 {
    uint16_t bits;
} symm_f16;

typedef struct CUstream_st *symm_stream; /* is cudaStream_t, is CUstream; NULL: the legacy stream */
typedef struct CUctx_st *symm_device_context;   /* is CUcontext */
typedef struct CUevent_st *symm_event;          /* is cudaEvent_t, is CUevent */
typedef struct CUgraphExec_st *symm_graph;      /* is cudaGraphExec_t, is CUgraphExec */
typedef struct symm_signal_pad symm_signal_pad; /* device memory; never dereferenced by users */

#define SYMM_MAX_RANKS 72
#define SYMM_VIEW_ABI 1u
/*
 * PLAYED: of a product with SYMM_MATMUL_AS_IF. Rank flags >> SYMM_VIEW_PLAYER of the group plays
 * all other ranks.
 */
enum { SYMM_VIEW_MULTICAST = 1u, SYMM_VIEW_PLAYED = 2u, SYMM_VIEW_PLAYER = 8 };

/*
 * A group as kernels see it: plain data. Copy it into an argument struct and use it in kernels
 * through symm/device.cuh. An address in this rank's symmetric memory plus peer[r] is the address
 * of rank r's copy (peer[rank] is 0). Plus multicast, it is the multicast address of all copies.
 *
 * The layout may only grow into its reserved words; symm_launch() checks abi.
 */
typedef struct symm_view {
    uint32_t abi, flags;
    int32_t rank, nranks;
    int64_t multicast;
    const uint32_t *abort; /* host word; once set, every wait returns */
    uint32_t *poison;      /* device word; once set, this rank sends no signal */
    void *record;          /* a long wait writes here which rank it waits for */
    uint64_t reserved[2];
    int64_t peer[SYMM_MAX_RANKS];
} symm_view; /* 640 bytes */

/*
 * 12 bytes of data for another rank and, in the fourth word, a flag for their arrival. All 16 bytes
 * are written and read by one access (symm_dev_send16 in symm/device.cuh). Lies in symmetric
 * memory, aligned to 16 bytes and zeroed before its first use.
 */
typedef struct symm_packet {
    uint32_t word[4];
} symm_packet;

#define SYMM_MAX_DIMS 5

/* A tensor in symmetric or other memory. It owns nothing. */
typedef struct symm_tensor {
    void *data;
    symm_dtype dtype;
    int32_t ndim;
    int64_t shape[SYMM_MAX_DIMS], strides[SYMM_MAX_DIMS]; /* in elements */
} symm_tensor;

#ifdef __cplusplus
}
#endif

#endif
