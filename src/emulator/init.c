/* cuInit, the driver's version and the names of its errors. */
#include <pthread.h>
#include <stdlib.h>
#include "emulator/state/call.h"
#include "emulator/state/devices.h"
#include "emulator/state/fault.h"
#include "emulator/state/hooks.h"
#include "emulator/state/machine.h"
#include "emulator/streams/capture.h"
#include "emulator/streams/execution.h"

const struct emu_hooks emu__hooks = {
    .streams_drain = emu__streams_drain,
    .capture_forbids = emu__capture_forbids,
};

static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;

static const struct result_name {
    CUresult value;
    const char *name;
} result_names[] = {
#define RESULT_NAME_(name, value) {value, #name},
    CU_RESULTS(RESULT_NAME_)
#undef RESULT_NAME_
};

/* Runs before the frame of cuInit, which needs the settings for its trace and injected faults. */
static CUresult initialise(void)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&init_lock);
    if (emu__state() == EMU_STATE_NEW) {
        if (emu__machine_read() && emu__faults_set(getenv("SYMM_EMULATED_FAULT"))) {
            emu__devices_init();
            emu__state_ready();
        } else {
            result = CUDA_ERROR_INVALID_VALUE;
        }
    }
    pthread_mutex_unlock(&init_lock);
    return result;
}

CUresult emu_cuInit(unsigned int flags)
{
    CUresult result = initialise();
    if (result != CUDA_SUCCESS)
        return result;
    EMU_BEGIN_(EMU_NEED_NOTHING, "flags=%u", flags);
    if (flags != 0)
        result = emu__rule(CUDA_ERROR_INVALID_VALUE, "flags must be 0");
    else if (emu__machine.ndevices == 0)
        result = CUDA_ERROR_NO_DEVICE;
    return EMU_END(result);
}

CUresult emu_cuDriverGetVersion(int *version)
{
    EMU_BEGIN_(EMU_NEED_NOTHING, "void");
    EMU_NOT_NULL(version);
    *version = EMU_DRIVER_VERSION;
    return EMU_END(CUDA_SUCCESS);
}

static const char *name_of(CUresult error)
{
    for (size_t i = 0; i < sizeof result_names / sizeof *result_names; i++)
        if (result_names[i].value == error)
            return result_names[i].name;
    return NULL;
}

/* Neither of these two has a frame: they report failures, injected ones too. */
CUresult emu_cuGetErrorName(CUresult error, const char **name)
{
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    *name = name_of(error);
    return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult emu_cuGetErrorString(CUresult error, const char **text)
{
    if (!text)
        return CUDA_ERROR_INVALID_VALUE;
    *text = name_of(error);
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
