/*
 * The part of the CUDA driver's binary interface that symm uses. The runtime calls it; the emulated
 * driver implements it. Names, numbers and layouts are those of CUDA 13.0. If a toolkit is
 * installed, the unit test test_driver_abi compares all of them with its cuda.h. With this file
 * symm builds without a toolkit.
 */
#ifndef SYMM_DRIVER_ABI_H
#define SYMM_DRIVER_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef void (*CUhostFn)(void *data);
typedef struct CUuuid_st {
    char bytes[16];
} CUuuid;

/* Results: one list for the constants, for cuGetErrorName and for the ABI test. */
#define CU_RESULTS(X)                                                                              \
    X(CUDA_SUCCESS, 0)                                                                             \
    X(CUDA_ERROR_INVALID_VALUE, 1)                                                                 \
    X(CUDA_ERROR_OUT_OF_MEMORY, 2)                                                                 \
    X(CUDA_ERROR_NOT_INITIALIZED, 3)                                                               \
    X(CUDA_ERROR_DEINITIALIZED, 4)                                                                 \
    X(CUDA_ERROR_STUB_LIBRARY, 34)                                                                 \
    X(CUDA_ERROR_NO_DEVICE, 100)                                                                   \
    X(CUDA_ERROR_INVALID_DEVICE, 101)                                                              \
    X(CUDA_ERROR_INVALID_IMAGE, 200)                                                               \
    X(CUDA_ERROR_INVALID_CONTEXT, 201)                                                             \
    X(CUDA_ERROR_NO_BINARY_FOR_GPU, 209)                                                           \
    X(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, 217)                                                     \
    X(CUDA_ERROR_OPERATING_SYSTEM, 304)                                                            \
    X(CUDA_ERROR_INVALID_HANDLE, 400)                                                              \
    X(CUDA_ERROR_ILLEGAL_STATE, 401)                                                               \
    X(CUDA_ERROR_NOT_FOUND, 500)                                                                   \
    X(CUDA_ERROR_NOT_READY, 600)                                                                   \
    X(CUDA_ERROR_ILLEGAL_ADDRESS, 700)                                                             \
    X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 701)                                                     \
    X(CUDA_ERROR_CONTEXT_IS_DESTROYED, 709)                                                        \
    X(CUDA_ERROR_MISALIGNED_ADDRESS, 716)                                                          \
    X(CUDA_ERROR_LAUNCH_FAILED, 719)                                                               \
    X(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, 720)                                                \
    X(CUDA_ERROR_NOT_PERMITTED, 800)                                                               \
    X(CUDA_ERROR_NOT_SUPPORTED, 801)                                                               \
    X(CUDA_ERROR_SYSTEM_NOT_READY, 802)                                                            \
    X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900)                                                  \
    X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901)                                                  \
    X(CUDA_ERROR_STREAM_CAPTURE_MERGE, 902)                                                        \
    X(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, 903)                                                    \
    X(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, 904)                                                     \
    X(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, 905)                                                    \
    X(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, 906)                                                     \
    X(CUDA_ERROR_CAPTURED_EVENT, 907)                                                              \
    X(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, 908)                                                 \
    X(CUDA_ERROR_INVALID_CLUSTER_SIZE, 912)                                                        \
    X(CUDA_ERROR_UNKNOWN, 999)

