/* The plan of a simulated machine: a file with one act a line, its words separated by tabs. */
#ifndef LAB_PLAN_H
#define LAB_PLAN_H

/* Do what the plan says, in order; the caller has made the namespaces. Ends the process when an act fails. */
void carry_out(const char *path);

/* If the plan named a successor of PID 1, become that; else return. */
void make_way(void);

/* Report a trouble to whoever waits for the machine and end this process. */
void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
