/* Every function of symm/device.cuh on the emulated driver: worlds of 1 to 5 and 8 ranks. */
#include "device_bench.h"
#include "test.h"

int main(void)
{
    Suite *suite = suite_create("device");
    device_setting = (struct device_setting){
        .nworlds = 6, .worlds = {1, 2, 3, 4, 5, 8}, .pair = 2, .emulated = true};
    if (TEST_TSAN) { /* everything takes twenty times as long */
        device_setting.nworlds = 2;
        device_setting.slow = true;
    }
    device_cases_add(suite);
    return test_main(suite);
}
