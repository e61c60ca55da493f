/*
 * The table of all environment variables SYMM_*. Variables of launchers, of NCCL and of other
 * libraries are read elsewhere (comm/join.c, driver/driver.c, nccl/entries.c). symm_setting_at()
 * and symm-info --env list it.
 *
 * The emulated driver reads SYMM_EMULATED_* itself. Their rows serve the documentation.
 */
#ifndef SYMM_SETTINGS_H
#define SYMM_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>
#include "status.h"

#define SYMM_SETTINGS(X)                                                                           \
    X(RANK, "SYMM_RANK", "integer", "", "this rank; set by symm-run")                              \
    X(NRANKS, "SYMM_NRANKS", "integer", "", "number of ranks; set by symm-run")                    \
    X(SESSION, "SYMM_SESSION", "text", "", "name of one job's rendezvous; set by symm-run")        \
    X(TOKEN, "SYMM_TOKEN", "hex", "", "128-bit secret of the job; set by symm-run")                \
    X(ADDRESS, "SYMM_ADDRESS", "host:port", "",                                                    \
      "where rank 0 listens if ranks are on several hosts (symm_config.span)")                     \
    X(HOSTID, "SYMM_HOSTID", "text", "",                                                           \
      "the name of this rank's domain; default: that of its host")                                 \
    X(SPAN_ALGO, "SYMM_SPAN_ALGO", "auto|flat|hierarchical", "auto",                               \
      "collectives between domains: by NCCL alone, or by symm inside domains and NCCL between")    \
    X(DIR, "SYMM_DIR", "path", "",                                                                 \
      "folder of mode 700 for the rendezvous socket; default: /run/user/UID/symm, else none")      \
    X(DRIVER, "SYMM_DRIVER", "cuda|emulated", "cuda", "which driver to use")                       \
    X(DEVICE, "SYMM_DEVICE", "text", "", "ordinal, UUID or bus id of this rank's device")          \
    X(TIMEOUT_MS, "SYMM_TIMEOUT_MS", "integer", "300000",                                          \
      "time limit of collective calls and stalled waits; -1: none")                                \
    X(SLOW_MS, "SYMM_SLOW_MS", "integer", "10000", "interval between reports of a long wait")      \
    X(LOG, "SYMM_LOG", "stderr|path", "",                                                          \
      "target of reports if no callback is set; %r is the rank")                                   \
    X(LOG_LEVEL, "SYMM_LOG_LEVEL", "1..4", "2", "errors, warnings, information, detail")           \
    X(CHECK, "SYMM_CHECK", "0|1", "auto",                                                          \
      "compare the ranks' stream-ordered calls; auto: on the emulated driver")                     \
    X(MULTICAST, "SYMM_MULTICAST", "0|1", "1", "0: never use multicast")                           \
    X(SEGMENT_BYTES, "SYMM_SEGMENT_BYTES", "bytes", "64M",                                         \
      "minimum size of a segment of device memory")                                                \
    X(STAGING_BYTES, "SYMM_STAGING_BYTES", "bytes", "0",                                           \
      "size of each group's staging area; 0: by device memory, 8M to 256M")                        \
    X(WINDOW_BYTES, "SYMM_WINDOW_BYTES", "bytes", "0",                                             \
      "size of each rank's address window; 0: the largest device memory")                          \
    X(MATMUL_ENGINE_BYTES, "SYMM_MATMUL_ENGINE_BYTES", "bytes", "0",                               \
      "from this size on, copy engines send a rank's rows of a product; 0: by estimate")           \
    X(MATMUL_WGMMA, "SYMM_MATMUL_WGMMA", "0|1", "1",                                               \
      "1: the Hopper kernel on Hopper GPUs if the data suit it; 0: the portable kernel")           \
    X(MATMUL_SPLIT, "SYMM_MATMUL_SPLIT", "0|1", "1",                                               \
      "1: the Hopper kernel for few tiles, which splits k, if all ranks have it; 0: never")        \
    X(MATMUL_SHAPE, "SYMM_MATMUL_SHAPE", "integer", "0",                                           \
      "number of the tile shape of the Hopper kernel (docs/matmul.md); 0: by estimate")            \
    X(MATMUL_PLAIN, "SYMM_MATMUL_PLAIN", "integer", "0",                                           \
      "number of the tile shape of plain products on Hopper GPUs; 0: by estimate; -1: never")      \
    X(MATMUL_AS_IF, "SYMM_MATMUL_AS_IF", "integer", "0",                                           \
      "for measurements: a product of 2 ranks runs as if they were 3 to 8; 0: never")              \
    X(MATMUL_CUBLAS, "SYMM_MATMUL_CUBLAS", "0|1", "1",                                             \
      "1: cuBLASLt, if installed, for products that are not fused; 0: never")                      \
    X(MATMUL_TRIALS, "SYMM_MATMUL_TRIALS", "0|1", "1",                                             \
      "1: cuBLASLt's fastest algorithm, by trials in symm_matmul_create(); 0: its first one")      \
    X(CUBLASLT_LIBRARY, "SYMM_CUBLASLT_LIBRARY", "path", "",                                       \
      "the cuBLASLt library; default: libcublasLt.so.13, else libcublasLt.so.12")                  \
    X(TUNING_FILE, "SYMM_TUNING_FILE", "path", "",                                                 \
      "table of symm-bench tune by which auto chooses; the same rows on all ranks")                \
    X(NCCL_LIBRARY, "SYMM_NCCL_LIBRARY", "path", "",                                               \
      "the NCCL library that symm opens; default: libnccl.so.2; none: no NCCL")                    \
    X(NCCL_FORWARD, "SYMM_NCCL_FORWARD", "list", "",                                               \
      "operations that libsymm_nccl.so leaves to NCCL: allreduce,reducescatter,allgather,all")     \
    X(NCCL_DETERMINISTIC, "SYMM_NCCL_DETERMINISTIC", "0|1", "0",                                   \
      "1: libsymm_nccl.so takes every reduction it can, with the same bits in every run")          \
    X(NCCL_STATS, "SYMM_NCCL_STATS", "0|1", "0",                                                   \
      "1: libsymm_nccl.so prints at exit which calls it took")                                     \
    X(NCCL_MAX_BLOCKS, "SYMM_NCCL_MAX_BLOCKS", "integer", "0",                                     \
      "most blocks of a call that libsymm_nccl.so takes; 0: 32 fewer than SMs, for NCCL's")        \
    X(LIBRARY, "SYMM_LIBRARY", "path", "",                                                         \
      "libsymm.so for the Python example; default: by the loader's search")                        \
    X(EPOCH_START, "SYMM_EPOCH_START", "integer", "0",                                             \
      "first value of the signal counters (tests of the wrap)")                                    \
    X(TEST_ABORT_DELAY_MS, "SYMM_TEST_ABORT_DELAY_MS", "integer", "0",                             \
      "delay before this rank acts on an abort (tests)")                                           \
    X(EMULATED_DEVICES, "SYMM_EMULATED_DEVICES", "integer", "8", "number of emulated devices")     \
    X(EMULATED_ISLAND, "SYMM_EMULATED_ISLAND", "integer", "0",                                     \
      "number of emulated devices that are peers of each other; 0: all")                           \
    X(EMULATED_MEMORY, "SYMM_EMULATED_MEMORY", "bytes", "4G", "memory of each emulated device")    \
    X(EMULATED_MULTICAST, "SYMM_EMULATED_MULTICAST", "0|1", "1",                                   \
      "1: the emulated switch supports multicast")                                                 \
    X(EMULATED_GRANULARITY, "SYMM_EMULATED_GRANULARITY", "bytes", "2M",                            \
      "granularity of emulated physical memory")                                                   \
    X(EMULATED_SMS, "SYMM_EMULATED_SMS", "integer", "8", "SMs of each emulated device")            \
    X(EMULATED_PLACES, "SYMM_EMULATED_PLACES", "integer", "2",                                     \
      "blocks of more than one warp that each emulated SM holds, 1 or 2")                          \
    X(EMULATED_BLOCK, "SYMM_EMULATED_BLOCK", "integer", "1024", "most threads of a block")         \
    X(EMULATED_PAGEABLE, "SYMM_EMULATED_PAGEABLE", "0|1", "0",                                     \
      "1: emulated devices can access all host memory")                                            \
    X(EMULATED_SEED, "SYMM_EMULATED_SEED", "integer", "1",                                         \
      "seed of interleaving, garbage and random order")                                            \
    X(EMULATED_WEAK, "SYMM_EMULATED_WEAK", "0|1", "0", "1: weakly ordered memory, as on GPUs")     \
    X(EMULATED_EARLY, "SYMM_EMULATED_EARLY", "0|1", "0",                                           \
      "1: programmatic dependent launches begin early")                                            \
    X(EMULATED_BUSY, "SYMM_EMULATED_BUSY", "0|1", "0",                                             \
      "1: blocks that poll sleep 5 ms, as on a busy host")                                         \
    X(EMULATED_ORDER, "SYMM_EMULATED_ORDER", "rank|reverse|random", "rank",                        \
      "order of multimem reductions")                                                              \
    X(EMULATED_TRACE, "SYMM_EMULATED_TRACE", "prefix", "",                                         \
      "write each driver call to the file PREFIX.rank")                                            \
    X(EMULATED_FAULT, "SYMM_EMULATED_FAULT", "list", "",                                           \
      "faults to inject: CALL@RANK#NTH=CODE|hang|kill;...")                                        \
    X(EMULATED_LEAKS, "SYMM_EMULATED_LEAKS", "report|list|fail|off", "report",                     \
      "action at exit if resources are left")

enum symm_setting_id {
#define SYMM_SETTING_ID_(id, name, type, fallback, help) SYMM_SETTING_##id,
    SYMM_SETTINGS(SYMM_SETTING_ID_)
#undef SYMM_SETTING_ID_
        SYMM_SETTING_COUNT
};

/*
 * The text of a setting: the value in the environment, else the default. An empty value counts as
 * not set. Never NULL.
 */
const char *symm__setting(enum symm_setting_id id);
bool symm__setting_is_set(enum symm_setting_id id);

/*
 * The index-th environment variable, from 0, that begins with SYMM_ and is in no row of the table,
 * as NAME=value. NULL past the last one. Skips SYMM_TEST_*.
 */
const char *symm__setting_unknown(int index);

/*
 * The value as an integer; bytes take the suffixes K, M, G, T. Errors: ERROR_ARGUMENT with name and
 * text if it does not parse or is out of range.
 */
symm_status symm__setting_int(enum symm_setting_id id, int64_t least, int64_t most, int64_t *out);
symm_status symm__setting_bytes(enum symm_setting_id id, uint64_t *out);

/* The default of a setting that is a number. */
int64_t symm__setting_default(enum symm_setting_id id);

#endif
