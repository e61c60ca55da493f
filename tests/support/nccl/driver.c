#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

struct driver cu;

static bool found;

static void load(void)
{
    const char *named = getenv("SYMM_EMULATED_LIBRARY");
    void *library = dlopen(named ? named : "libsymm_emulated.so", RTLD_NOW | RTLD_LOCAL);
    PFN_cuGetProcAddress_v12000 get = NULL;
    if (library)
        *(void **)&get = dlsym(library, "cuGetProcAddress_v2");
    found = get != NULL;
#define DRIVER_LOAD_(fn, version, need, params)                                                    \
    found = found && get(#fn, (void **)&cu.fn, version, 0, NULL) == CUDA_SUCCESS;
    CU_FUNCTIONS_EMULATED(DRIVER_LOAD_)
#undef DRIVER_LOAD_
}

bool driver_open(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return found;
}
