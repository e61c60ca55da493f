/* Opens the NCCL of the process. */
#include "nccl.h"

#include <dlfcn.h>

static void *try_open(const char *name, int flags, bool (*refuse)(void *library))
{
    void *library = dlopen(name, flags);

    /* symm's own library in NCCL's place has this name: it calls symm, and no engine may be it. */
    if (library && ((refuse && refuse(library)) || dlsym(library, "symm_in_place_of_nccl"))) {
        dlclose(library);
        library = NULL;
    }
    return library;
}

void *symm__nccl_open(const char *given, bool (*refuse)(void *library), const char **why)
{
    void *library = try_open("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD, refuse);

    if (!library)
        library = try_open(*given ? given : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL, refuse);
    *why = NULL;
    if (!library) {
        *why = dlerror();
        if (!*why)
            *why = "the only libnccl.so.2 is symm's own";
    }
    return library;
}
