/* Streams (stream.c). */
#ifndef SYMM_EMULATOR_STREAM_H
#define SYMM_EMULATOR_STREAM_H

struct emu_device;

/* The last reference to the primary context goes: drains the streams and ends their threads. */
void emu__streams_close(struct emu_device *device);

#endif