/* All other numbers that symm passes to the driver or gets from it. */
#define CU_NUMBERS(X)                                                                              \
    X(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1)                                                \
    X(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16)                                                \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75)                                            \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76)                                            \
    X(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 88)                                              \
    X(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 95)                                                  \
    X(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 102)                                \
    X(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 103)                        \
    X(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 110)                            \
    X(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 128)                                       \
    X(CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 132)                                                \
    X(CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, 1)                                                 \
    X(CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 2)                                                 \
    X(CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, 3)                                          \
    X(CU_MEM_ALLOCATION_TYPE_PINNED, 1)                                                            \
    X(CU_MEM_LOCATION_TYPE_DEVICE, 1)                                                              \
    X(CU_MEM_HANDLE_TYPE_NONE, 0)                                                                  \
    X(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1)                                                 \
    X(CU_MEM_HANDLE_TYPE_FABRIC, 8)                                                                \
    X(CU_MEM_ACCESS_FLAGS_PROT_NONE, 0)                                                            \
    X(CU_MEM_ACCESS_FLAGS_PROT_READ, 1)                                                            \
    X(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, 3)                                                       \
    X(CU_MEM_ALLOC_GRANULARITY_MINIMUM, 0)                                                         \
    X(CU_MEM_ALLOC_GRANULARITY_RECOMMENDED, 1)                                                     \
    X(CU_MULTICAST_GRANULARITY_MINIMUM, 0)                                                         \
    X(CU_MULTICAST_GRANULARITY_RECOMMENDED, 1)                                                     \
    X(CU_MEMHOSTALLOC_PORTABLE, 1)                                                                 \
    X(CU_MEMHOSTALLOC_DEVICEMAP, 2)                                                                \
    X(CU_MEMORYTYPE_HOST, 1)                                                                       \
    X(CU_MEMORYTYPE_DEVICE, 2)                                                                     \
    X(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2)                                                         \
    X(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 9)                                                      \
    X(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, 11)                                                   \
    X(CU_POINTER_ATTRIBUTE_RANGE_SIZE, 12)                                                         \
    X(CU_STREAM_DEFAULT, 0)                                                                        \
    X(CU_STREAM_NON_BLOCKING, 1)                                                                   \
    X(CU_STREAM_CAPTURE_STATUS_NONE, 0)                                                            \
    X(CU_STREAM_CAPTURE_STATUS_ACTIVE, 1)                                                          \
    X(CU_STREAM_CAPTURE_STATUS_INVALIDATED, 2)                                                     \
    X(CU_STREAM_CAPTURE_MODE_GLOBAL, 0)                                                            \
    X(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, 1)                                                      \
    X(CU_STREAM_CAPTURE_MODE_RELAXED, 2)                                                           \
    X(CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY, 8)                                            \
    X(CU_EVENT_DEFAULT, 0)                                                                         \
    X(CU_EVENT_BLOCKING_SYNC, 1)                                                                   \
    X(CU_EVENT_DISABLE_TIMING, 2)                                                                  \
    X(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0)                                                  \
    X(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 1)                                                      \
    X(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, 3)                                                       \
    X(CU_FUNC_ATTRIBUTE_NUM_REGS, 4)                                                               \
    X(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 8)                                          \
    X(CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 6)                                                          \
    X(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 9)                                                         \
    X(CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ, 12)                                                    \
    X(CU_TENSOR_MAP_INTERLEAVE_NONE, 0)                                                            \
    X(CU_TENSOR_MAP_SWIZZLE_NONE, 0)                                                               \
    X(CU_TENSOR_MAP_SWIZZLE_128B, 3)                                                               \
    X(CU_TENSOR_MAP_L2_PROMOTION_L2_256B, 3)                                                       \
    X(CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE, 0)                                                        \
    X(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 2)                                                          \
    X(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, 4)                                                    \
    X(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, 6)                                    \
    X(CU_GET_PROC_ADDRESS_DEFAULT, 0)                                                              \
    X(CU_GET_PROC_ADDRESS_SUCCESS, 0)                                                              \
    X(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, 1)                                                     \
    X(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT, 2)

enum {
#define CU_ENUM_(name, value) name = value,
    CU_RESULTS(CU_ENUM_) CU_NUMBERS(CU_ENUM_)
#undef CU_ENUM_
};

typedef struct CUmemLocation {
    int type;
    int id;
} CUmemLocation;

typedef struct CUmemAllocationProp {
    int type;
    int requestedHandleTypes; /* a bitmask */
    CUmemLocation location;
    void *win32HandleMetaData;
    struct {
        unsigned char compressionType;
        unsigned char gpuDirectRDMACapable;
        unsigned short usage;
        unsigned char reserved[4];
    } allocFlags;
} CUmemAllocationProp;

typedef struct CUmemAccessDesc {
    CUmemLocation location;
    int flags;
} CUmemAccessDesc;

typedef struct CUmulticastObjectProp {
    unsigned int numDevices;
    size_t size;
    unsigned long long handleTypes;
    unsigned long long flags;
} CUmulticastObjectProp;

typedef struct CUDA_MEMCPY2D {
    size_t srcXInBytes, srcY;
    int srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    void *srcArray;
    size_t srcPitch;
    size_t dstXInBytes, dstY;
    int dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    void *dstArray;
    size_t dstPitch;
    size_t WidthInBytes, Height;
} CUDA_MEMCPY2D;

typedef struct CUlaunchAttribute {
    int id;
    char pad[8 - sizeof(int)];
    union {
        char pad[64];
        int cooperative;
        struct {
            unsigned int x, y, z;
        } clusterDim;
        int programmaticStreamSerializationAllowed;
    } value;
} CUlaunchAttribute;

