/* The simulated GPUs of one machine: a directory that every process of the machine shares.
 *
 *   cards           one card a line: name|uuid|bus id|total MiB|reserved MiB|baseline MiB|driver|minor|kind|MIG
 *                   (kind: plain, unified, desktop; MIG: PROFILE:UUID,... or -)
 *   contexts/ID     one file per piece of held memory, a fixed-width line (see context.c)
 *   lock            flock taken by whoever takes or grows memory (capacity check and take in one)
 *   fault           lines of what is wrong with this machine (see fault.h); absent = healthy
 *
 * A context is alive exactly as long as its process holds a POSIX record lock on the file: the
 * kernel drops the lock when the process really ends, whatever ends it, so nothing here polls and
 * no pid can be mistaken for another one. F_GETLK gives the owner in the pid namespace of the reader.
 */
#ifndef FG_STATE_H
#define FG_STATE_H

#include <sys/types.h>

#define FG_MAX_CARDS 16
#define FG_MAX_CONTEXTS 256
#define FG_MAX_INSTANCES 7

/* A card has three numbers: its slot (its line in `cards`: contexts name it, it never changes), its minor (its
 * device file is /dev/nvidia<minor>) and its index, which only holds where it is read: the driver counts, in the
 * order of the bus, those cards whose device file can be opened from there. */
struct fg_instance {
    char profile[16], uuid[64];
    unsigned long long total; /* MiB */
    unsigned gpu_instance;
};

struct fg_card {
    char name[96], uuid[64], bus_id[32], driver[32];
    unsigned long long total, reserved, baseline; /* MiB */
    int slot, minor;
    int unified; /* shares the machine's memory: tells none of its own */
    int desktop; /* a consumer card with a screen */
    int instance_count; /* MIG devices; 0: not in MIG mode */
    struct fg_instance instances[FG_MAX_INSTANCES];
    int index; /* -1: its device file cannot be opened from here */
};

/* What happens to the memory when its process is gone. */
enum fg_mode { FG_NORMAL, FG_DELAY, FG_LEAK };

struct fg_context {
    int card; /* its slot */
    unsigned long long mib;
    enum fg_mode mode;
    double delay;               /* seconds that the memory stays after the death */
    unsigned long long died_ns; /* CLOCK_MONOTONIC of the death, 0 = not noted */
    pid_t thread;               /* that took it, as numbered where it was taken */
    int instance;               /* MIG device of the card */
    char kind[4];               /* C, G or C+G */
    int live;                   /* its process still holds it */
    pid_t pid;                  /* in the reader's namespace; 0 = dead, or not visible from here */
};

/* FAKEGPU_DIR, else /var/lib/fakegpu. */
const char *fg_directory(void);

/* DIR/name into buffer; returns buffer. */
char *fg_path(char *buffer, size_t size, const char *name);

/* Reads all cards of the machine in the order of the bus; the count, or -1 when there is no cards file.
 * `cards` has FG_MAX_CARDS places. */
int fg_read_cards(struct fg_card *cards);

/* The same for the cards that can be used from here: cards[i].index is i. */
int fg_visible_cards(struct fg_card *cards);

/* Reads the contexts that still occupy memory and removes those that are free by now.
 * `contexts` has FG_MAX_CONTEXTS places. Safe in a process that itself holds contexts. */
int fg_read_contexts(struct fg_context *contexts);

/* Memory in use on a card (baseline included, reserved not), MiB. */
unsigned long long fg_used(const struct fg_card *card, const struct fg_context *contexts, int count);
/* Memory in use on one MIG device of a card, MiB. */
unsigned long long fg_instance_used(const struct fg_card *card, int instance, const struct fg_context *contexts,
                                    int count);
/* What a new process could still take from the card, MiB. */
unsigned long long fg_free(const struct fg_card *card, const struct fg_context *contexts, int count);

unsigned long long fg_now_ns(void);

/* Writes and reads the fixed-width record of a context file. Return 0, or -1. */
int fg_write_record(int fd, const struct fg_context *context);
int fg_read_record(int fd, struct fg_context *context);

/* argv[0] of a process as the driver would report it; 0, or -1 when it cannot be read. */
int fg_process_name(pid_t pid, char *buffer, size_t size);

#endif
