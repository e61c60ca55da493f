/*
 * The frame of a driver call: trace, injected faults, checks, and the report of a broken rule.
 *
 *     CUresult emu_cuMemFree(CUdeviceptr ptr)
 *     {
 *         EMU_BEGIN_CONTEXT("ptr=%#llx", ptr);
 *         CUresult result = CUDA_SUCCESS;
 *         ...
 *         return EMU_END(result);
 *     }
 *
 * The driver's function cuXxx is the entry emu_cuXxx; a function shared between files is emu__xxx.
 * An entry calls no other entry: the trace and the counts show the program's calls only.
 */
#ifndef SYMM_EMULATOR_CALL_H
#define SYMM_EMULATOR_CALL_H

#include <stdbool.h>
#include "abi/cuda_driver.h"

/* Every entry: CUresult emu_cuInit(unsigned int flags); and so on. */
#define EMU_DECLARE_(fn, version, need, params) CUresult emu_##fn params;
CU_FUNCTIONS_EMULATED(EMU_DECLARE_)
#undef EMU_DECLARE_

struct emu_call {
    const char *name; /* "cuMemFree" */
    CUresult result;  /* set when emu__begin returns false */
    char args[256];   /* formatted only if there is a trace */
};

enum emu_need {
    EMU_NEED_NOTHING, /* may be called before cuInit */
    EMU_NEED_INIT,
    EMU_NEED_CONTEXT, /* a live current context */
    EMU_NEED_HEALTHY  /* and no sticky error on its device */
};

#define EMU_BEGIN_(need, ...)                                                                      \
    struct emu_call call_;                                                                         \
    if (!emu__begin(&call_, (need), &__func__[4], __VA_ARGS__))                                    \
    return call_.result

#define EMU_BEGIN(...) EMU_BEGIN_(EMU_NEED_INIT, __VA_ARGS__)
/* For calls that release objects: they work after a sticky error too, and then return it. */
#define EMU_BEGIN_CONTEXT(...) EMU_BEGIN_(EMU_NEED_CONTEXT, __VA_ARGS__)
#define EMU_BEGIN_HEALTHY(...) EMU_BEGIN_(EMU_NEED_HEALTHY, __VA_ARGS__)
#define EMU_END(result) emu__end(&call_, (result))
/* After EMU_BEGIN: ends the call with the first error. */
#define EMU_TRY(result)                                                                            \
    do {                                                                                           \
        CUresult result_ = (result);                                                               \
        if (result_ != CUDA_SUCCESS)                                                               \
            return EMU_END(result_);                                                               \
    } while (0)
/* After EMU_BEGIN: requires a pointer. */
#define EMU_NOT_NULL(pointer)                                                                      \
    if (!(pointer))                                                                                \
    return EMU_END(emu__rule(CUDA_ERROR_INVALID_VALUE, "%s is NULL", #pointer))

bool emu__begin(struct emu_call *call, enum emu_need need, const char *name, const char *format,
                ...) __attribute__((format(printf, 4, 5)));
CUresult emu__end(struct emu_call *call, CUresult result);

/*
 * Reports that the call broke a rule of the driver: one line on stderr with rank, call and rule,
 * which the entry symm_emulated_last_rule gives to tests. Returns `result`, which is CUDA_SUCCESS
 * for a mistake that the driver ignores or answers by waiting. Not for errors that a correct
 * program can get (out of memory, not ready, an unknown pointer in cuPointerGetAttribute).
 */
CUresult emu__rule(CUresult result, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same outside of a call: `call` is the kernel or the asynchronous operation that runs. */
CUresult emu__rule_at(int rank, const char *call, CUresult result, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
const char *emu__last_rule(void);
/* Reports that there is no such device. */
CUresult emu__no_device(CUdevice dev);

/* Whether this thread runs a host function of a stream, which may not call the driver. */
extern _Thread_local bool emu__in_host_function;

/* Whether this process has initialised the driver. A fork inherits nothing that it could use. */
enum emu_state { EMU_STATE_NEW, EMU_STATE_READY, EMU_STATE_FORKED };

enum emu_state emu__state(void);
/* The driver is initialised, for this process only. */
void emu__state_ready(void);

#endif
