/*
 * Every function of symm/device.cuh on real GPUs, 2 to 4 of them, a process each, without
 * multicast. Skipped, with the reason, where there are fewer than two.
 */
#include <stdlib.h>
#include "device_bench.h"
#include "gpus.h"
#include "test.h"

struct device_setting device_setting = {.nworlds = 1};

void test_setup(void)
{
    enum { MOST = 4 };
    setenv("SYMM_DRIVER", "cuda", 1);
    setenv("SYMM_MULTICAST", "0", 1);
    test_uncounted = true;
    device_setting.pair = device_setting.worlds[0] = gpus_count(MOST);
    device_setting.why_not = device_setting.pair < 2 ? "fewer than two GPUs" : NULL;
}
