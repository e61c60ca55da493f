#include "standin.h"

#include <stdio.h>
#include <stdlib.h>
#include "test.h"

void standin_use(void)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/standin/libnccl.so.2", test_lib());
    setenv("SYMM_NCCL_LIBRARY", path, 1);
}
