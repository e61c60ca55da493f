#include "standin.h"

#include <stdio.h>
#include <stdlib.h>
#include "test.h"

/*
 * In programs with the stand-in LeakSanitizer's own tracer crashes at the exit of some ranks
 * ("Tracer caught signal 11"), the more so with many. The harness counts descriptors, mappings and
 * objects of the driver.
 */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return 1;
}

static void use(const char *folder)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/%s/libnccl.so.2", test_lib(), folder);
    setenv("SYMM_NCCL_LIBRARY", path, 1);
}

void standin_use(void)
{
    use("standin");
}

void standin_use_old(void)
{
    use("standin/old");
}
