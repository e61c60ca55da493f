/* What is special about the RMS norm of rows: its text, its arguments, the norm of one rank. */
#ifndef SYMM_RMS_NORM_H
#define SYMM_RMS_NORM_H

#include "runtime/group/call.h"
#include "arguments.h"
#include "planned.h"

/* Begins the call; its text has what the ranks must agree on. */
symm_status symm__rms_norm_begin(struct symm_call *e, symm_group *group,
                                 const struct symm_collective_call *call, const symm_rms_norm *norm,
                                 symm_stream stream);

/* Launches the kernel of a plan. all: the arguments of its all-reduce. */
symm_status symm__rms_norm_launch(struct symm_call *e, const struct symm_planned *planned, bool pdl,
                                  const symm_collective_args *all,
                                  const struct symm_norm_arguments *norm);

/* The same for a group of one rank. */
symm_status symm__rms_norm_alone(struct symm_call *e, const struct symm_limits *limits,
                                 const struct symm_collective_call *call,
                                 const struct symm_arguments *args);

#endif
