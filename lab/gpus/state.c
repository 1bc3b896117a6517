/* Reading the simulated GPUs of a machine: cards, paths, sums. See state.h.
 * Compiled into every program here: cc -O2 -Wall -Wextra -fPIC (no libraries needed). */
#define _GNU_SOURCE
#include "state.h"
#include "device.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const char *fg_directory(void) {
    const char *directory = getenv("FAKEGPU_DIR");
    return directory && *directory ? directory : "/var/lib/fakegpu";
}

char *fg_path(char *buffer, size_t size, const char *name) {
    snprintf(buffer, size, "%s/%s", fg_directory(), name);
    return buffer;
}

unsigned long long fg_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned long long)now.tv_sec * 1000000000ULL + (unsigned long long)now.tv_nsec;
}

enum { MIB_OF_A_GB = 1006, FIRST_SMALL_INSTANCE = 7 }; /* the driver's "18gb" are about 18108 MiB */

/* PROFILE:UUID,PROFILE:UUID,... */
static void parse_instances(char *list, struct fg_card *card) {
    card->instance_count = 0;
    for (char *word; card->instance_count < FG_MAX_INSTANCES && (word = strsep(&list, ","));) {
        struct fg_instance *instance = &card->instances[card->instance_count];
        if (sscanf(word, "%15[^:]:%63s", instance->profile, instance->uuid) != 2) continue;
        const char *size = strchr(instance->profile, '.');
        instance->total = (size ? strtoull(size + 1, NULL, 10) : 0) * MIB_OF_A_GB;
        int small = instance->profile[0] == '1';
        instance->gpu_instance = (unsigned)(card->instance_count + (small ? FIRST_SMALL_INSTANCE : 1));
        card->instance_count++;
    }
}

static int parse_card(const char *line, struct fg_card *card) {
    char kind[16], instances[1024];
    if (sscanf(line, "%95[^|]|%63[^|]|%31[^|]|%llu|%llu|%llu|%31[^|]|%d|%15[^|]|%1023s", card->name, card->uuid,
               card->bus_id, &card->total, &card->reserved, &card->baseline, card->driver, &card->minor, kind,
               instances) != 10)
        return 0;
    card->unified = !strcmp(kind, "unified");
    card->desktop = !strcmp(kind, "desktop");
    parse_instances(instances, card);
    return 1;
}

static int by_bus(const void *one, const void *other) {
    return strcmp(((const struct fg_card *)one)->bus_id, ((const struct fg_card *)other)->bus_id);
}

int fg_read_cards(struct fg_card *cards) {
    char path[4096], line[1536];
    FILE *file = fopen(fg_path(path, sizeof path, "cards"), "re");
    if (!file) return -1;
    int count = 0, index = 0;
    while (count < FG_MAX_CARDS && fgets(line, sizeof line, file)) {
        if (!parse_card(line, &cards[count])) continue;
        cards[count].slot = count;
        count++;
    }
    fclose(file);
    qsort(cards, (size_t)count, sizeof *cards, by_bus);
    for (int i = 0; i < count; i++) cards[i].index = fg_can_open_card(cards[i].minor) ? index++ : -1;
    return count;
}

int fg_visible_cards(struct fg_card *cards) {
    int count = fg_read_cards(cards), kept = 0;
    for (int i = 0; i < count; i++)
        if (cards[i].index >= 0) cards[kept++] = cards[i];
    return count < 0 ? count : kept;
}

unsigned long long fg_used(const struct fg_card *card, const struct fg_context *contexts, int count) {
    unsigned long long used = card->baseline;
    for (int i = 0; i < count; i++)
        if (contexts[i].card == card->slot) used += contexts[i].mib;
    return used;
}

enum { INSTANCE_IDLE_MIB = 9 };

unsigned long long fg_instance_used(const struct fg_card *card, int instance, const struct fg_context *contexts,
                                    int count) {
    unsigned long long used = INSTANCE_IDLE_MIB;
    for (int i = 0; i < count; i++)
        if (contexts[i].card == card->slot && contexts[i].instance == instance) used += contexts[i].mib;
    return used;
}

unsigned long long fg_free(const struct fg_card *card, const struct fg_context *contexts, int count) {
    unsigned long long taken = card->reserved + fg_used(card, contexts, count);
    return taken < card->total ? card->total - taken : 0;
}

int fg_process_name(pid_t pid, char *buffer, size_t size) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    ssize_t length = read(fd, buffer, size - 1);
    close(fd);
    if (length <= 0) return -1; /* a process on its way out has no command line any more */
    buffer[length] = 0;         /* the first NUL ends argv[0] */
    for (char *c = buffer + strlen(buffer); c > buffer && c[-1] == ' '; c--) c[-1] = 0;
    return 0;
}
