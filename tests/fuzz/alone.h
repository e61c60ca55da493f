/* Without libFuzzer: replays the files (or folders) given, else inputs from a fixed seed. */
#ifndef FUZZ_ALONE_H
#define FUZZ_ALONE_H

#include <stddef.h>
#include <stdint.h>

/* The target: each program has one. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

/* The next random number, of 0 to below - 1. */
uint32_t alone_chance(uint32_t below);

/* Replays the arguments, or calls make_up nmade_up times. Returns the value for main to return. */
int alone_main(int argc, char **argv, void (*make_up)(void), int nmade_up);

#endif
