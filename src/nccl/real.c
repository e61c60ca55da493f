/*
 * Opens the real NCCL: the one that the process has loaded already, else SYMM_NCCL_LIBRARY, else
 * libnccl.so.2 by the loader's search. RTLD_NEXT would miss a library that was opened as local.
 */
#include "real.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "runtime/base/settings.h"
#include "alone.h"

_Thread_local int nccl__inside;

/* By this symbol symm__nccl_open() knows this library, whatever its name. */
__attribute__((visibility("default"))) const int symm_in_place_of_nccl = 1;

static struct nccl_real real;
static void *library;
static char path[4096], missing[512];

/* The file that a library of the process comes from; NULL: unknown. */
static const char *file_of(void *handle)
{
    Dl_info info;
    void *version = dlsym(handle, "ncclGetVersion");

    return version && dladdr(version, &info) ? info.dli_fname : NULL;
}

/* Whether a handle is the library that this code is in, which may have NCCL's name. */
static bool is_own(void *handle)
{
    Dl_info own, other;
    void *version = dlsym(handle, "ncclCommInitRank");

    return version && dladdr(version, &other) && dladdr((void *)(uintptr_t)&real, &own) &&
           own.dli_fbase == other.dli_fbase;
}

static void open_library(void)
{
    const char *name = symm__setting(SYMM_SETTING_NCCL_LIBRARY), *why;

    if (strcmp(name, "none") == 0) {
        if (&nccl__replaces)
            nccl__alone_fill(&real);
        else
            real.missing = "SYMM_NCCL_LIBRARY=none needs nccl/libnccl.so.2 in NCCL's place";
        return;
    }
    library = symm__nccl_open(name, is_own, &why);
    if (!library) {
        snprintf(missing, sizeof missing, "no NCCL: %s; set SYMM_NCCL_LIBRARY", why);
        real.missing = missing;
        return;
    }
    const char *file = file_of(library);
    snprintf(path, sizeof path, "%s", file ? file : "libnccl.so.2");
    real.path = path;
#define NCCL_LOOK_UP_(type, name, parameters, arguments)                                           \
    *(void **)&real.name = dlsym(library, #name);
    NCCL_FUNCTIONS(NCCL_LOOK_UP_)
#undef NCCL_LOOK_UP_
}

const struct nccl_real *nccl__real(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, open_library);
    return &real;
}

/* A function of alone.c by its name or its second name. */
static void *alone_function(const char *name)
{
    name += *name == 'p';
#define NCCL_COMPARE_(type, function, parameters, arguments)                                       \
    if (strcmp(name, #function) == 0)                                                              \
        return *(void **)&real.function;
    NCCL_FUNCTIONS(NCCL_COMPARE_)
#undef NCCL_COMPARE_
    return NULL;
}

void *nccl__real_function(const char *name)
{
    nccl__real();
    if (real.alone)
        return alone_function(name);
    return library ? dlsym(library, name) : NULL;
}
