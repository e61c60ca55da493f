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

bool emulated_set_fault(const char *spec)
{
    bool (*set)(const char *);
    *(void **)&set = emulated_symbol("symm_emulated_set_fault");
    return set(spec);
}

static const char *text_of(const char *entry)
{
    const char *(*get)(void);
    *(void **)&get = emulated_symbol(entry);
    return get();
}

const char *emulated_last_rule(void)
{
    return text_of("symm_emulated_last_rule");
}

const char *emulated_last_fault(void)
{
    return text_of("symm_emulated_last_fault");
}
