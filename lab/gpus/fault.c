/* Reading DIR/fault. See fault.h. Compiled into nvidia-smi and the NVML mock: cc -O2 -Wall -Wextra -fPIC. */
#define _GNU_SOURCE
#include "fault.h"
#include "device.h"

#include <errno.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

static const char HERE_ONLY[] = "/run/fakegpu-fault";

static void read_file(const char *path, struct fg_faults *faults) {
    char line[260];
    FILE *file = fopen(path, "re");
    if (!file) return;
    while (faults->count < FG_MAX_FAULTS && fgets(line, sizeof line, file)) {
        int i = faults->count;
        faults->lines[i].rest[0] = 0;
        if (sscanf(line, "%23s %231[^\n]", faults->lines[i].verb, faults->lines[i].rest) >= 1) faults->count++;
    }
    fclose(file);
}

void fg_read_faults(struct fg_faults *faults) {
    char path[4096];
    faults->count = 0;
    read_file(fg_path(path, sizeof path, "fault"), faults);
    read_file(HERE_ONLY, faults);
}

const char *fg_fault(const struct fg_faults *faults, const char *verb) {
    for (int i = 0; i < faults->count; i++)
        if (!strcmp(faults->lines[i].verb, verb)) return faults->lines[i].rest;
    return NULL;
}

int fg_fault_names(const char *text, const struct fg_card *card) {
    char word[64] = "", slot[16], device[24];
    sscanf(text, "%63s", word);
    snprintf(slot, sizeof slot, "%d", card->slot);
    snprintf(device, sizeof device, "nvidia%d", card->minor);
    return !strcmp(word, "*") || !strcmp(word, slot) || !strcmp(word, device) || !strcasecmp(word, card->uuid) ||
           !strcasecmp(word, card->bus_id);
}

int fg_fault_on_card(const struct fg_faults *faults, const char *verb, const struct fg_card *card) {
    for (int i = 0; i < faults->count; i++)
        if (!strcmp(faults->lines[i].verb, verb) && fg_fault_names(faults->lines[i].rest, card)) return 1;
    return 0;
}

int fg_fault_misses(const struct fg_faults *faults, const char *field) {
    for (int i = 0; i < faults->count; i++)
        if (!strcmp(faults->lines[i].verb, "missing") && !strcmp(faults->lines[i].rest, field)) return 1;
    return 0;
}

const char *fg_fault_apps(const struct fg_faults *faults, const struct fg_card *card) {
    for (int i = 0; i < faults->count; i++) {
        const char *rest = faults->lines[i].rest, *text = strchr(rest, ' ');
        if (strcmp(faults->lines[i].verb, "apps")) continue;
        if (rest[0] == '[' || !text) return rest;
        if (fg_fault_names(rest, card)) return text + 1;
    }
    return NULL;
}

/* What a card of this kind never tells: its instances have the load, or the machine has the memory. */
static const char *untold(const struct fg_card *card, const char *field) {
    if (card->unified && !strncmp(field, "memory.", 7)) return "[N/A]";
    if (card->instance_count && !strncmp(field, "utilization.", 12)) return "[N/A]";
    if ((card->unified || card->desktop) && (!strncmp(field, "ecc.", 4) || !strncmp(field, "mig.", 4))) return "[N/A]";
    return NULL;
}

const char *fg_fault_cell(const struct fg_faults *faults, const struct fg_card *card, const char *field) {
    for (int i = 0; i < faults->count; i++) {
        char which[64], pattern[64];
        int end = 0;
        if (strcmp(faults->lines[i].verb, "cell")) continue;
        if (sscanf(faults->lines[i].rest, "%63s %63s %n", which, pattern, &end) != 2) continue;
        if (fg_fault_names(which, card) && !fnmatch(pattern, field, 0)) return faults->lines[i].rest + end;
    }
    return untold(card, field);
}

static void wait_seconds(double seconds) {
    struct timespec left = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&left, &left)) continue;
}

