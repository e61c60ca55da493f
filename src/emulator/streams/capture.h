/*
 * Stream capture. One lock guards all captures; it is taken before the lock of an execution. The
 * rules that a capture imposes on other calls are in capture_rules.c.
 */
#ifndef SYMM_EMULATOR_CAPTURE_H
#define SYMM_EMULATOR_CAPTURE_H

#include "nodes.h"

/* The position of an event that was recorded in a capture. */
struct emu_capture_point {
    struct emu_capture *capture; /* NULL: not recorded in one */
    uint64_t *seen;
    unsigned nseen;
};

void emu__capture_point_clear(struct emu_capture_point *point);

bool emu__capturing(struct CUstream_st *stream);
CUresult emu__capture_begin(struct CUstream_st *stream, int mode);
/* Ends the capture that the stream began. *nodes is the caller's; NULL unless it succeeds. */
CUresult emu__capture_end(struct CUstream_st *stream, struct emu_nodes **nodes);
/* The capture status of a stream, as cuStreamIsCapturing returns it, and its capture's id. */
int emu__capture_status(struct CUstream_st *stream, uint64_t *id);
/* Sets this thread's capture mode and returns the previous one. */
int emu__capture_set_mode(int mode);

/* Add a work to a capturing stream, and record an event in it. */
CUresult emu__capture_add(struct CUstream_st *stream, struct emu_work *work);
CUresult emu__capture_record(struct CUstream_st *stream, struct emu_capture_point *point);
/* A stream waits for an event that was recorded in a capture: it joins the capture, or the event's
 * branch. */
CUresult emu__capture_wait(struct CUstream_st *stream, const struct emu_capture_point *point);
/* The stream's handle is destroyed. */
void emu__capture_forget(struct CUstream_st *stream);
/* All streams of the execution are destroyed: its context ends. */
void emu__capture_close(const struct emu_execution *execution);

/* ---- Rules: each reports and invalidates the captures concerned ---- */

/* A capturing stream waits for an event recorded outside. */
CUresult emu__capture_isolation(struct CUstream_st *stream);
/* A call asks for the state of a capturing event or stream, or waits for it. */
CUresult emu__capture_refuse(struct emu_capture *capture, CUresult error, const char *call);
CUresult emu__capture_refuse_stream(struct CUstream_st *stream, const char *call);
/* The same for all streams of the execution. CUDA_SUCCESS: none captures. */
CUresult emu__capture_refuse_device(struct emu_execution *execution, const char *call);
/* The legacy stream may not be used while a blocking stream of its device captures. */
CUresult emu__capture_implicit(struct emu_execution *execution, bool invalidate);
/* The hook capture_forbids. */
CUresult emu__capture_forbids(void);

#endif
