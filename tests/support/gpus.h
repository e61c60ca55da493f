/* The machine's GPUs, for tests that need some. */
#ifndef TEST_GPUS_H
#define TEST_GPUS_H

/*
 * How many there are, at most `most`; asked by a child, so that the ranks start from a process that
 * never opened the driver.
 */
int gpus_count(int most);

#endif
