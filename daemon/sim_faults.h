/* `hawk sim --faults`: random clusters with random faults (faults/faults.h). */
#ifndef HAWK_DAEMON_SIM_FAULTS_H
#define HAWK_DAEMON_SIM_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

struct sim_faults_flags {
    const char *seeds, *kinds;
    int64_t for_us, heal_us; /* 0: not given */
    uint32_t processes;      /* 0: all cores */
    bool log, single;
};

/* A line of the help; the list is that of faults/faults.h. */
#define SIM_FAULTS_KIND(name, text, help) "  " text ": " help "\n"
#define SIM_FAULTS_DETAILS                                                                                   \
    "--faults breaks streams, crashes processes and more, from one seed per run, and looks at every "        \
    "invariant after\n"                                                                                      \
    "every step; a failure prints the command that repeats it (docs/reliability.md). Kinds of faults:\n"     \
    "\n" FAULT_KINDS(SIM_FAULTS_KIND) "\n"                                                                   \
                                      "  hawk sim --faults --seed 4711 --log\n"                              \
                                      "  hawk sim --faults --seeds 1-10000 --output json\n"                  \
                                      "\n"                                                                   \
                                      "--single makes one fault at a time, and looks how long short jobs "   \
                                      "wait for it: 3.5 s at most.\n"

/* Runs them. Returns the exit code: 1 when an invariant was violated. */
int sim_faults(const struct sim_faults_flags *f, uint32_t seed, uint32_t jobs, const char *output);

#endif
