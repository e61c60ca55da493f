/* The machine's GPUs, for tests that need some. */
#ifndef TEST_GPUS_H
#define TEST_GPUS_H

/* How many there are, at most `most`. A child asks, so this process does not open the driver. */
int gpus_count(int most);

#endif
