/* The NVML calls that tell what a card needs before it can be used. Part of libnvidia-ml.so.1 (flags: see nvml.c).
 * A fault that spoils the cell of nvidia-smi speaks here too: "cell 0 gpu_recovery_action GPU Reset". */
#define _GNU_SOURCE
#include "nvml.h"

#include <stdlib.h>
#include <string.h>

enum { RECOVERY_ACTION = 230, UNSIGNED_INT = 1, FIRST_DRIVER = 580, COMPLETED = 3 };

struct field_value {
    unsigned field, scope;
    long long stamp, latency;
    unsigned type;
    int code;
    union {
        double number;
        unsigned whole;
        unsigned long long big;
    } value;
};

struct fabric_info {
    unsigned version;
    unsigned char cluster[16];
    int status;
    unsigned clique;
    unsigned char state;
    unsigned health;
};

/* The text that a fault puts into the cell, or NULL. */
static const char *said(nvml_device device, const char *cell) {
    static __thread struct fg_faults faults; /* the text points into it */
    fg_read_faults(&faults);
    return fg_fault_cell(&faults, device, cell);
}

/* The place of a text in a list, or -1. */
static int place(const char *text, const char *const *list, int count) {
    for (int i = 0; text && i < count; i++)
        if (!strcmp(text, list[i])) return i;
    return -1;
}

static void recovery_action(nvml_device device, struct field_value *out) {
    static const char *const ACTIONS[] = {"None", "GPU Reset", "Node Reboot", "Drain P2P", "Drain and Reset"};
    const char *text = said(device, "gpu_recovery_action");
    int action = place(text, ACTIONS, 5);
    out->type = UNSIGNED_INT;
    out->value.whole = action < 0 ? 0 : (unsigned)action;
    if (atoi(device->driver) < FIRST_DRIVER) out->code = FG_NOT_SUPPORTED;
    else out->code = text && action < 0 ? fg_code_of_cell(text) : FG_OK;
}

API int nvmlDeviceGetFieldValues(nvml_device device, int count, struct field_value *values) {
    int code = nvml_check(device);
    for (int i = 0; !code && i < count; i++) {
        values[i].code = FG_NOT_SUPPORTED;
        if (values[i].field == RECOVERY_ACTION) recovery_action(device, &values[i]);
    }
    return code;
}

API int nvmlDeviceGetGpuFabricInfoV(nvml_device device, struct fabric_info *out) {
    static const char *const STATES[] = {"N/A", "Not Started", "In Progress", "Completed"};
    int code = nvml_check(device), state = code ? -1 : place(said(device, "fabric.state"), STATES, 4);
    if (code) return code;
    out->state = state < 0 ? 0 : (unsigned char)state;
    const char *status = said(device, "fabric.status");
    out->status = state != COMPLETED || !status || !strcmp(status, "Success") ? FG_OK : FG_UNKNOWN;
    return FG_OK;
}
