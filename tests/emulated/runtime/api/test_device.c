/* Every function of symm/device.cuh on the emulated driver: worlds of 1 to 5 and 8 ranks. */
#include "device_bench.h"
#include "test.h"

struct device_setting device_setting = {
    .nworlds = TEST_TSAN ? 2 : 6, /* there everything takes twenty times as long */
    .worlds = {1, 2, 3, 4, 5, 8},
    .pair = 2,
    .emulated = true,
    .slow = TEST_TSAN,
};
