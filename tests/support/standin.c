#include "standin.h"

#include <stdio.h>
#include <stdlib.h>
#include "test.h"

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
