/* What the parts of the NVML mock share. A device handle is a pointer into the table of cards, or
 * of their MIG devices, each a card of its own there. */
#ifndef FG_NVML_H
#define FG_NVML_H

#include "fault.h"
#include "process.h"
#include "state.h"

#define API __attribute__((visibility("default")))

typedef const struct fg_card *nvml_device;

/* Set by initialisation. */
extern int nvml_ready;

/* Waits as a fault says; FG_OK, or why this card does not answer (FG_UNINITIALIZED before init). */
int nvml_check(nvml_device device);

/* Like nvml_check, and the code of a spoiled cell of nvidia-smi ("memory.used") for the same fact. */
int nvml_check_cell(nvml_device device, const char *cell);

/* The number that a fault puts into a cell, or `value`. */
unsigned nvml_number(nvml_device device, const char *cell, unsigned value);

/* The MIG device that this handle stands for: its card and number there, or NULL for a whole card. */
const struct fg_card *nvml_parent(nvml_device device, int *instance);

/* Is it a handle of a MIG device that nvml_mig.c gave out? */
int nvml_is_instance(nvml_device device);

/* Copies a text; FG_INSUFFICIENT_SIZE when it does not fit. */
int nvml_copy(char *out, unsigned size, const char *text);

/* Memory in use, MiB (baseline included, reserved not). */
unsigned long long nvml_used(nvml_device device);

#endif