void fg_fault_wait(const struct fg_faults *faults) {
    const char *slow = fg_fault(faults, "slow"), *hang = fg_fault(faults, "hang");
    if (slow) wait_seconds(atof(slow));
    if (!hang) return;
    sigset_t all, before; /* a stuck driver call is not interrupted; SIGKILL still works here */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    wait_seconds(atof(hang));
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int fg_fault_init_code(const struct fg_faults *faults) {
    static const struct {
        const char *verb;
        int code;
    } TABLE[] = {{"no-driver", FG_NO_DRIVER}, {"no-library", FG_NO_LIBRARY}, {"mismatch", FG_MISMATCH},
                 {"no-permission", FG_NO_PERMISSION}, {"blocked", FG_BLOCKED}, {"in-use", FG_IN_USE},
                 {"unknown-error", FG_UNKNOWN}};
    for (size_t i = 0; i < sizeof TABLE / sizeof *TABLE; i++)
        if (fg_fault(faults, TABLE[i].verb)) return TABLE[i].code;
    return FG_OK;
}

int fg_driver_code(void) {
    struct fg_card cards[FG_MAX_CARDS];
    int count = fg_read_cards(cards);
    if (count <= 0) return count ? FG_NO_DRIVER : FG_OK;
    int fd = fg_open_device("nvidiactl", 0);
    if (fd < 0) return errno == EACCES ? FG_NO_PERMISSION : errno == EPERM ? FG_UNKNOWN : FG_NO_DRIVER;
    close(fd);
    return FG_OK;
}

int fg_fault_card_code(const struct fg_faults *faults, const struct fg_card *card) {
    if (fg_fault_on_card(faults, "lost", card)) return FG_LOST;
    if (fg_fault_on_card(faults, "reset", card)) return FG_RESET;
    if (fg_fault_on_card(faults, "broken", card)) return FG_UNKNOWN;
    return fg_fault_on_card(faults, "denied", card) ? FG_NO_PERMISSION : FG_OK;
}

static const struct {
    int code;
    const char *text, *cell;
} CODES[] = {
    {FG_OK, "Success", ""},
    {FG_UNINITIALIZED, "Uninitialized", ""},
    {FG_INVALID_ARGUMENT, "Invalid Argument", "[Invalid Argument]"},
    {FG_NOT_SUPPORTED, "Not Supported", "[N/A]"},
    {FG_NO_PERMISSION, "Insufficient Permissions", "[Insufficient Permissions]"},
    {FG_NOT_FOUND, "Not Found", "[Not Found]"},
    {FG_INSUFFICIENT_SIZE, "Insufficient Size", ""},
    {FG_NO_DRIVER, "Driver Not Loaded", "[Driver Not Loaded]"},
    {FG_TIMEOUT, "Timeout", "[Timeout]"},
    {FG_NO_LIBRARY, "NVML Shared Library Not Found", ""},
    {FG_NO_FUNCTION, "Function Not Found", "[Function Not Found]"},
    {FG_LOST, "GPU is lost", "[GPU is lost]"},
    {FG_RESET, "GPU requires reset", "[GPU requires reset]"},
    {FG_BLOCKED, "GPU access blocked by the operating system", ""},
    {FG_MISMATCH, "Driver/library version mismatch", "[Driver/library version mismatch]"},
    {FG_IN_USE, "In use by another client", ""},
    {FG_NO_MEMORY, "Insufficient Memory", "[Insufficient Memory]"},
    {FG_DEPRECATED, "Requested functionality has been deprecated", "[Requested functionality has been deprecated]"},
    {FG_UNKNOWN, "Unknown Error", "[Unknown Error]"},
};

const char *fg_code_text(int code) {
    for (size_t i = 0; i < sizeof CODES / sizeof *CODES; i++)
        if (CODES[i].code == code) return CODES[i].text;
    return "Unknown Error";
}

int fg_code_of_cell(const char *text) {
    if (!text || (text[0] >= '0' && text[0] <= '9')) return FG_OK;
    if (!strcmp(text, "[Not Supported]") || !strcmp(text, "N/A")) return FG_NOT_SUPPORTED;
    for (size_t i = 0; i < sizeof CODES / sizeof *CODES; i++)
        if (!strcmp(CODES[i].cell, text)) return CODES[i].code;
    return FG_UNKNOWN;
}
