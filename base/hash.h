/* Hashes of numbers and bytes. */
#ifndef HAWK_BASE_HASH_H
#define HAWK_BASE_HASH_H

#include <stdint.h>

/* Spreads a number over 64 bits, for tables whose keys are ids given out in order. It must stay
 * splitmix64's finisher: rng.c seeds generators with it, and a seed's results must never change. */
static inline uint64_t hash_mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* The hash of two numbers. Different pairs may share one. */
static inline uint64_t hash_pair(uint64_t a, uint64_t b)
{
    return hash_mix(a * UINT64_C(0x9e3779b97f4a7c15) + b);
}

/* FNV-1a, 64 bits: begin with HASH_FNV1A, then add byte by byte. The number of an application is such a
 * hash, and travels on the wire. */
#define HASH_FNV1A UINT64_C(0xcbf29ce484222325)
static inline uint64_t hash_fnv1a(uint64_t h, uint8_t byte) { return (h ^ byte) * UINT64_C(0x100000001b3); }

#endif