typedef struct CUlaunchConfig {
    unsigned int gridDimX, gridDimY, gridDimZ;
    unsigned int blockDimX, blockDimY, blockDimZ;
    unsigned int sharedMemBytes;
    CUstream hStream;
    CUlaunchAttribute *attrs;
    unsigned int numAttrs;
} CUlaunchConfig;

/*
 * All driver entries that symm looks up: name, version of the binary interface (cuGetProcAddress_v2
 * takes the name without its _v2, and this version), whether a driver may lack it, and parameters.
 * If a driver lacks a required entry, the error names it.
 */
#define CU_REQUIRED 0
#define CU_OPTIONAL 1

#define CU_FUNCTIONS_BASE(X)                                                                       \
    X(cuInit, 2000, CU_REQUIRED, (unsigned int flags))                                             \
    X(cuDriverGetVersion, 2020, CU_REQUIRED, (int *version))                                       \
    X(cuGetErrorName, 6000, CU_REQUIRED, (CUresult error, const char **name))                      \
    X(cuGetErrorString, 6000, CU_REQUIRED, (CUresult error, const char **text))                    \
    X(cuDeviceGetCount, 2000, CU_REQUIRED, (int *count))                                           \
    X(cuDeviceGet, 2000, CU_REQUIRED, (CUdevice * dev, int ordinal))                               \
    X(cuDeviceGetName, 2000, CU_REQUIRED, (char *name, int len, CUdevice dev))                     \
    X(cuDeviceGetUuid, 11040, CU_REQUIRED, (CUuuid * uuid, CUdevice dev))                          \
    X(cuDeviceGetPCIBusId, 4010, CU_REQUIRED, (char *id, int len, CUdevice dev))                   \
    X(cuDeviceGetByPCIBusId, 4010, CU_REQUIRED, (CUdevice * dev, const char *id))                  \
    X(cuDeviceGetAttribute, 2000, CU_REQUIRED, (int *value, int attribute, CUdevice dev))          \
    X(cuDeviceTotalMem, 3020, CU_REQUIRED, (size_t * nbytes, CUdevice dev))                        \
    X(cuDeviceCanAccessPeer, 4000, CU_REQUIRED, (int *can, CUdevice dev, CUdevice peer))           \
    X(cuDeviceGetP2PAttribute, 8000, CU_REQUIRED,                                                  \
      (int *value, int attribute, CUdevice from, CUdevice to))                                     \
    X(cuDevicePrimaryCtxRetain, 7000, CU_REQUIRED, (CUcontext * ctx, CUdevice dev))                \
    X(cuDevicePrimaryCtxRelease, 11000, CU_REQUIRED, (CUdevice dev))                               \
    X(cuCtxGetCurrent, 4000, CU_REQUIRED, (CUcontext * ctx))                                       \
    X(cuCtxSetCurrent, 4000, CU_REQUIRED, (CUcontext ctx))                                         \
    X(cuCtxPushCurrent, 4000, CU_REQUIRED, (CUcontext ctx))                                        \
    X(cuCtxPopCurrent, 4000, CU_REQUIRED, (CUcontext * ctx))                                       \
    X(cuCtxGetDevice, 2000, CU_REQUIRED, (CUdevice * dev))                                         \
    X(cuCtxSynchronize, 2000, CU_REQUIRED, (void))                                                 \
    X(cuMemGetInfo, 3020, CU_REQUIRED, (size_t * available, size_t * total))                       \
    X(cuMemAlloc, 3020, CU_REQUIRED, (CUdeviceptr * ptr, size_t nbytes))                           \
    X(cuMemFree, 3020, CU_REQUIRED, (CUdeviceptr ptr))                                             \
    X(cuMemHostAlloc, 2020, CU_REQUIRED, (void **ptr, size_t nbytes, unsigned int flags))          \
    X(cuMemFreeHost, 2000, CU_REQUIRED, (void *ptr))                                               \
    X(cuMemHostGetDevicePointer, 3020, CU_REQUIRED,                                                \
      (CUdeviceptr * ptr, void *host, unsigned int flags))                                         \
    X(cuPointerGetAttribute, 4000, CU_REQUIRED, (void *data, int attribute, CUdeviceptr ptr))      \
    X(cuMemGetAllocationGranularity, 10020, CU_REQUIRED,                                           \
      (size_t * granularity, const CUmemAllocationProp *prop, int option))                         \
    X(cuMemCreate, 10020, CU_REQUIRED,                                                             \
      (CUmemGenericAllocationHandle * handle, size_t nbytes, const CUmemAllocationProp *prop,      \
       unsigned long long flags))                                                                  \
    X(cuMemRelease, 10020, CU_REQUIRED, (CUmemGenericAllocationHandle handle))                     \
    X(cuMemAddressReserve, 10020, CU_REQUIRED,                                                     \
      (CUdeviceptr * ptr, size_t nbytes, size_t alignment, CUdeviceptr at,                         \
       unsigned long long flags))                                                                  \
    X(cuMemAddressFree, 10020, CU_REQUIRED, (CUdeviceptr ptr, size_t nbytes))                      \
    X(cuMemMap, 10020, CU_REQUIRED,                                                                \
      (CUdeviceptr ptr, size_t nbytes, size_t offset, CUmemGenericAllocationHandle handle,         \
       unsigned long long flags))                                                                  \
    X(cuMemUnmap, 10020, CU_REQUIRED, (CUdeviceptr ptr, size_t nbytes))                            \
    X(cuMemSetAccess, 10020, CU_REQUIRED,                                                          \
      (CUdeviceptr ptr, size_t nbytes, const CUmemAccessDesc *desc, size_t count))                 \
    X(cuMemGetAccess, 10020, CU_REQUIRED,                                                          \
      (unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr))                 \
    X(cuMemExportToShareableHandle, 10020, CU_REQUIRED,                                            \
      (void *shareable, CUmemGenericAllocationHandle handle, int type, unsigned long long flags))  \
    X(cuMemImportFromShareableHandle, 10020, CU_REQUIRED,                                          \
      (CUmemGenericAllocationHandle * handle, void *shareable, int type))                          \
    X(cuMemRetainAllocationHandle, 11000, CU_REQUIRED,                                             \
      (CUmemGenericAllocationHandle * handle, void *ptr))                                          \
    X(cuMemGetAllocationPropertiesFromHandle, 10020, CU_REQUIRED,                                  \
      (CUmemAllocationProp * prop, CUmemGenericAllocationHandle handle))                           \
    X(cuCtxGetStreamPriorityRange, 5050, CU_REQUIRED, (int *least, int *greatest))                 \
    X(cuStreamCreate, 2000, CU_REQUIRED, (CUstream * stream, unsigned int flags))                  \
    X(cuStreamCreateWithPriority, 5050, CU_REQUIRED,                                               \
      (CUstream * stream, unsigned int flags, int priority))                                       \
    X(cuStreamDestroy, 4000, CU_REQUIRED, (CUstream stream))                                       \
    X(cuStreamSynchronize, 2000, CU_REQUIRED, (CUstream stream))                                   \
    X(cuStreamQuery, 2000, CU_REQUIRED, (CUstream stream))                                         \
    X(cuStreamWaitEvent, 3020, CU_REQUIRED, (CUstream stream, CUevent event, unsigned int flags))  \
    X(cuStreamGetCtx, 9020, CU_REQUIRED, (CUstream stream, CUcontext * ctx))                       \
    X(cuStreamIsCapturing, 10000, CU_REQUIRED, (CUstream stream, int *status))                     \
    X(cuStreamBeginCapture, 10010, CU_REQUIRED, (CUstream stream, int mode))                       \
    X(cuStreamEndCapture, 10000, CU_REQUIRED, (CUstream stream, CUgraph * graph))                  \
    X(cuThreadExchangeStreamCaptureMode, 10010, CU_REQUIRED, (int *mode))                          \
    X(cuEventCreate, 2000, CU_REQUIRED, (CUevent * event, unsigned int flags))                     \
    X(cuEventDestroy, 4000, CU_REQUIRED, (CUevent event))                                          \
    X(cuEventRecord, 2000, CU_REQUIRED, (CUevent event, CUstream stream))                          \
    X(cuEventQuery, 2000, CU_REQUIRED, (CUevent event))                                            \
    X(cuEventSynchronize, 2000, CU_REQUIRED, (CUevent event))                                      \
    X(cuEventElapsedTime, 2000, CU_REQUIRED, (float *ms, CUevent from, CUevent to))                \
    X(cuMemcpyAsync, 4000, CU_REQUIRED,                                                            \
      (CUdeviceptr dst, CUdeviceptr src, size_t nbytes, CUstream stream))                          \
    X(cuMemcpy2DAsync, 3020, CU_REQUIRED, (const CUDA_MEMCPY2D *copy, CUstream stream))            \
    X(cuMemsetD8Async, 3020, CU_REQUIRED,                                                          \
      (CUdeviceptr dst, unsigned char value, size_t n, CUstream stream))                           \
    X(cuMemsetD32Async, 3020, CU_REQUIRED,                                                         \
      (CUdeviceptr dst, unsigned int value, size_t n, CUstream stream))                            \
    X(cuGraphInstantiateWithFlags, 11040, CU_REQUIRED,                                             \
      (CUgraphExec * exec, CUgraph graph, unsigned long long flags))                               \
    X(cuGraphLaunch, 10000, CU_REQUIRED, (CUgraphExec exec, CUstream stream))                      \
    X(cuGraphExecDestroy, 10000, CU_REQUIRED, (CUgraphExec exec))                                  \
    X(cuGraphDestroy, 10000, CU_REQUIRED, (CUgraph graph))                                         \
    X(cuModuleLoadData, 2000, CU_REQUIRED, (CUmodule * module, const void *image))                 \
    X(cuModuleUnload, 2000, CU_REQUIRED, (CUmodule module))                                        \
    X(cuModuleGetFunction, 2000, CU_REQUIRED,                                                      \
      (CUfunction * function, CUmodule module, const char *name))                                  \
    X(cuFuncGetAttribute, 2020, CU_REQUIRED, (int *value, int attribute, CUfunction function))     \
    X(cuFuncSetAttribute, 9000, CU_REQUIRED, (CUfunction function, int attribute, int value))      \
    X(cuFuncLoad, 12040, CU_OPTIONAL, (CUfunction function))                                       \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050, CU_REQUIRED,                              \
      (int *nblocks, CUfunction function, int threads, size_t smem_nbytes))                        \
    X(cuLaunchKernelEx, 11060, CU_REQUIRED,                                                        \
      (const CUlaunchConfig *config, CUfunction function, void **params, void **extra))

