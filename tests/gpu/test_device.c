/*
 * Every function of symm/device.cuh on real GPUs, 2 to 4 of them, a process each, without
 * multicast. Skipped, with the reason, where there are fewer than two.
 */
#include <stdlib.h>
#include "device_bench.h"
#include "gpus.h"
#include "test.h"

int main(void)
{
    enum { MOST = 4 };
    setenv("SYMM_DRIVER", "cuda", 1);
    setenv("SYMM_MULTICAST", "0", 1);
    const int ngpus = gpus_count(MOST);
    Suite *suite = suite_create("gpu device");
    device_setting = (struct device_setting){.nworlds = 1,
                                             .worlds = {ngpus},
                                             .pair = ngpus,
                                             .why_not = ngpus < 2 ? "fewer than two GPUs" : NULL};
    device_cases_add(suite);
    return test_main(suite);
}
