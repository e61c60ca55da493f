/* The emulated driver as a table of functions. */
#ifndef STANDIN_DRIVER_H
#define STANDIN_DRIVER_H

#include <stdbool.h>
#include "abi/cuda_driver.h"

struct driver {
#define DRIVER_FIELD_(fn, version, need, params) CUresult(*fn) params;
    CU_FUNCTIONS_EMULATED(DRIVER_FIELD_)
#undef DRIVER_FIELD_
};

extern struct driver cu; /* valid after driver_open */

/* Opens the driver that the program uses. False: there is none. */
bool driver_open(void);

#endif
