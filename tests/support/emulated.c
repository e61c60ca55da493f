/* Finding the emulated driver of this build. */
#include "emulated.h"

#include <dlfcn.h>
#include <stdio.h>
#include "abi/cuda_driver.h"
#include "test.h"

void *emulated_symbol(const char *name)
{
    char path[4096];
    PFN_cuGetProcAddress_v12000 get = NULL;
    void *out = NULL;

    snprintf(path, sizeof path, "%s/libsymm_emulated.so", test_lib());
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!lib)
        return NULL;
    *(void **)&get = dlsym(lib, "cuGetProcAddress_v2");
    if (get)
        get(name, &out, 13000, CU_GET_PROC_ADDRESS_DEFAULT, NULL);
    dlclose(lib);
    return out;
}
