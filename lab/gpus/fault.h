/* What is wrong with the GPUs of a machine: the lines of DIR/fault, and of /run/fakegpu-fault for
 * one container or host alone, read again for every answer.
 * N is a card, by a name that is the same everywhere: its slot, nvidia<minor>, its uuid or its bus id; or * for all.
 *
 *   whole machine     no-driver  no-library  mismatch  no-permission  blocked  unknown-error  in-use
 *                     no-devices  count-failed
 *   one card          lost N   reset N   broken N (Unknown Error)   denied N
 *   the answer        hang S (deaf to SIGTERM)   slow S   cut [BYTES]   empty   exit RC TEXT
 *   cells             cell N FIELD-PATTERN TEXT        e.g.  cell * memory.* [N/A]
 *   fields            missing FIELD (this driver does not know it)
 *   processes         hide   apps [N] TEXT (one row of TEXT for the card, e.g. [Insufficient Permissions])
 *                     app N PID MIB NAME (one more row: a pid that does not exist, MIB [N/A], NAME [Not Found])
 *                     thread-ids (the thread that took the memory stands for its process)
 *   the table         bus-in-message (a card without a handle is named by its bus id)
 */
#ifndef FG_FAULT_H
#define FG_FAULT_H

#include "state.h"

#define FG_MAX_FAULTS 64

struct fg_faults {
    int count;
    struct {
        char verb[24], rest[232];
    } lines[FG_MAX_FAULTS];
};

/* NVML return codes that are used here. */
enum {
    FG_OK = 0, FG_UNINITIALIZED = 1, FG_INVALID_ARGUMENT = 2, FG_NOT_SUPPORTED = 3, FG_NO_PERMISSION = 4,
    FG_NOT_FOUND = 6, FG_INSUFFICIENT_SIZE = 7, FG_NO_DRIVER = 9, FG_TIMEOUT = 10, FG_NO_LIBRARY = 12,
    FG_NO_FUNCTION = 13, FG_LOST = 15,
    FG_RESET = 16, FG_BLOCKED = 17, FG_MISMATCH = 18, FG_IN_USE = 19, FG_NO_MEMORY = 20, FG_DEPRECATED = 26,
    FG_UNKNOWN = 999
};

void fg_read_faults(struct fg_faults *faults);

/* The rest of the first line with this verb ("" when it stands alone), or NULL. */
const char *fg_fault(const struct fg_faults *faults, const char *verb);

/* Does the first word of a fault's rest name this card? */
int fg_fault_names(const char *rest, const struct fg_card *card);

/* Is there a line "verb N" (or "verb *") for this card? */
int fg_fault_on_card(const struct fg_faults *faults, const char *verb, const struct fg_card *card);

/* The text that stands instead of a card's processes, or NULL. */
const char *fg_fault_apps(const struct fg_faults *faults, const struct fg_card *card);

/* Does this driver lack a field? */
int fg_fault_misses(const struct fg_faults *faults, const char *field);

/* The text that stands in a cell instead of its value, or NULL: of a fault, else of what such a card never tells. */
const char *fg_fault_cell(const struct fg_faults *faults, const struct fg_card *card, const char *field);

/* Sleeps as hang or slow say. */
void fg_fault_wait(const struct fg_faults *faults);

/* NVML code of why the driver cannot be spoken to from here: no cards file, no nvidiactl, no right to it. */
int fg_driver_code(void);

/* NVML code of the fault that stops initialisation; of one card's handle; of a cell text. FG_OK = none. */
int fg_fault_init_code(const struct fg_faults *faults);
int fg_fault_card_code(const struct fg_faults *faults, const struct fg_card *card);
int fg_code_of_cell(const char *text);

/* How NVML words a code ("Not Supported"). */
const char *fg_code_text(int code);

#endif