/* Entries for libraries beside symm, which does not call them: of the emulated driver only. */
#define CU_FUNCTIONS_BESIDE(X)                                                                     \
    X(cuMemGetAddressRange, 3020, CU_OPTIONAL,                                                     \
      (CUdeviceptr * start, size_t * nbytes, CUdeviceptr ptr))                                     \
    X(cuPointerGetAttributes, 7000, CU_OPTIONAL,                                                   \
      (unsigned int n, int *attributes, void **data, CUdeviceptr ptr))                             \
    X(cuLaunchHostFunc, 10000, CU_OPTIONAL, (CUstream stream, CUhostFn function, void *data))      \
    X(cuStreamGetCaptureInfo, 12030, CU_OPTIONAL,                                                  \
      (CUstream stream, int *status, uint64_t *id, CUgraph *graph, const void **nodes,             \
       const void **edges, size_t *nnodes))

/* Tensor maps for the copy unit of Hopper GPUs. */
#define CU_FUNCTIONS_TENSOR(X)                                                                     \
    X(cuTensorMapEncodeTiled, 12000, CU_OPTIONAL,                                                  \
      (void *map, int dtype, uint32_t ndim, void *data, const uint64_t *extents,                   \
       const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave,        \
       int swizzle, int promotion, int fill))

/* A build without multicast must not even contain these names. */
#if SYMM_MULTICAST
#define CU_FUNCTIONS_MULTICAST(X)                                                                  \
    X(cuMulticastGetGranularity, 12010, CU_OPTIONAL,                                               \
      (size_t * granularity, const CUmulticastObjectProp *prop, int option))                       \
    X(cuMulticastCreate, 12010, CU_OPTIONAL,                                                       \
      (CUmemGenericAllocationHandle * handle, const CUmulticastObjectProp *prop))                  \
    X(cuMulticastAddDevice, 12010, CU_OPTIONAL,                                                    \
      (CUmemGenericAllocationHandle handle, CUdevice dev))                                         \
    X(cuMulticastBindMem, 12010, CU_OPTIONAL,                                                      \
      (CUmemGenericAllocationHandle handle, size_t mc_off, CUmemGenericAllocationHandle mem,       \
       size_t mem_off, size_t nbytes, unsigned long long flags))                                   \
    X(cuMulticastUnbind, 12010, CU_OPTIONAL,                                                       \
      (CUmemGenericAllocationHandle handle, CUdevice dev, size_t mc_off, size_t nbytes))
#else
#define CU_FUNCTIONS_MULTICAST(X)
#endif

#define CU_FUNCTIONS(X) CU_FUNCTIONS_BASE(X) CU_FUNCTIONS_TENSOR(X) CU_FUNCTIONS_MULTICAST(X)
#define CU_FUNCTIONS_EMULATED(X) CU_FUNCTIONS(X) CU_FUNCTIONS_BESIDE(X)

/* The only entry found with dlsym; it finds all others. */
typedef CUresult (*PFN_cuGetProcAddress_v12000)(const char *symbol, void **function, int version,
                                                uint64_t flags, int *status);

#endif
